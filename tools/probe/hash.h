#pragma once

#include <cstddef>
#include <cstdint>

#include "simgpu/kernel.h"

/// The 128-bit hash of device memory that the probe times: two lanes of 64 bits that share nothing.
///
/// Word i (64 bits, little-endian) of a block of n words adds m_k(w_i + i * g_k) to lane k, where m_k is
///   x ^= x >> 32;  x *= a_k;  x ^= x >> 32;  x *= b_k;  x ^= x >> 32   (modulo 2^64; constants odd, below).
/// m_k is a bijection, so changing one word always changes both lanes, and the index is in the sum, so that
/// equal words at other places count differently. The sum does not depend on the order in which words are
/// added: any number of threads may share the work. A lane ends as m_k(sum + n * g_k).
///
/// All three shifts are needed: without the first and the last, what flips the top bits of two words cancels
/// in half of all cases, in both lanes at once, and a wrong sign is no rare mistake.
/// It guards against mistakes, not against an adversary.
namespace tidepool::probe {

struct Hash {
  std::uint64_t lanes[2];
};

/// The lane's mixing, m_k.
template <int kLane>
SIMGPU_HD constexpr std::uint64_t hash_mix(std::uint64_t x) {
  constexpr std::uint64_t kFirst = kLane == 0 ? 0xbf58476d1ce4e5b9u : 0xff51afd7ed558ccdu;
  constexpr std::uint64_t kSecond = kLane == 0 ? 0x94d049bb133111ebu : 0xc4ceb9fe1a85ec53u;
  x = (x ^ (x >> 32)) * kFirst;
  x = (x ^ (x >> 32)) * kSecond;
  return x ^ (x >> 32);
}

/// What word i adds to the lane; and, of its sum and the number of words, the lane's result.
template <int kLane>
SIMGPU_HD constexpr std::uint64_t hash_word(std::uint64_t word, std::uint64_t i) {
  constexpr std::uint64_t kStep = kLane == 0 ? 0x9e3779b97f4a7c15u : 0xd1b54a32d192ed03u;
  return hash_mix<kLane>(word + i * kStep);
}

/// The hash of n words in host memory: what the kernel must give.
constexpr Hash hash_words(const std::uint64_t* words, std::size_t n) {
  Hash sum{};
  for (std::size_t i = 0; i < n; ++i) {
    sum.lanes[0] += hash_word<0>(words[i], i);
    sum.lanes[1] += hash_word<1>(words[i], i);
  }
  return {{hash_word<0>(sum.lanes[0], n), hash_word<1>(sum.lanes[1], n)}};
}

}  // namespace tidepool::probe
