#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tools/simgpu/fatbin/arch.h"

namespace simgpu::fatbin {

/// One parameter of a kernel: its place in the parameter buffer, in bytes.
struct Param {
  std::uint32_t offset = 0;
  std::uint32_t size = 0;

  friend bool operator==(const Param&, const Param&) = default;
};

/// A kernel of an image. Numbers that the image does not have (PTX is not compiled yet) are -1.
struct KernelFacts {
  std::string name;  ///< mangled
  std::vector<Param> params;
  /// False where the image contradicts itself about the parameters, or names none although it has some; then
  /// `params` is empty.
  bool params_known = true;
  int registers = -1;           ///< of a thread
  int static_shared_bytes = 0;  ///< of a block, without what the driver reserves
  int local_bytes = -1;         ///< of a thread
  int max_threads = 0;          ///< of a block, as __launch_bounds__ or __block_size__ say; 0: they do not
};

enum class Space { kGlobal, kConstant };

/// Bytes that a module keeps in device memory for its variables.
struct Segment {
  Space space = Space::kGlobal;
  std::uint64_t size = 0;
  std::uint64_t align = 1;         ///< a power of two
  std::vector<std::byte> initial;  ///< the first bytes; zero follows up to `size`
};

/// A __device__ or __constant__ variable.
struct VariableFacts {
  std::string name;  ///< as the program asks for it
  std::uint32_t segment = 0;
  std::uint64_t offset = 0;  ///< in its segment
  std::uint64_t size = 0;
  bool managed = false;       ///< __managed__: the runtime gives it managed memory
  bool initial_known = true;  ///< false where simgpu cannot read how PTX initialises it
};

/// A pointer inside an initial value: 8 bytes at `offset` of `segment`, to which the address of
/// (target_segment, target_offset) is added.
struct Relocation {
  std::uint32_t segment = 0;
  std::uint64_t offset = 0;
  std::uint32_t target_segment = 0;
  std::uint64_t target_offset = 0;
};

/// What simgpu knows of a module after reading its image; owns everything.
struct ModuleFacts {
  Arch arch;
  bool from_ptx = false;
  int ptx_major = 0;  ///< language version of PTX
  int ptx_minor = 0;
  std::vector<KernelFacts> kernels;  ///< in the order of the image
  std::vector<Segment> segments;
  std::vector<VariableFacts> variables;
  std::vector<Relocation> relocations;

  /// Bytes of user constants (CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES).
  [[nodiscard]] std::uint64_t constant_bytes() const {
    std::uint64_t bytes = 0;
    for (const Segment& segment : segments) {
      if (segment.space == Space::kConstant) bytes += segment.size;
    }
    return bytes;
  }
};

/// No segment of a module may be larger.
inline constexpr std::uint64_t kLargestSegment = std::uint64_t{1} << 40;

}  // namespace simgpu::fatbin
