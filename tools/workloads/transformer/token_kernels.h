#pragma once

#include <cmath>
#include <cstdint>

#include "tools/workloads/ops/arrays.h"
#include "tools/workloads/ops/philox.h"
#include "tools/workloads/transformer/transformer_model.h"

/// Embeddings, dropout and GELU. Activations have a row per position of a sample.
namespace transformer {

using workload::at;
using workload::at_most;
using workload::chunk_of;
using workload::floats;
using workload::for_each_in;
using workload::kThreads;
using workload::Span;

/// Which of the numbers of an array drop() keeps.
struct Dropout {
  std::uint32_t key0, key1;
  std::uint32_t place, step;

  SIMGPU_HD float apply(std::size_t i, float value) const {
    const std::uint64_t four = i / 4;
    const workload::Philox random = workload::philox(
        {{static_cast<std::uint32_t>(four), static_cast<std::uint32_t>(four >> 32), place, step}}, key0,
        key1);
    return random.word[i % 4] < kDropBelow ? 0.0f : value * kKeepScale;
  }
};

struct EmbedArgs {
  const int* tokens;
  const float* token_table;
  const float* position_table;
  float* x;
  int rows, width, sequence;
};

/// x = drop(token embedding + position embedding).
struct Embed {
  template <class C>
  SIMGPU_HD static void run(C& c, EmbedArgs args, Dropout drop) {
    const Span span = chunk_of(c, at(args.rows, args.width, 0));
    c.reads(args.tokens, static_cast<std::size_t>(args.rows) * sizeof(int));
    c.reads(args.token_table, floats(kTokens, args.width));
    c.reads(args.position_table, floats(args.sequence, args.width));
    c.writes(args.x + span.first, span.count * sizeof(float));
    const auto width = static_cast<std::size_t>(args.width);
    for_each_in(c, span, [&](std::size_t i) {
      const auto row = static_cast<int>(i / width);
      const auto column = static_cast<int>(i % width);
      args.x[i] = drop.apply(i, args.token_table[at(args.tokens[row], args.width, column)] +
                                    args.position_table[at(row % args.sequence, args.width, column)]);
    });
  }
};

/// The gradients of both tables from that of their sum. One block per row of the tables, tokens first; rows
/// of activations add up in their order.
struct EmbedBackward {
  template <class C>
  SIMGPU_HD static void run(C& c, EmbedArgs args, const float* dx, float* dtokens, float* dpositions) {
    const auto index = static_cast<int>(c.block().x);
    const bool of_token = index < kTokens;
    float* const out =
        of_token ? dtokens + at(index, args.width, 0) : dpositions + at(index - kTokens, args.width, 0);
    c.reads(args.tokens, static_cast<std::size_t>(args.rows) * sizeof(int));
    c.reads(dx, floats(args.rows, args.width));
    c.writes(out, floats(1, args.width));
    c.phase([&](unsigned tid) {
      for (int column = static_cast<int>(tid); column < args.width; column += static_cast<int>(kThreads)) {
        float sum = 0.0f;
        for (int row = 0; row < args.rows; ++row) {
          const bool mine = of_token ? args.tokens[row] == index : row % args.sequence == index - kTokens;
          if (mine) sum += dx[at(row, args.width, column)];
        }
        out[column] = sum;
      }
    });
  }
};

/// y = drop(x) + skip; skip may be null. The gradient of drop is drop itself.
struct DropAdd {
  template <class C>
  SIMGPU_HD static void run(C& c, const float* x, const float* skip, std::size_t count, Dropout drop,
                            float* y) {
    const Span span = chunk_of(c, count);
    c.reads(x + span.first, span.count * sizeof(float));
    if (skip != nullptr) c.reads(skip + span.first, span.count * sizeof(float));
    c.writes(y + span.first, span.count * sizeof(float));
    for_each_in(c, span, [&](std::size_t i) {
      const float kept = drop.apply(i, x[i]);
      y[i] = skip == nullptr ? kept : skip[i] + kept;
    });
  }
};

/// y = x times the normal distribution function of x.
struct Gelu {
  template <class C>
  SIMGPU_HD static void run(C& c, const float* x, std::size_t count, float* y) {
    const Span span = chunk_of(c, count);
    c.reads(x + span.first, span.count * sizeof(float));
    c.writes(y + span.first, span.count * sizeof(float));
    for_each_in(c, span, [&](std::size_t i) { y[i] = x[i] * below(x[i]); });
  }
  /// The normal distribution function.
  SIMGPU_HD static float below(float x) { return 0.5f * (1.0f + erff(x * 0.70710678f)); }
};

/// dx = dy times the derivative of Gelu at x, in place of dy.
struct GeluBackward {
  template <class C>
  SIMGPU_HD static void run(C& c, const float* x, std::size_t count, float* dy) {
    const Span span = chunk_of(c, count);
    c.reads(x + span.first, span.count * sizeof(float));
    c.reads(dy + span.first, span.count * sizeof(float));
    c.writes(dy + span.first, span.count * sizeof(float));
    for_each_in(c, span, [&](std::size_t i) {
      const float density = 0.39894228f * expf(-0.5f * x[i] * x[i]);
      dy[i] *= Gelu::below(x[i]) + x[i] * density;
    });
  }
};

}  // namespace transformer
