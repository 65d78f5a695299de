#pragma once

#include <cmath>

#include "tools/workloads/ops/arrays.h"

namespace workload {

/// A struct passed by value, as many real kernels take their pointers. Element k of sample s of logits and
/// gradient lies at k * class_step + s * sample_step.
struct CrossEntropyArgs {
  const float* logits;
  const int* labels;
  float* gradient;
  float* losses;  ///< one per sample
  int classes;
  int samples;
  std::size_t class_step;
  std::size_t sample_step;
};

/// Cross entropy of softmax(logits) for each sample, and the gradient of the mean of all samples. One thread
/// per sample.
struct CrossEntropy {
  static constexpr unsigned kSamples = 64;  ///< of a block

  template <class C>
  SIMGPU_HD static void run(C& c, CrossEntropyArgs args) {
    const int first = static_cast<int>(c.block().x * kSamples);
    const int mine = at_most(args.samples - first, static_cast<int>(kSamples));
    c.reads(args.logits, floats(args.samples, args.classes));
    c.reads(args.labels + first, static_cast<std::size_t>(mine) * sizeof(int));
    c.writes(args.gradient, floats(args.samples, args.classes));
    c.writes(args.losses + first, floats(1, mine));
    c.phase([&](unsigned tid) {
      const int sample = first + static_cast<int>(tid);
      if (sample >= args.samples) return;
      const float* const logits = args.logits + static_cast<std::size_t>(sample) * args.sample_step;
      float* const gradient = args.gradient + static_cast<std::size_t>(sample) * args.sample_step;
      float largest = logits[0];
      for (int k = 1; k < args.classes; ++k) {
        const float value = logits[static_cast<std::size_t>(k) * args.class_step];
        if (value > largest) largest = value;
      }
      float sum = 0.0f;
      for (int k = 0; k < args.classes; ++k) {
        const float power = expf(logits[static_cast<std::size_t>(k) * args.class_step] - largest);
        gradient[static_cast<std::size_t>(k) * args.class_step] = power;
        sum += power;
      }
      const int label = args.labels[sample];
      for (int k = 0; k < args.classes; ++k) {
        float& value = gradient[static_cast<std::size_t>(k) * args.class_step];
        value = (value / sum - (k == label ? 1.0f : 0.0f)) / static_cast<float>(args.samples);
      }
      args.losses[sample] = logf(sum) + largest - logits[static_cast<std::size_t>(label) * args.class_step];
    });
  }
};

/// The mean of `count` numbers. One block.
struct Mean {
  template <class C>
  SIMGPU_HD static void run(C& c, const float* values, int count, float* mean) {
    c.reads(values, floats(1, count));
    c.writes(mean, sizeof(float));
    SIMGPU_SHARED(c, float, sums, kThreads);
    sum_over(c, static_cast<std::size_t>(count), sums, [&](std::size_t i) { return values[i]; });
    c.phase([&](unsigned tid) {
      if (tid == 0) *mean = sums[0] / static_cast<float>(count);
    });
  }
};

}  // namespace workload
