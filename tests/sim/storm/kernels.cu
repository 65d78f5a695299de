#include "simgpu/kernel.h"
#include "tests/sim/storm/kernels.h"

namespace storm {
namespace {

using Word = std::uint32_t;
constexpr unsigned kThreads = 64;

SIMGPU_HD Word mix(Word salt, std::size_t k) {
  Word x = static_cast<Word>(k) * 2654435761u + salt;
  x ^= x >> 15;
  return x * 2246822519u;
}

/// Calls f(k) for the words that this kernel is about.
template <class C, class F>
SIMGPU_HD void each(C& c, std::size_t words, unsigned stride, F f) {
  const std::size_t threads = std::size_t{c.block_threads()} * c.grid_dim().x;
  c.phase([&](unsigned tid) {
    for (std::size_t i = c.global_x(tid); i * stride < words; i += threads) f(i * stride);
  });
}

struct Out {
  Word* at;
  std::size_t words;
  Word salt;
  unsigned stride;
};

struct In {
  const Word* at;
  std::size_t words;
};

struct Fill {
  template <class C>
  SIMGPU_HD static void run(C& c, Out to) {
    c.writes(to.at, to.words * sizeof(Word));
    each(c, to.words, to.stride, [&](std::size_t k) { to.at[k] = mix(to.salt, k); });
  }
};
SIMGPU_KERNEL(fill, Fill, (Out to), to)

// Its pointers are parameters of their own, at odd places between scalars.
struct Map {
  template <class C>
  SIMGPU_HD static void run(C& c, Word salt, const Word* from, unsigned stride, Word* to, std::size_t words,
                            std::size_t from_words) {
    c.reads(from, from_words * sizeof(Word));
    c.writes(to, words * sizeof(Word));
    each(c, words, stride, [&](std::size_t k) { to[k] = from[k % from_words] * 5u + mix(salt, k); });
  }
};
SIMGPU_KERNEL(map, Map,
              (Word salt, const Word* from, unsigned stride, Word* to, std::size_t words,
               std::size_t from_words),
              salt, from, stride, to, words, from_words)

struct Update {
  template <class C>
  SIMGPU_HD static void run(C& c, Out to) {
    c.reads(to.at, to.words * sizeof(Word));
    c.writes(to.at, to.words * sizeof(Word));
    each(c, to.words, to.stride, [&](std::size_t k) {
      const Word old = to.at[k];
      to.at[k] = ((old << 7) | (old >> 25)) ^ mix(to.salt, k);
    });
  }
};
SIMGPU_KERNEL(update, Update, (Out to), to)

template <class C>
SIMGPU_HD void declare_sources(C& c, const Sources& sources) {
  for (unsigned i = 0; i < sources.count; ++i) {
    c.reads(sources.list.in[i].at, sources.list.in[i].words * sizeof(Word));
  }
}

/// `sources` are looked at in phases only: they may be in memory.
template <class C>
SIMGPU_HD void gather_from(C& c, const Sources& sources, Out to) {
  c.writes(to.at, to.words * sizeof(Word));
  each(c, to.words, to.stride, [&](std::size_t k) {
    Word sum = to.salt;
    for (unsigned i = 0; i < sources.count; ++i) {
      const auto& in = sources.list.in[i];
      sum = sum * 3u + in.at[k % in.words];
    }
    to.at[k] = sum;
  });
}

struct Gather {
  template <class C>
  SIMGPU_HD static void run(C& c, Sources sources, Out to) {
    declare_sources(c, sources);
    gather_from(c, sources, to);
  }
};
SIMGPU_KERNEL(gather, Gather, (Sources sources, Out to), sources, to)

struct GatherByTable {
  template <class C>
  SIMGPU_HD static void run(C& c, const Sources* table, Out to) {
    c.reads(table, sizeof *table);
    c.phase([&](unsigned tid) {
      if (c.global_x(tid) == 0) declare_sources(c, *table);
    });
    gather_from(c, *table, to);
  }
};
SIMGPU_KERNEL(gather_by_table, GatherByTable, (const Sources* table, Out to), table, to)

struct Sum {
  template <class C>
  SIMGPU_HD static void run(C& c, In from, Out to) {
    c.reads(from.at, from.words * sizeof(Word));
    c.reads(to.at, sizeof(Word));
    c.writes(to.at, sizeof(Word));
    each(c, from.words, to.stride, [&](std::size_t k) { c.atomic_add(to.at, from.at[k]); });
  }
};
SIMGPU_KERNEL(sum, Sum, (In from, Out to), from, to)

/// The arguments are of the very types of the kernel's parameters.
template <class... A>
cudaError_t start(void (*kernel)(A...), unsigned grid, cudaStream_t stream, const Calls& calls,
                  A... arguments) {
  if (calls.launch_kernel != nullptr) {
    void* all[] = {&arguments...};
    return calls.launch_kernel(reinterpret_cast<const void*>(kernel), dim3(grid), dim3(kThreads), all, 0,
                               stream);
  }
  kernel<<<grid, kThreads, 0, stream>>>(arguments...);
  return cudaGetLastError();
}

}  // namespace

Sources sources_of(const Launch& what) {
  Sources sources{};
  sources.count = static_cast<unsigned char>(what.sources);
  for (unsigned i = 0; i < what.sources; ++i) sources.list.in[i] = {what.from[i], what.from_words[i]};
  return sources;
}

cudaError_t launch_by_table(const Launch& what, const Sources* table, cudaStream_t stream,
                            const Calls& calls) {
  return start(gather_by_table, what.grid, stream, calls, table,
               Out{what.to, what.words, what.salt, what.stride});
}

cudaError_t launch(const Launch& what, cudaStream_t stream, const Calls& calls) {
  const Out to{what.to, what.words, what.salt, what.stride};
  switch (what.kind) {
    case Kind::kFill:
      return start(fill, what.grid, stream, calls, to);
    case Kind::kMap:
      return start(map, what.grid, stream, calls, what.salt, what.from[0], what.stride, what.to, what.words,
                   what.from_words[0]);
    case Kind::kUpdate:
      return start(update, what.grid, stream, calls, to);
    case Kind::kGather:
      return start(gather, what.grid, stream, calls, sources_of(what), to);
    case Kind::kSum:
      return start(sum, what.grid, stream, calls, In{what.from[0], what.from_words[0]}, to);
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace storm
