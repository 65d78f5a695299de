#pragma once

#include <cstdint>

#include "simgpu/kernel.h"

namespace workload {

/// Philox4x32-10, a generator whose numbers are a function of a counter and a key: Salmon, Moraes, Dror,
/// Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
struct Philox {
  std::uint32_t word[4];
};

SIMGPU_HD inline Philox philox(Philox counter, std::uint32_t key0, std::uint32_t key1) {
  constexpr int kRounds = 10;
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t first = std::uint64_t{0xD2511F53} * counter.word[0];
    const std::uint64_t second = std::uint64_t{0xCD9E8D57} * counter.word[2];
    counter = {{static_cast<std::uint32_t>(second >> 32) ^ counter.word[1] ^ key0,
                static_cast<std::uint32_t>(second),
                static_cast<std::uint32_t>(first >> 32) ^ counter.word[3] ^ key1,
                static_cast<std::uint32_t>(first)}};
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  return counter;
}

}  // namespace workload
