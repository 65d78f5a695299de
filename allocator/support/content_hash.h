#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

/// For functions that the host and the device share.
#if defined(__CUDACC__)
#define TP_HD __host__ __device__
#else
#define TP_HD
#endif

/// The content hash of a piece of memory: 128 bits in two lanes of 64 that share nothing.
///
/// The bytes are words of 64 bits, little-endian; the last is filled up with zeros. Word i adds
/// m_k(w_i + i * g_k) to lane k, where m_k is
///   x ^= x >> 32;  x *= a_k;  x ^= x >> 32;  x *= b_k;  x ^= x >> 32   (modulo 2^64; constants odd, below),
/// and a lane of n bytes ends as m_k(sum + n * g_k).
///
/// m_k is a bijection, so changing one word always changes both lanes, and the index is in the sum, so that
/// equal words at other places count differently. The sum does not depend on the order in which words are
/// added: any number of threads may share the work.
///
/// All three shifts are needed: without the first and the last, what flips the top bits of two words cancels
/// in half of all cases, in both lanes at once, and a wrong sign is no rare mistake.
/// It guards against chance, not against an adversary: docs/explanation/decisions/0017 has the reasoning.
namespace tidepool {

struct ContentHash {
  std::uint64_t lanes[2];

  friend constexpr bool operator==(const ContentHash& a, const ContentHash& b) noexcept {
    return a.lanes[0] == b.lanes[0] && a.lanes[1] == b.lanes[1];
  }
  friend constexpr bool operator!=(const ContentHash& a, const ContentHash& b) noexcept { return !(a == b); }
};

/// The lane's mixing, m_k.
template <int kLane>
TP_HD constexpr std::uint64_t hash_mix(std::uint64_t x) noexcept {
  constexpr std::uint64_t kFirst = kLane == 0 ? 0xbf58476d1ce4e5b9u : 0xff51afd7ed558ccdu;
  constexpr std::uint64_t kSecond = kLane == 0 ? 0x94d049bb133111ebu : 0xc4ceb9fe1a85ec53u;
  x = (x ^ (x >> 32)) * kFirst;
  x = (x ^ (x >> 32)) * kSecond;
  return x ^ (x >> 32);
}

/// What word i adds to the lane; and, of its sum and the number of bytes, the lane's result.
template <int kLane>
TP_HD constexpr std::uint64_t hash_word(std::uint64_t word, std::uint64_t i) noexcept {
  constexpr std::uint64_t kStep = kLane == 0 ? 0x9e3779b97f4a7c15u : 0xd1b54a32d192ed03u;
  return hash_mix<kLane>(word + i * kStep);
}

/// The hash of host memory that is given piece by piece. Hook-safe.
class ContentHasherOfHost {
 public:
  /// The next `size` bytes, at any address; a multiple of 8 but for the last piece.
  void add(const void* bytes, std::size_t size) noexcept {
    constexpr std::size_t kWord = sizeof(std::uint64_t);
    const auto* from = static_cast<const unsigned char*>(bytes);
    const std::uint64_t first = size_ / kWord;
    const std::size_t words = size / kWord;
    for (std::size_t i = 0; i < words; ++i) add_word(from + i * kWord, kWord, first + i);
    if (size % kWord != 0) add_word(from + words * kWord, size % kWord, first + words);
    size_ += size;
  }
  [[nodiscard]] ContentHash result() const noexcept {
    return {{hash_word<0>(sum_.lanes[0], size_), hash_word<1>(sum_.lanes[1], size_)}};
  }

 private:
  void add_word(const unsigned char* from, std::size_t size, std::uint64_t i) noexcept {
    std::uint64_t word = 0;
    std::memcpy(&word, from, size);
    sum_.lanes[0] += hash_word<0>(word, i);
    sum_.lanes[1] += hash_word<1>(word, i);
  }

  ContentHash sum_{};
  std::uint64_t size_ = 0;
};

/// The hash of `size` bytes of host memory, at any address. Hook-safe.
inline ContentHash content_hash(const void* bytes, std::size_t size) noexcept {
  ContentHasherOfHost hasher;
  hasher.add(bytes, size);
  return hasher.result();
}

}  // namespace tidepool
