#pragma once

#include <cstddef>
#include <cstdint>

namespace simgpu::digest {

/// 128 bits that stand for all that went into them.
struct Mix {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  friend constexpr bool operator==(const Mix&, const Mix&) = default;
};

/// Takes bytes in and makes a Mix of them (XXH3, 128 bits). The order counts, so nothing cancels. Allocates
/// nothing and needs no destructor: may run where an illegal access can end it.
class Mixer {
 public:
  Mixer();
  void bytes(const void* from, std::size_t n);
  void number(std::uint64_t n) { bytes(&n, sizeof n); }
  [[nodiscard]] Mix mix() const;

 private:
  alignas(64) unsigned char state_[576];
};

/// 64 bits from 192, for numbers that must not be equal by chance.
std::uint64_t scatter(const Mix& mix, std::uint64_t n);

}  // namespace simgpu::digest
