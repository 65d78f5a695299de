#pragma once

#include <cstdint>

#include "allocator/support/content_hash.h"

/// The kernel that hashes device memory, as a template of what runs it: nvcc's threads, or a loop on a CPU.
/// The context C has block(), grid_dim(), block_threads(), global_x(tid), phase(f) (f(tid) for each thread of
/// the block, then a barrier), atomic_add, reads and writes (what the block touches), on_host() (the block's
/// work may be a plain loop) and, where that is not a device, block_array<T>(count), zeroed memory of the
/// block.
namespace tidepool {

/// Two words that are loaded and stored as one.
struct alignas(16) WordPair {
  std::uint64_t first, second;
};
/// Pairs that a thread loads before it uses the first: what hides the latency of memory.
constexpr int kUnrolledPairs = 4;

/// Calls f(pair index, pair) for the thread's share of n pairs; `words` lie at a multiple of 16 bytes.
template <class C, class F>
TP_HD void for_each_pair(C& c, unsigned tid, const void* words, std::uint64_t n, F&& f) {
  const auto* from = static_cast<const WordPair*>(words);
  const std::uint64_t stride = std::uint64_t{c.block_threads()} * c.grid_dim().x;
  std::uint64_t i = c.global_x(tid);
  for (; i + (kUnrolledPairs - 1) * stride < n; i += kUnrolledPairs * stride) {
    WordPair pairs[kUnrolledPairs];
    for (int k = 0; k < kUnrolledPairs; ++k) pairs[k] = from[i + k * stride];
    for (int k = 0; k < kUnrolledPairs; ++k) f(i + k * stride, pairs[k]);
  }
  for (; i < n; i += stride) f(i, from[i]);
}

/// Where the blocks of one launch meet, in device memory. Zero before the first launch; each launch leaves
/// all but `hash` zero. Launches that use one slot must follow each other.
struct HashSlot {
  unsigned long long sums[2];
  unsigned long long arrived;  ///< blocks that have added their sums
  unsigned long long unused;
  ContentHash hash;
  unsigned long long padding[2];
};
static_assert(sizeof(HashSlot) == 64, "one slot, one pair of sectors");

/// One for all hashes of a device, in its memory; zero before the first. The host may give hashes up that
/// have not begun, and then take the memory away that they were to read: it writes `void_up_to`, and once it
/// has read `left` and after that an equal `entered`, no thread reads for one of them, now or later. A block
/// of threads counts itself in before it looks, so one of the two sees the other.
struct HashControl {
  unsigned long long void_up_to;  ///< hashes with numbers up to this read nothing, and make no hash
  unsigned long long entered;     ///< blocks that have begun, of all hashes
  unsigned long long left;        ///< of those, the ones that read no more
  unsigned long long padding[5];
};
static_assert(sizeof(HashControl) == sizeof(HashSlot), "slots follow it");

/// Hashes `size` bytes at any address into slot->hash, as content_hash() does. Blocks of kThreads threads, as
/// many as one likes. `control` null: the hash is never given up.
struct HashContent {
  static constexpr unsigned kThreads = 256;
  static constexpr std::uint64_t kWord = sizeof(std::uint64_t);

  struct Sums {
    std::uint64_t low, high;
    TP_HD void add(std::uint64_t i, std::uint64_t word) {
      low += hash_word<0>(word, i);
      high += hash_word<1>(word, i);
    }
  };

  template <class C>
  TP_HD static void run(C& c, const unsigned char* from, unsigned long long size, HashSlot* slot,
                        HashControl* control, unsigned long long number) {
    const std::uint64_t words = (size + kWord - 1) / kWord;
    // Where the block is a loop, its words lie together.
    const std::uint64_t share = (words + c.grid_dim().x - 1) / c.grid_dim().x;
    const std::uint64_t first = min_of(c.block().x * share, words);
    const std::uint64_t last = min_of(first + share, words);
    c.writes(slot, sizeof *slot);
    if (c.on_host()) {
      Sums sums{0, 0};
      if (!enter(c, control, number)) {
        if (first < last) c.reads(from + first * kWord, min_of(last * kWord, size) - first * kWord);
        for (std::uint64_t i = first; i < last; ++i) sums.add(i, word_at(from, size, i));
      }
      c.phase([&](unsigned tid) {
        if (tid == 0) arrive(c, sums.low, sums.high, size, slot);
      });
      leave(c, control);
      return;
    }
    if (first < last) c.reads(from + first * kWord, min_of(last * kWord, size) - first * kWord);
#if defined(__CUDA_ARCH__)
    __shared__ unsigned long long partial[2 * kThreads + 1];
#else
    auto* partial = c.template block_array<unsigned long long>(2 * kThreads + 1);
#endif
    c.phase([&](unsigned tid) {
      if (tid == 0) partial[2 * kThreads] = enter(c, control, number) ? 1 : 0;
    });
    c.phase([&](unsigned tid) {
      const Sums sums = partial[2 * kThreads] == 0 ? sums_of_thread(c, tid, from, size) : Sums{0, 0};
      partial[tid] = sums.low;
      partial[kThreads + tid] = sums.high;
    });
    for (unsigned half = kThreads / 2; half > 0; half /= 2) {
      c.phase([&](unsigned tid) {
        if (tid >= half) return;
        partial[tid] += partial[tid + half];
        partial[kThreads + tid] += partial[kThreads + tid + half];
      });
    }
    c.phase([&](unsigned tid) {
      if (tid != 0) return;
      leave(c, control);
      arrive(c, partial[0], partial[kThreads], size, slot);
    });
  }

 private:
  TP_HD static std::uint64_t min_of(std::uint64_t a, std::uint64_t b) {
    return a < b ? a : b;
  }

  /// Word i of any address, byte by byte: what lies behind the end is not touched.
  TP_HD static std::uint64_t word_at(const unsigned char* from, std::uint64_t size, std::uint64_t i) {
    const std::uint64_t left = size - i * kWord;
    std::uint64_t word = 0;
#if !defined(__CUDA_ARCH__)
    if (left >= kWord) {
      std::memcpy(&word, from + i * kWord, kWord);
      return word;
    }
#endif
    for (std::uint64_t k = 0; k < kWord && k < left; ++k) {
      word |= std::uint64_t{from[i * kWord + k]} << (8 * k);
    }
    return word;
  }

  template <class C>
  TP_HD static Sums sums_of_thread(C& c, unsigned tid, const unsigned char* from, std::uint64_t size) {
    Sums sums{0, 0};
    std::uint64_t done = 0;  // words that the pairs hold
    if (reinterpret_cast<std::uintptr_t>(from) % sizeof(WordPair) == 0) {
      const std::uint64_t pairs = size / sizeof(WordPair);
      for_each_pair(c, tid, from, pairs, [&](std::uint64_t i, const WordPair& pair) {
        sums.add(2 * i, pair.first);
        sums.add(2 * i + 1, pair.second);
      });
      done = 2 * pairs;
    }
    const std::uint64_t words = (size + kWord - 1) / kWord;
    const std::uint64_t stride = std::uint64_t{c.block_threads()} * c.grid_dim().x;
    for (std::uint64_t i = done + c.global_x(tid); i < words; i += stride)
      sums.add(i, word_at(from, size, i));
    return sums;
  }

  /// Nothing moves across it, neither before nor after.
  TP_HD static void fence() {
#if defined(__CUDA_ARCH__)
    __threadfence();
#endif
  }

  /// The same, also for who looks from outside of the device.
  TP_HD static void fence_system() {
#if defined(__CUDA_ARCH__)
    __threadfence_system();
#endif
  }

  /// The block begins; true if the hash was given up and it must not read.
  template <class C>
  TP_HD static bool enter(C& c, HashControl* control, unsigned long long number) {
    if (control == nullptr) return false;
    constexpr unsigned long long kOne = 1;
    c.atomic_add(&control->entered, kOne);
    fence_system();
    return *static_cast<const volatile unsigned long long*>(&control->void_up_to) >= number;
  }

  /// No thread of the block reads any more.
  template <class C>
  TP_HD static void leave(C& c, HashControl* control) {
    if (control == nullptr) return;
    constexpr unsigned long long kOne = 1;
    fence_system();
    c.atomic_add(&control->left, kOne);
  }

  /// Adds the block's sums. The block that comes last finds those of all others there, makes the hash of them
  /// and clears the slot.
  template <class C>
  TP_HD static void arrive(C& c, unsigned long long low, unsigned long long high, std::uint64_t size,
                           HashSlot* slot) {
    constexpr unsigned long long kNothing = 0;
    constexpr unsigned long long kOne = 1;
    c.atomic_add(&slot->sums[0], low);
    c.atomic_add(&slot->sums[1], high);
    fence();
    if (c.atomic_add(&slot->arrived, kOne) + 1 != c.grid_dim().x) return;
    fence();
    slot->hash.lanes[0] = hash_word<0>(c.atomic_add(&slot->sums[0], kNothing), size);
    slot->hash.lanes[1] = hash_word<1>(c.atomic_add(&slot->sums[1], kNothing), size);
    slot->sums[0] = slot->sums[1] = slot->arrived = 0;
  }
};

}  // namespace tidepool
