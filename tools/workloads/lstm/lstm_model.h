#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

/// The network that train_lstm trains. Plain C++: no CUDA, no device.
///
/// `layers` layers of long short-term memory of `width` cells, over sequences of vectors of `width` numbers.
/// Of a layer, z = x(t) Wx + h(t-1) Wh + b has four parts of `width` numbers: i, f, o are the logistic
/// function of the first, second and fourth part, g the hyperbolic tangent of the third; c(t) = f c(t-1) + i
/// g, h(t) = o tanh(c(t)); h and c are zero before the first step. Logits are h Wy + by of the last layer at
/// every position; the loss is the mean softmax cross entropy over all of them. Gradients go back through the
/// whole sequence; longer than kClipNorm, all together, they are shortened to it. Trained by gradient descent
/// with momentum.
///
/// Parameters are numbered, and saved, in this order: for each layer Wx [width][4 width], Wh [width][4
/// width], b [4 width] (zeros, but ones in the second part); at the end Wy [width][kClasses] and by (zeros).
/// Weights start as workload::initial_weights of their number and 4 width; Wy with width.
namespace lstm {

constexpr int kClasses = 16;
constexpr int kBatches = 4;  ///< fixed batches of the data set, used in turn
constexpr float kLearningRate = 0.1f;
constexpr float kMomentum = 0.9f;
constexpr float kClipNorm = 1.0f;

struct Settings {
  int width = 384;
  int layers = 2;
  int batch = 8;
  int sequence = 12;
  std::uint64_t seed = 1;
};

/// One fixed batch. Row position * batch + sample.
struct Batch {
  std::vector<float> inputs;
  std::vector<int> labels;
};

/// Batch `index` of the data set. The input of sample s at position t belongs to the class (u + 1) * kClasses
/// / 2, rounded down, with u = number s * sequence + t of stream 3000 + index. Its number f is 0.75 * p +
/// 0.25 * noise, with p = number class * width + f of stream 1000 and noise = number (s * sequence + t) *
/// width + f of stream 2000 + index. The label is the class at the position before; at the first position it
/// is the class itself.
Batch make_batch(const Settings& settings, int index);

}  // namespace lstm
