#pragma once

#include <cstdint>

namespace simgpu::digest {

/// What a kernel does to memory that it gets a pointer to. The values are bits: `kIn | kOut == kInOut`.
enum class Access : std::uint8_t { kNone = 0, kIn = 1, kOut = 2, kInOut = 3 };

constexpr Access operator|(Access a, Access b) {
  return static_cast<Access>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}
constexpr bool reads(Access a) {
  return (static_cast<unsigned>(a) & static_cast<unsigned>(Access::kIn)) != 0;
}
constexpr bool writes(Access a) {
  return (static_cast<unsigned>(a) & static_cast<unsigned>(Access::kOut)) != 0;
}

/// Bytes [begin, end) of the device's address space.
struct Span {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;

  [[nodiscard]] constexpr std::uint64_t bytes() const { return end - begin; }
  [[nodiscard]] constexpr bool empty() const { return end <= begin; }
  friend constexpr bool operator==(const Span&, const Span&) = default;
};

/// Where one parameter lies in a kernel's parameter buffer.
struct Slot {
  std::uint32_t offset = 0;  ///< bytes from the start of the buffer
  std::uint32_t size = 0;    ///< bytes
};

}  // namespace simgpu::digest
