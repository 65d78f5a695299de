#pragma once

#include "tools/workloads/ops/arrays.h"

namespace workload {

/// One matrix product, or a batch of them: c = A B + bias, or c += A B. A has m rows and k columns, B k rows
/// and n columns; "turned" operands lie in memory the other way round. Matrices lie in rows, `_row` numbers
/// apart. Product z of the batch has the number (z / inner, z % inner); its operands lie that many times the
/// strides further on.
struct GemmArgs {
  const float* a;
  const float* b;
  float* c;
  const float* bias;  ///< n numbers, added to each row; or null
  int m, n, k;
  int a_row, b_row, c_row;
  int accumulate;  ///< 0, or 1: add to what c holds
  int inner = 1;
  std::size_t a_outer, b_outer, c_outer;
  std::size_t a_inner, b_inner, c_inner;
};

/// One block: kRows x kColumns results, a thread each. The sum over k goes upwards from zero.
template <bool kTurnA, bool kTurnB>
struct Gemm {
  static constexpr int kRows = 16;
  static constexpr int kColumns = 32;

  template <class C>
  SIMGPU_HD static void run(C& c, GemmArgs g) {
    const auto z = static_cast<int>(c.block().z);
    const auto outer = static_cast<std::size_t>(z / g.inner);
    const auto inner = static_cast<std::size_t>(z % g.inner);
    g.a += outer * g.a_outer + inner * g.a_inner;
    g.b += outer * g.b_outer + inner * g.b_inner;
    g.c += outer * g.c_outer + inner * g.c_inner;
    const int first_row = static_cast<int>(c.block().x) * kRows;
    const int first_column = static_cast<int>(c.block().y) * kColumns;
    declare(c, g, first_row);
    if (c.on_host()) {
      host_block(g, first_row, first_column);
      return;
    }
    c.phase([&](unsigned tid) {
      const int row = first_row + static_cast<int>(tid) / kColumns;
      const int column = first_column + static_cast<int>(tid) % kColumns;
      if (row >= g.m || column >= g.n) return;
      float sum = 0.0f;
      for (int k = 0; k < g.k; ++k) sum += a_at(g, row, k) * b_at(g, k, column);
      finish(g, row, column, sum);
    });
  }

 private:
  SIMGPU_HD static float a_at(const GemmArgs& g, int row, int k) {
    return kTurnA ? g.a[at(k, g.a_row, row)] : g.a[at(row, g.a_row, k)];
  }
  SIMGPU_HD static float b_at(const GemmArgs& g, int k, int column) {
    return kTurnB ? g.b[at(column, g.b_row, k)] : g.b[at(k, g.b_row, column)];
  }
  SIMGPU_HD static void finish(const GemmArgs& g, int row, int column, float sum) {
    float* const result = g.c + at(row, g.c_row, column);
    if (g.accumulate != 0) sum += *result;
    if (g.bias != nullptr) sum += g.bias[column];
    *result = sum;
  }
  /// From the first row's start to the last one's end.
  SIMGPU_HD static std::size_t extent(int rows, int row_length, int columns) {
    return floats(rows - 1, row_length) + floats(1, columns);
  }

  /// Whole rows, so that blocks beside each other declare the same.
  template <class C>
  SIMGPU_HD static void declare(const C& c, const GemmArgs& g, int first_row) {
    const int rows = at_most(g.m - first_row, kRows);
    if (kTurnA) {
      c.reads(g.a + first_row, extent(g.k, g.a_row, rows));
    } else {
      c.reads(g.a + at(first_row, g.a_row, 0), extent(rows, g.a_row, g.k));
    }
    c.reads(g.b, kTurnB ? extent(g.n, g.b_row, g.k) : extent(g.k, g.b_row, g.n));
    if (g.bias != nullptr) c.reads(g.bias, floats(1, g.n));
    // Between the rows of c there may be what other work writes at the same time.
    const bool dense = g.c_row == g.n;
    for (int row = first_row; row < first_row + rows; row += dense ? rows : 1) {
      float* const start = g.c + at(row, g.c_row, 0);
      const std::size_t bytes = floats(dense ? rows : 1, g.n);
      if (g.accumulate != 0) c.reads(start, bytes);
      c.writes(start, bytes);
    }
  }

  /// The same sums, kColumns results at a time, from copies that lie in the order of the loops.
  SIMGPU_HD static void host_block(const GemmArgs& g, int first_row, int first_column) {
    constexpr int kDepth = 64;
    const int rows = at_most(g.m - first_row, kRows);
    const int columns = at_most(g.n - first_column, kColumns);
    float sums[kRows][kColumns] = {};
    float a[kRows][kDepth];
    float b[kDepth][kColumns] = {};
    for (int first_k = 0; first_k < g.k; first_k += kDepth) {
      const int depth = at_most(g.k - first_k, kDepth);
      for (int r = 0; r < rows; ++r) {
        for (int k = 0; k < depth; ++k) a[r][k] = a_at(g, first_row + r, first_k + k);
      }
      if (kTurnB) {
        for (int j = 0; j < columns; ++j) {
          for (int k = 0; k < depth; ++k) b[k][j] = b_at(g, first_k + k, first_column + j);
        }
      } else {
        for (int k = 0; k < depth; ++k) {
          for (int j = 0; j < columns; ++j) b[k][j] = b_at(g, first_k + k, first_column + j);
        }
      }
      for (int r = 0; r < rows; ++r) {
        float sum[kColumns];
        for (int j = 0; j < kColumns; ++j) sum[j] = sums[r][j];
        for (int k = 0; k < depth; ++k) {
          const float factor = a[r][k];
          for (int j = 0; j < kColumns; ++j) sum[j] += factor * b[k][j];
        }
        for (int j = 0; j < kColumns; ++j) sums[r][j] = sum[j];
      }
    }
    for (int r = 0; r < rows; ++r) {
      for (int j = 0; j < columns; ++j) finish(g, first_row + r, first_column + j, sums[r][j]);
    }
  }
};

/// sums[j] = the sum of column j of a matrix, downwards. One thread per column.
struct ColumnSum {
  template <class C>
  SIMGPU_HD static void run(C& c, const float* x, int rows, int columns, float* sums) {
    const int first = static_cast<int>(c.block().x * kThreads);
    const int mine = at_most(columns - first, static_cast<int>(kThreads));
    c.reads(x, floats(rows, columns));
    c.writes(sums + first, floats(1, mine));
    c.phase([&](unsigned tid) {
      const int column = first + static_cast<int>(tid);
      if (column >= columns) return;
      float sum = 0.0f;
      for (int r = 0; r < rows; ++r) sum += x[at(r, columns, column)];
      sums[column] = sum;
    });
  }
};

}  // namespace workload
