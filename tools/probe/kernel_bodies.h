#pragma once

#include <cstddef>
#include <cstdint>

#include "simgpu/kernel.h"
#include "tools/probe/hash.h"

/// Bodies of the probe's kernels: compiled by nvcc for the device, and by the host compiler for a device that
/// runs kernels on the CPU. kernels.def names the kernels made of them.
namespace tidepool::probe {

using Word = std::uint64_t;

/// Word i of a block that was written with this seed. Never zero, so that cleared memory shows.
SIMGPU_HD constexpr Word pattern_word(Word seed, Word i) {
  return (seed * 0x9e3779b97f4a7c15u + i * 0xd1b54a32d192ed03u) | 1;
}

/// Calls f(i) for the thread's share of n indices: i, i + (all threads), and so on.
template <class C, class F>
SIMGPU_HD void for_each_index(C& c, unsigned tid, Word n, F&& f) {
  const Word stride = Word{c.block_threads()} * c.grid_dim().x;
  for (Word i = c.global_x(tid); i < n; i += stride) f(i);
}

struct Empty {
  template <class C, class... A>
  SIMGPU_HD static void run(C& c, A...) {
    c.phase([](unsigned) {});
  }
};

/// Keeps the device busy for so many of its clock's cycles; nothing where kernels run on the CPU.
struct Spin {
  template <class C>
  SIMGPU_HD static void run(C& c, Word cycles) {
    c.phase([&](unsigned) {
#if defined(__CUDA_ARCH__)
      const long long start = clock64();
      while (static_cast<Word>(clock64() - start) < cycles) {
      }
#else
      static_cast<void>(cycles);
#endif
    });
  }
};

struct WriteWords {
  template <class C>
  SIMGPU_HD static void run(C& c, Word* to, Word n, Word seed) {
    c.writes(to, n * sizeof(Word));
    c.phase([&](unsigned tid) { for_each_index(c, tid, n, [&](Word i) { to[i] = pattern_word(seed, i); }); });
  }
};

/// Adds to *wrong how many words are not those of the seed.
struct CheckWords {
  template <class C>
  SIMGPU_HD static void run(C& c, const Word* from, Word n, Word seed, unsigned long long* wrong) {
    c.reads(from, n * sizeof(Word));
    c.writes(wrong, sizeof *wrong);
    c.phase([&](unsigned tid) {
      unsigned long long found = 0;
      for_each_index(c, tid, n, [&](Word i) { found += from[i] != pattern_word(seed, i) ? 1 : 0; });
      if (found != 0) c.atomic_add(wrong, found);
    });
  }
};

struct FillWords {
  template <class C>
  SIMGPU_HD static void run(C& c, Word* to, Word n, Word value) {
    c.writes(to, n * sizeof(Word));
    c.phase([&](unsigned tid) { for_each_index(c, tid, n, [&](Word i) { to[i] = value; }); });
  }
};

/// Adds to counts[0] how many words have the value, to counts[1] how many are not zero.
struct CountWords {
  template <class C>
  SIMGPU_HD static void run(C& c, const Word* from, Word n, Word value, unsigned long long* counts) {
    c.reads(from, n * sizeof(Word));
    c.writes(counts, 2 * sizeof *counts);
    c.phase([&](unsigned tid) {
      unsigned long long equal = 0;
      unsigned long long set = 0;
      for_each_index(c, tid, n, [&](Word i) {
        const Word word = from[i];
        equal += word == value ? 1 : 0;
        set += word != 0 ? 1 : 0;
      });
      if (equal != 0) c.atomic_add(counts, equal);
      if (set != 0) c.atomic_add(counts + 1, set);
    });
  }
};

/// Touch one word without declaring it: what is not mapped must be caught by the hardware.
struct ReadOne {
  template <class C>
  SIMGPU_HD static void run(C& c, const Word* at, Word* out) {
    c.phase([&](unsigned tid) {
      if (tid == 0 && c.block().x == 0) *out = *at;
    });
  }
};
struct WriteOne {
  template <class C>
  SIMGPU_HD static void run(C& c, Word* at, Word value) {
    c.phase([&](unsigned tid) {
      if (tid == 0 && c.block().x == 0) *at = value;
    });
  }
};

/// Two words that are loaded and stored as one.
struct alignas(16) WordPair {
  Word first, second;
};
/// Pairs that a thread loads before it uses the first: what hides the latency of memory.
constexpr int kUnroll = 4;

/// Calls f(pair index, pair) for the thread's share of n pairs; `words` lie at a multiple of 16 bytes.
template <class C, class F>
SIMGPU_HD void for_each_pair(C& c, unsigned tid, const Word* words, Word n, F&& f) {
  const auto* from = reinterpret_cast<const WordPair*>(words);
  const Word stride = Word{c.block_threads()} * c.grid_dim().x;
  Word i = c.global_x(tid);
  for (; i + (kUnroll - 1) * stride < n; i += kUnroll * stride) {
    WordPair pairs[kUnroll];
    for (int k = 0; k < kUnroll; ++k) pairs[k] = from[i + k * stride];
    for (int k = 0; k < kUnroll; ++k) f(i + k * stride, pairs[k]);
  }
  for (; i < n; i += stride) f(i, from[i]);
}

/// Reads n pairs. Stores only if the words' exclusive or has a certain value, so that nothing is left out.
struct ReadPairs {
  template <class C>
  SIMGPU_HD static void run(C& c, const Word* from, Word n, Word* out) {
    c.reads(from, n * sizeof(WordPair));
    c.phase([&](unsigned tid) {
      Word mix = 0;
      for_each_pair(c, tid, from, n, [&](Word, const WordPair& pair) { mix ^= pair.first ^ pair.second; });
      if (mix == 0x0123456789abcdefu) *out = mix;
    });
  }
};

/// Copies n pairs.
struct CopyPairs {
  template <class C>
  SIMGPU_HD static void run(C& c, const Word* from, Word* to, Word n) {
    c.reads(from, n * sizeof(WordPair));
    c.writes(to, n * sizeof(WordPair));
    c.phase([&](unsigned tid) {
      for_each_pair(c, tid, from, n,
                    [&](Word i, const WordPair& pair) { reinterpret_cast<WordPair*>(to)[i] = pair; });
    });
  }
};

/// Adds the contributions of n words (16-byte aligned) to the two sums. Blocks of kThreads threads.
struct HashWords {
  static constexpr unsigned kThreads = 256;

  template <class C>
  SIMGPU_HD static void run(C& c, const Word* from, Word n, unsigned long long* sums) {
    SIMGPU_SHARED(c, unsigned long long, partial, 2 * kThreads);
    c.reads(from, n * sizeof(Word));
    c.writes(sums, 2 * sizeof *sums);
    c.phase([&](unsigned tid) {
      Word low = 0;
      Word high = 0;
      const auto add = [&](Word i, Word word) {
        low += hash_word<0>(word, i);
        high += hash_word<1>(word, i);
      };
      for_each_pair(c, tid, from, n / 2, [&](Word i, const WordPair& pair) {
        add(2 * i, pair.first);
        add(2 * i + 1, pair.second);
      });
      if (n % 2 == 1 && c.global_x(tid) == 0) add(n - 1, from[n - 1]);
      partial[tid] = low;
      partial[kThreads + tid] = high;
    });
    for (unsigned half = kThreads / 2; half > 0; half /= 2) {
      c.phase([&](unsigned tid) {
        if (tid >= half) return;
        partial[tid] += partial[tid + half];
        partial[kThreads + tid] += partial[kThreads + tid + half];
      });
    }
    c.phase([&](unsigned tid) {
      if (tid < 2) c.atomic_add(sums + tid, partial[std::size_t{tid} * kThreads]);
    });
  }
};

/// Makes the hash of n words out of the sums, and clears them for the next.
struct FinishHash {
  template <class C>
  SIMGPU_HD static void run(C& c, unsigned long long* sums, Word n, Word* out) {
    c.writes(sums, 2 * sizeof *sums);
    c.writes(out, 2 * sizeof *out);
    c.phase([&](unsigned tid) {
      if (tid != 0) return;
      out[0] = hash_word<0>(sums[0], n);
      out[1] = hash_word<1>(sums[1], n);
      sums[0] = sums[1] = 0;
    });
  }
};

/// c = a b, n by n, n a multiple of kTile. Blocks of kTile by kTile threads, one for each tile of c.
struct Gemm {
  static constexpr unsigned kTile = 16;

  template <class C>
  SIMGPU_HD static void run(C& c, const float* a, const float* b, float* out, unsigned n) {
    SIMGPU_SHARED(c, float, left, kTile* kTile);
    SIMGPU_SHARED(c, float, right, kTile* kTile);
    auto sum = simgpu::local<float>(c);
    const std::size_t bytes = std::size_t{n} * n * sizeof(float);
    c.reads(a, bytes);
    c.reads(b, bytes);
    c.writes(out, bytes);
    for (unsigned k = 0; k < n; k += kTile) {
      c.phase([&](unsigned tid) {
        const unsigned x = c.thread(tid).x;
        const unsigned y = c.thread(tid).y;
        left[tid] = a[c.global_y(tid) * n + k + x];
        right[tid] = b[(std::size_t{k} + y) * n + c.global_x(tid)];
      });
      c.phase([&](unsigned tid) {
        const unsigned row = c.thread(tid).y * kTile;
        for (unsigned i = 0; i < kTile; ++i) sum(tid) += left[row + i] * right[i * kTile + c.thread(tid).x];
      });
    }
    c.phase([&](unsigned tid) { out[c.global_y(tid) * n + c.global_x(tid)] = sum(tid); });
  }
};

}  // namespace tidepool::probe
