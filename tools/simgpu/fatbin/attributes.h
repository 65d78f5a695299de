#pragma once

#include <cstdint>

#include "tools/simgpu/fatbin/bytes.h"

namespace simgpu::fatbin {

/// One attribute of a .nv.info or .nv.compat section.
struct Attribute {
  std::uint8_t kind = 0;
  std::uint16_t immediate = 0;  ///< of the short forms
  Bytes data;                   ///< of the long form
};

/// Reads attributes one after another. Short forms are four bytes: form, kind and a value of up to 16 bits;
/// the long form has the length of its data in place of the value.
class AttributeReader {
 public:
  explicit AttributeReader(Bytes section) : section_(section) {}

  /// False at the end, and where the section is damaged; sound() tells these apart.
  bool next(Attribute* out);
  [[nodiscard]] bool sound() const { return sound_; }

 private:
  Bytes section_;
  std::uint64_t offset_ = 0;
  bool sound_ = true;
};

inline constexpr std::uint8_t kMaxThreads = 0x05;  ///< of __launch_bounds__: x, y, z
inline constexpr std::uint8_t kParamBank =
    0x0a;  ///< symbol, offset and size of the parameters (16 bits each)
inline constexpr std::uint8_t kRequiredThreads = 0x10;  ///< of __block_size__: x, y, z
inline constexpr std::uint8_t kFrameSize = 0x11;        ///< symbol, bytes
inline constexpr std::uint8_t kMinStackSize = 0x12;     ///< symbol, bytes, with what it calls
inline constexpr std::uint8_t kParamInfo = 0x17;        ///< one parameter
inline constexpr std::uint8_t kParamBankSize = 0x19;    ///< bytes of all parameters
inline constexpr std::uint8_t kRegisterCount = 0x2f;    ///< symbol, registers
inline constexpr std::uint8_t kLargeParamInfo = 0x45;   ///< one parameter, in kernels with more than 4 KiB

}  // namespace simgpu::fatbin
