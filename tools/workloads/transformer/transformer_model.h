#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

/// The network that train_transformer trains. Plain C++: no CUDA, no device.
///
/// A decoder that predicts the next token of each position. x = drop(token embedding + position embedding).
/// Each of `layers` layers: x += drop(attention(norm(x)) Wp + bp); x += drop(gelu(norm(x) Wu + bu) Wd + bd).
/// Logits are norm(x) Wh + bh; the loss is the mean softmax cross entropy over all positions. Attention is
/// causal, with `heads` heads: queries, keys and values are norm(x) Wa + ba, in this order, each of `width`
/// columns of which head h has the h-th equal share; scores are divided by the root of a head's width. norm
/// is layer normalisation with kEpsilon, gamma and beta. gelu is the exact one, x times the normal
/// distribution function. Trained by Adam.
///
/// Parameters are numbered, and saved, in this order: token embedding [kTokens][width] and position embedding
/// [sequence][width]; for each layer gamma (ones), beta (zeros), Wa [width][3 width], ba (zeros), Wp
/// [width][width], bp, gamma, beta, Wu [width][4 width], bu, Wd [4 width][width], bd; at the end gamma, beta,
/// Wh [width][kTokens], bh. Weights start as workload::initial_weights of their number and of how many
/// products each output adds up, embeddings of their number and `width`.
namespace transformer {

constexpr int kTokens = 64;
constexpr int kBatches = 4;  ///< fixed batches of the data set, used in turn
constexpr float kEpsilon = 1e-5f;
constexpr float kLearningRate = 1e-3f;
constexpr float kBeta1 = 0.9f;
constexpr float kBeta2 = 0.99f;
constexpr float kAdamEpsilon = 1e-6f;

/// drop() keeps number i of its array if word i mod 4 of Philox4x32-10 is at least kDropBelow (one in ten is
/// not), and multiplies it by kKeepScale; others become zero. The key is the seed (low, high word), the
/// counter (i / 4 low word, i / 4 high word, place, step). Places: 0 for embeddings, 1 + 2 l and 2 + 2 l for
/// layer l.
constexpr std::uint32_t kDropBelow = 429496730;
constexpr float kKeepScale = 1.0f / 0.9f;

struct Settings {
  int width = 512;
  int heads = 8;
  int layers = 1;
  int batch = 4;
  int sequence = 16;
  std::uint64_t seed = 1;
};

/// One fixed batch: tokens[sample][position] and the tokens that follow.
struct Batch {
  std::vector<int> tokens;
  std::vector<int> next;
};

/// Batch `index` of the data set. The first token of sample s is (u + 1) * kTokens / 2, rounded down, with u
/// = number s of stream 2000 + index; token t is followed by (5 t + 7) mod kTokens.
Batch make_batch(const Settings& settings, int index);

}  // namespace transformer
