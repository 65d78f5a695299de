#pragma once

#include <cstddef>
#include <cstdint>

#include "allocator/support/content_hash_kernel.h"
#include "simgpu/kernel.h"

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
