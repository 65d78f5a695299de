#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

/// The network that train_cnn trains. Plain C++: no CUDA, no device.
///
/// A 3x3 convolution to `width` channels; `layers` residual blocks; a 2x2 maximum; `layers` residual blocks
/// of twice as many channels; the mean of each channel; a linear layer to kClasses; mean softmax cross
/// entropy. A residual block is y = relu(norm(conv(relu(norm(conv(x))))) + skip(x)); skip is x itself, or
/// norm(conv 1x1) where the number of channels changes. Convolutions keep the image's size (zeros around it)
/// and have no bias; norm is batch normalisation with the batch's own mean and variance, kEpsilon, gamma and
/// beta. All of it is trained by gradient descent with momentum.
///
/// Parameters are numbered, and saved, in the order of use: for each convolution (a block's skip after its
/// other two) weights [outputs][inputs][3][3], gamma (ones), beta (zeros), running mean (zeros), running
/// variance (ones); at the end the weights [inputs][kClasses] and biases (zeros) of the linear layer. Weights
/// start as workload::initial_weights of their number and of how many products each output adds up.
namespace cnn {

constexpr int kColours = 3;   ///< channels of the images
constexpr int kClasses = 16;  ///< outputs of the last layer
constexpr int kBatches = 4;   ///< fixed batches of the data set, used in turn
constexpr float kLearningRate = 0.02f;
constexpr float kMomentum = 0.9f;
constexpr float kEpsilon = 1e-5f;
/// Running averages move by this share towards the batch's mean and unbiased variance.
constexpr float kAverageShare = 0.1f;

struct Settings {
  int width = 8;
  int layers = 1;
  int batch = 128;
  int image = 32;  ///< pixels of a side; even
  std::uint64_t seed = 1;
};

/// One fixed batch: images[colour][sample][y][x].
struct Batch {
  std::vector<float> images;
  std::vector<int> labels;
};

/// Batch `index` of the data set. Sample s has the label c = (7 * (index * batch + s) + 3) mod kClasses, and
/// number j = (colour * image + y) * image + x of its image is 0.75 * p + 0.25 * noise, with p = number
/// c * kColours * image^2 + j of stream 1000 and noise = number s * kColours * image^2 + j of stream
/// 2000 + index.
Batch make_batch(const Settings& settings, int index);

}  // namespace cnn
