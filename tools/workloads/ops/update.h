#pragma once

#include <cmath>

#include "tools/workloads/ops/arrays.h"

namespace workload {

/// Sum of squares of each chunk of kChunk numbers, into one number per block.
struct SquareSum {
  template <class C>
  SIMGPU_HD static void run(C& c, const float* values, std::size_t count, float* sums) {
    const Span span = chunk_of(c, count);
    c.reads(values + span.first, span.count * sizeof(float));
    c.writes(sums + c.block().x, sizeof(float));
    SIMGPU_SHARED(c, float, partial, kThreads);
    const float* const mine = values + span.first;
    sum_over(c, span.count, partial, [&](std::size_t i) { return mine[i] * mine[i]; });
    c.phase([&](unsigned tid) {
      if (tid == 0) sums[c.block().x] = partial[0];
    });
  }
};

/// By how much gradients are multiplied so that they are no longer than `longest`. One thread.
struct ClipFactor {
  template <class C>
  SIMGPU_HD static void run(C& c, const float* sums, std::size_t count, float longest, float* factor) {
    c.reads(sums, count * sizeof(float));
    c.writes(factor, sizeof(float));
    c.phase([&](unsigned) {
      float sum = 0.0f;
      for (std::size_t i = 0; i < count; ++i) sum += sums[i];
      const float norm = sqrtf(sum);
      *factor = norm > longest ? longest / norm : 1.0f;
    });
  }
};

/// to += from.
struct AddTo {
  template <class C>
  SIMGPU_HD static void run(C& c, const float* from, std::size_t count, float* to) {
    const Span span = chunk_of(c, count);
    c.reads(from + span.first, span.count * sizeof(float));
    c.reads(to + span.first, span.count * sizeof(float));
    c.writes(to + span.first, span.count * sizeof(float));
    for_each_in(c, span, [&](std::size_t i) { to[i] += from[i]; });
  }
};

struct SgdArgs {
  float* parameters;
  float* momentum;
  const float* gradient;
  std::size_t count;
  float rate;
  float decay;  ///< of the momentum
};

/// Stochastic gradient descent with momentum on one array, with the gradient times *factor if there is one.
struct SgdUpdate {
  template <class C>
  SIMGPU_HD static void run(C& c, SgdArgs args, const float* factor) {
    const Span span = chunk_of(c, args.count);
    if (factor != nullptr) c.reads(factor, sizeof(float));
    c.reads(args.gradient + span.first, span.count * sizeof(float));
    c.reads(args.momentum + span.first, span.count * sizeof(float));
    c.writes(args.momentum + span.first, span.count * sizeof(float));
    c.reads(args.parameters + span.first, span.count * sizeof(float));
    c.writes(args.parameters + span.first, span.count * sizeof(float));
    for_each_in(c, span, [&](std::size_t i) {
      const float scale = factor == nullptr ? 1.0f : *factor;
      const float speed = args.decay * args.momentum[i] + scale * args.gradient[i];
      args.momentum[i] = speed;
      args.parameters[i] -= args.rate * speed;
    });
  }
};

struct AdamArgs {
  float* parameters;
  float* first;   ///< running mean of gradients
  float* second;  ///< and of their squares
  const float* gradient;
  std::size_t count;
  float rate;     ///< with both corrections for the start at zero: rate * sqrt(1 - beta2^t) / (1 - beta1^t)
  float epsilon;  ///< times sqrt(1 - beta2^t)
  float beta1;
  float beta2;
};

/// Adam (Kingma and Ba, 2015, in the form of the end of their section 2) on one array.
struct AdamUpdate {
  template <class C>
  SIMGPU_HD static void run(C& c, AdamArgs args) {
    const Span span = chunk_of(c, args.count);
    c.reads(args.gradient + span.first, span.count * sizeof(float));
    for (float* const array : {args.first, args.second, args.parameters}) {
      c.reads(array + span.first, span.count * sizeof(float));
      c.writes(array + span.first, span.count * sizeof(float));
    }
    for_each_in(c, span, [&](std::size_t i) {
      const float gradient = args.gradient[i];
      const float first = args.beta1 * args.first[i] + (1.0f - args.beta1) * gradient;
      const float second = args.beta2 * args.second[i] + (1.0f - args.beta2) * (gradient * gradient);
      args.first[i] = first;
      args.second[i] = second;
      args.parameters[i] -= args.rate * (first / (sqrtf(second) + args.epsilon));
    });
  }
};

}  // namespace workload
