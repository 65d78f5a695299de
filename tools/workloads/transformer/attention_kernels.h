#pragma once

#include <cmath>

#include "tools/workloads/transformer/token_kernels.h"

/// Layer normalisation, and the softmax of attention scores.
namespace transformer {

/// What a row's normalisation needs: its mean and 1 / sqrt(variance + kEpsilon).
struct Statistics {
  float mean;
  float scale;
};

struct NormArgs {
  const float* x;
  const float* gamma;
  const float* beta;
  Statistics* statistics;
  float* y;
  int rows, width;
};

/// y = gamma (x - mean) scale + beta. One block per row.
struct NormForward {
  template <class C>
  SIMGPU_HD static void run(C& c, NormArgs args) {
    const unsigned row = c.block().x;
    const auto width = static_cast<std::size_t>(args.width);
    const float* const x = args.x + row * width;
    float* const y = args.y + row * width;
    c.reads(x, floats(1, args.width));
    c.reads(args.gamma, floats(1, args.width));
    c.reads(args.beta, floats(1, args.width));
    c.writes(y, floats(1, args.width));
    c.writes(args.statistics + row, sizeof(Statistics));
    SIMGPU_SHARED(c, float, sums, kThreads);
    SIMGPU_SHARED(c, float, mean, 1);
    workload::sum_over(c, width, sums, [&](std::size_t i) { return x[i]; });
    c.phase([&](unsigned tid) {
      if (tid == 0) mean[0] = sums[0] / static_cast<float>(args.width);
    });
    workload::sum_over(c, width, sums, [&](std::size_t i) { return (x[i] - mean[0]) * (x[i] - mean[0]); });
    c.phase([&](unsigned tid) {
      if (tid == 0) {
        args.statistics[row] = {mean[0], 1.0f / sqrtf(sums[0] / static_cast<float>(args.width) + kEpsilon)};
      }
    });
    for_each_in(c, Span{0, width}, [&](std::size_t i) {
      y[i] = args.gamma[i] * ((x[i] - mean[0]) * args.statistics[row].scale) + args.beta[i];
    });
  }
};

struct NormBackwardArgs {
  const float* x;
  const float* gamma;
  const Statistics* statistics;
  const float* dy;
  const float* skip;  ///< added to dx; or null
  float* dx;
  int rows, width;
};

/// With g = dy gamma and n = (x - mean) scale: dx = scale (g - mean(g) - n mean(g n)) + skip. One block per
/// row.
struct NormBackward {
  template <class C>
  SIMGPU_HD static void run(C& c, NormBackwardArgs args) {
    const unsigned row = c.block().x;
    const auto width = static_cast<std::size_t>(args.width);
    const float* const x = args.x + row * width;
    const float* const dy = args.dy + row * width;
    const float* const skip = args.skip == nullptr ? nullptr : args.skip + row * width;
    float* const dx = args.dx + row * width;
    c.reads(x, floats(1, args.width));
    c.reads(args.gamma, floats(1, args.width));
    c.reads(args.statistics + row, sizeof(Statistics));
    c.reads(dy, floats(1, args.width));
    if (skip != nullptr) c.reads(skip, floats(1, args.width));
    c.writes(dx, floats(1, args.width));
    SIMGPU_SHARED(c, float, sums, kThreads);
    SIMGPU_SHARED(c, float, means, 2);
    workload::sum_over(c, width, sums, [&](std::size_t i) { return dy[i] * args.gamma[i]; });
    c.phase([&](unsigned tid) {
      if (tid == 0) means[0] = sums[0] / static_cast<float>(args.width);
    });
    workload::sum_over(c, width, sums, [&](std::size_t i) {
      return dy[i] * args.gamma[i] * ((x[i] - args.statistics[row].mean) * args.statistics[row].scale);
    });
    c.phase([&](unsigned tid) {
      if (tid == 0) means[1] = sums[0] / static_cast<float>(args.width);
    });
    for_each_in(c, Span{0, width}, [&](std::size_t i) {
      const Statistics s = args.statistics[row];
      const float normal = (x[i] - s.mean) * s.scale;
      const float value = s.scale * (dy[i] * args.gamma[i] - means[0] - normal * means[1]);
      dx[i] = skip == nullptr ? value : skip[i] + value;
    });
  }
};

/// dgamma = sum over rows of dy n, dbeta = sum of dy. One thread per column.
struct NormBackwardParameters {
  template <class C>
  SIMGPU_HD static void run(C& c, NormBackwardArgs args, float* dgamma, float* dbeta) {
    const auto first = static_cast<int>(c.block().x * kThreads);
    const int mine = at_most(args.width - first, static_cast<int>(kThreads));
    c.reads(args.x, floats(args.rows, args.width));
    c.reads(args.dy, floats(args.rows, args.width));
    c.reads(args.statistics, static_cast<std::size_t>(args.rows) * sizeof(Statistics));
    c.writes(dgamma + first, floats(1, mine));
    c.writes(dbeta + first, floats(1, mine));
    c.phase([&](unsigned tid) {
      const int column = first + static_cast<int>(tid);
      if (column >= args.width) return;
      float gamma = 0.0f;
      float beta = 0.0f;
      for (int row = 0; row < args.rows; ++row) {
        const std::size_t i = at(row, args.width, column);
        gamma += args.dy[i] * ((args.x[i] - args.statistics[row].mean) * args.statistics[row].scale);
        beta += args.dy[i];
      }
      dgamma[column] = gamma;
      dbeta[column] = beta;
    });
  }
};

/// Scores of one query after another, for every head of every sample: rows of `sequence` numbers.
struct ScoreArgs {
  float* scores;
  int rows;
  int sequence;
  float scale;
};

/// Rows of ScoreArgs that a block of threads works on, one each.
template <class C, class F>
SIMGPU_HD void for_each_query(C& c, const ScoreArgs& args, const F& f) {
  const auto first = static_cast<int>(c.block().x * kThreads);
  c.phase([&](unsigned tid) {
    const int row = first + static_cast<int>(tid);
    if (row < args.rows) f(row, row % args.sequence);
  });
}
template <class C>
SIMGPU_HD Span rows_of_block(const C& c, const ScoreArgs& args) {
  const auto first = static_cast<int>(c.block().x * kThreads);
  const int rows = at_most(args.rows - first, static_cast<int>(kThreads));
  return {at(first, args.sequence, 0), at(rows, args.sequence, 0)};
}

/// In place: softmax of scale times the scores of keys up to the query's own position, zero beyond.
struct CausalSoftmax {
  template <class C>
  SIMGPU_HD static void run(C& c, ScoreArgs args) {
    const Span span = rows_of_block(c, args);
    c.reads(args.scores + span.first, span.count * sizeof(float));
    c.writes(args.scores + span.first, span.count * sizeof(float));
    for_each_query(c, args, [&](int row, int query) {
      float* const scores = args.scores + at(row, args.sequence, 0);
      float largest = scores[0];
      for (int key = 1; key <= query; ++key) {
        if (scores[key] > largest) largest = scores[key];
      }
      float sum = 0.0f;
      for (int key = 0; key <= query; ++key) {
        scores[key] = expf(args.scale * (scores[key] - largest));
        sum += scores[key];
      }
      for (int key = 0; key < args.sequence; ++key) scores[key] = key <= query ? scores[key] / sum : 0.0f;
    });
  }
};

/// The gradient of the scores from that of the shares, in its place.
struct CausalSoftmaxBackward {
  template <class C>
  SIMGPU_HD static void run(C& c, ScoreArgs args, const float* shares) {
    const Span span = rows_of_block(c, args);
    c.reads(shares + span.first, span.count * sizeof(float));
    c.reads(args.scores + span.first, span.count * sizeof(float));
    c.writes(args.scores + span.first, span.count * sizeof(float));
    for_each_query(c, args, [&](int row, int query) {
      float* const gradient = args.scores + at(row, args.sequence, 0);
      const float* const share = shares + at(row, args.sequence, 0);
      float sum = 0.0f;
      for (int key = 0; key <= query; ++key) sum += gradient[key] * share[key];
      for (int key = 0; key < args.sequence; ++key) {
        gradient[key] = key <= query ? args.scale * (share[key] * (gradient[key] - sum)) : 0.0f;
      }
    });
  }
};

}  // namespace transformer
