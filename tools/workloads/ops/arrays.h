#pragma once

#include <cstddef>

#include "simgpu/kernel.h"

/// What kernel bodies of several workloads share: indices and sizes. Every sum in these kernels has one
/// order, so that results depend neither on where nor on when a kernel runs.
namespace workload {

/// Element (row, column) of a matrix in rows of `columns`.
SIMGPU_HD inline std::size_t at(int row, int columns, int column) {
  return static_cast<std::size_t>(row) * static_cast<std::size_t>(columns) + static_cast<std::size_t>(column);
}
/// Bytes of a matrix of floats.
SIMGPU_HD inline std::size_t floats(int rows, int columns) {
  return at(rows, columns, 0) * sizeof(float);
}
SIMGPU_HD inline int at_most(int n, int limit) {
  return n < limit ? n : limit;
}

/// Blocks that cover n pieces of work.
inline unsigned blocks_for(std::size_t n, std::size_t per_block) {
  return static_cast<unsigned>((n + per_block - 1) / per_block);
}

constexpr unsigned kThreads = 256;    ///< of a block, where nothing else is said
constexpr std::size_t kChunk = 4096;  ///< numbers of a flat array that one block works on

/// The part of a flat array of `count` numbers that a block works on.
struct Span {
  std::size_t first;
  std::size_t count;
};
template <class C>
SIMGPU_HD Span chunk_of(const C& c, std::size_t count) {
  const std::size_t first = std::size_t{c.block().x} * kChunk;
  return {first, count - first < kChunk ? count - first : kChunk};
}

/// Calls f(i) for each number of the span; the calls must not depend on each other.
template <class C, class F>
SIMGPU_HD void for_each_in(C& c, Span span, const F& f) {
  if (c.on_host()) {
    for (std::size_t i = span.first; i < span.first + span.count; ++i) f(i);
    return;
  }
  c.phase([&](unsigned tid) {
    for (std::size_t i = span.first + tid; i < span.first + span.count; i += kThreads) f(i);
  });
}

/// sums[0] = the sum of f(i) for i below count: each thread adds up every kThreads-th value, then pairs.
template <class C, class F>
SIMGPU_HD void sum_over(C& c, std::size_t count, float* sums, const F& f) {
  if (c.on_host()) {
    for (unsigned tid = 0; tid < kThreads; ++tid) sums[tid] = 0.0f;
    for (std::size_t first = 0; first < count; first += kThreads) {
      const std::size_t mine = count - first < kThreads ? count - first : kThreads;
      for (std::size_t i = 0; i < mine; ++i) sums[i] += f(first + i);
    }
  } else {
    c.phase([&](unsigned tid) {
      float sum = 0.0f;
      for (std::size_t i = tid; i < count; i += kThreads) sum += f(i);
      sums[tid] = sum;
    });
  }
  for (unsigned half = kThreads / 2; half > 0; half /= 2) {
    c.phase([&](unsigned tid) {
      if (tid < half) sums[tid] += sums[tid + half];
    });
  }
}

}  // namespace workload
