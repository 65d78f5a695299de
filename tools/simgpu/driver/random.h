#pragma once

#include <cstdint>

namespace simgpu {

/// A small seeded generator (splitmix64). The same seed and the same questions give the same answers on every
/// machine, which is what makes a run repeatable.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() noexcept {
    state_ += 0x9e3779b97f4a7c15U;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  }
  /// A number in [0, n); n is not 0.
  std::uint64_t below(std::uint64_t n) noexcept { return next() % n; }
  /// True once in n on average.
  bool one_in(std::uint64_t n) noexcept { return below(n) == 0; }

 private:
  std::uint64_t state_;
};

}  // namespace simgpu
