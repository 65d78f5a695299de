#pragma once

#include <cmath>

#include "tools/workloads/cnn/cnn_model.h"
#include "tools/workloads/cnn/conv_kernels.h"

/// Batch normalisation and what goes with it. A channel is a row of `count` numbers: all pixels of a batch.
namespace cnn {

/// What a channel's normalisation needs: its mean and 1 / sqrt(variance + kEpsilon).
struct Statistics {
  float mean;
  float scale;
};

/// Statistics of each channel, and the running averages moved. One block per channel.
struct NormStatistics {
  template <class C>
  SIMGPU_HD static void run(C& c, const float* x, std::size_t count, Statistics* statistics,
                            float* running_mean, float* running_variance) {
    const unsigned channel = c.block().x;
    const float* const mine = x + channel * count;
    c.reads(mine, count * sizeof(float));
    c.writes(statistics + channel, sizeof(Statistics));
    for (float* const average : {running_mean + channel, running_variance + channel}) {
      c.reads(average, sizeof(float));
      c.writes(average, sizeof(float));
    }
    SIMGPU_SHARED(c, float, sums, kThreads);
    SIMGPU_SHARED(c, float, mean, 1);
    workload::sum_over(c, count, sums, [&](std::size_t i) { return mine[i]; });
    c.phase([&](unsigned tid) {
      if (tid == 0) mean[0] = sums[0] / static_cast<float>(count);
    });
    workload::sum_over(c, count, sums,
                       [&](std::size_t i) { return (mine[i] - mean[0]) * (mine[i] - mean[0]); });
    c.phase([&](unsigned tid) {
      if (tid != 0) return;
      const float variance = sums[0] / static_cast<float>(count);
      const float unbiased = sums[0] / static_cast<float>(count - 1);
      statistics[channel] = {mean[0], 1.0f / sqrtf(variance + kEpsilon)};
      running_mean[channel] += kAverageShare * (mean[0] - running_mean[channel]);
      running_variance[channel] += kAverageShare * (unbiased - running_variance[channel]);
    });
  }
};

struct NormArgs {
  const float* x;
  const Statistics* statistics;
  const float* gamma;
  const float* beta;
  const float* skip;  ///< added to the result; or null
  float* y;
  std::size_t count;
  int relu;
};

/// y = gamma (x - mean) scale + beta + skip, then max(0, .) if `relu`. Blocks: chunks (x) of channels (y).
struct NormForward {
  template <class C>
  SIMGPU_HD static void run(C& c, NormArgs args) {
    const unsigned channel = c.block().y;
    const std::size_t start = channel * args.count;
    const Span span = chunk_of(c, args.count);
    c.reads(args.x + start + span.first, span.count * sizeof(float));
    c.reads(args.statistics + channel, sizeof(Statistics));
    c.reads(args.gamma + channel, sizeof(float));
    c.reads(args.beta + channel, sizeof(float));
    if (args.skip != nullptr) c.reads(args.skip + start + span.first, span.count * sizeof(float));
    c.writes(args.y + start + span.first, span.count * sizeof(float));
    const float* const x = args.x + start;
    const float* const skip = args.skip == nullptr ? nullptr : args.skip + start;
    float* const y = args.y + start;
    for_each_in(c, span, [&](std::size_t i) {
      const Statistics s = args.statistics[channel];
      float value = args.gamma[channel] * ((x[i] - s.mean) * s.scale) + args.beta[channel];
      if (skip != nullptr) value += skip[i];
      y[i] = args.relu != 0 && !(value > 0.0f) ? 0.0f : value;
    });
  }
};

struct NormBackwardArgs {
  const float* x;
  const float* dy;
  const Statistics* statistics;
  const float* gamma;
  float* dgamma;
  float* dbeta;
  float* dx;
  std::size_t count;
};

/// dbeta = sum of dy, dgamma = sum of dy times normalised x. One block per channel.
struct NormBackwardSums {
  template <class C>
  SIMGPU_HD static void run(C& c, NormBackwardArgs args) {
    const unsigned channel = c.block().x;
    const float* const x = args.x + channel * args.count;
    const float* const dy = args.dy + channel * args.count;
    c.reads(x, args.count * sizeof(float));
    c.reads(dy, args.count * sizeof(float));
    c.reads(args.statistics + channel, sizeof(Statistics));
    c.writes(args.dgamma + channel, sizeof(float));
    c.writes(args.dbeta + channel, sizeof(float));
    SIMGPU_SHARED(c, float, sums, kThreads);
    workload::sum_over(c, args.count, sums, [&](std::size_t i) { return dy[i]; });
    c.phase([&](unsigned tid) {
      if (tid == 0) args.dbeta[channel] = sums[0];
    });
    workload::sum_over(c, args.count, sums, [&](std::size_t i) {
      const Statistics s = args.statistics[channel];
      return dy[i] * ((x[i] - s.mean) * s.scale);
    });
    c.phase([&](unsigned tid) {
      if (tid == 0) args.dgamma[channel] = sums[0];
    });
  }
};

/// dx = gamma scale (dy - dbeta / count - normalised x dgamma / count). Blocks: chunks (x) of channels (y).
struct NormBackward {
  template <class C>
  SIMGPU_HD static void run(C& c, NormBackwardArgs args) {
    const unsigned channel = c.block().y;
    const std::size_t start = channel * args.count;
    const Span span = chunk_of(c, args.count);
    c.reads(args.x + start + span.first, span.count * sizeof(float));
    c.reads(args.dy + start + span.first, span.count * sizeof(float));
    c.reads(args.statistics + channel, sizeof(Statistics));
    for (const float* const value :
         {args.gamma, static_cast<const float*>(args.dgamma), static_cast<const float*>(args.dbeta)}) {
      c.reads(value + channel, sizeof(float));
    }
    c.writes(args.dx + start + span.first, span.count * sizeof(float));
    const float* const x = args.x + start;
    const float* const dy = args.dy + start;
    float* const dx = args.dx + start;
    for_each_in(c, span, [&](std::size_t i) {
      const Statistics s = args.statistics[channel];
      const auto count = static_cast<float>(args.count);
      const float normal = (x[i] - s.mean) * s.scale;
      dx[i] = args.gamma[channel] * s.scale *
              (dy[i] - args.dbeta[channel] / count - normal * (args.dgamma[channel] / count));
    });
  }
};

/// dx = dy where y, the output of a ReLU, is positive, else 0.
struct ReluBackward {
  template <class C>
  SIMGPU_HD static void run(C& c, const float* y, const float* dy, std::size_t count, float* dx) {
    const Span span = chunk_of(c, count);
    c.reads(y + span.first, span.count * sizeof(float));
    c.reads(dy + span.first, span.count * sizeof(float));
    c.writes(dx + span.first, span.count * sizeof(float));
    for_each_in(c, span, [&](std::size_t i) { dx[i] = y[i] > 0.0f ? dy[i] : 0.0f; });
  }
};

}  // namespace cnn
