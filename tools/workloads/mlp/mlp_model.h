#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

/// The network that train_mlp trains, and what it needs of memory. Plain C++: no CUDA, no device.
namespace mlp {

constexpr int kLanes = 16;    ///< samples that one block of a matrix product works on
constexpr int kRows = 16;     ///< outputs that one block of a matrix product works on
constexpr int kClasses = 16;  ///< outputs of the last layer
constexpr int kBatches = 4;   ///< fixed batches of the data set, used in turn
constexpr float kLearningRate = 0.02f;
constexpr float kMomentum = 0.9f;
constexpr float kClipNorm = 5.0f;  ///< gradients longer than this, all layers together, are shortened to it

struct Settings {
  int steps = 6;
  int width = 1024;  ///< inputs of every layer; the weights of one then fill 4 MiB exactly
  int layers = 6;    ///< square hidden layers with ReLU; one more layer leads to the classes
  int batch = 16;    ///< samples per step, a multiple of kLanes
  std::uint64_t seed = 1;
};

/// One linear layer: outputs x inputs weights in rows, and a bias per output.
struct Layer {
  int inputs;
  int outputs;
  bool relu;
  [[nodiscard]] std::size_t weights() const {
    return static_cast<std::size_t>(inputs) * static_cast<std::size_t>(outputs);
  }
  [[nodiscard]] std::size_t weight_bytes() const { return weights() * sizeof(float); }
  [[nodiscard]] std::size_t bias_bytes() const { return static_cast<std::size_t>(outputs) * sizeof(float); }
  /// Weights and bias.
  [[nodiscard]] std::size_t parameter_bytes() const { return weight_bytes() + bias_bytes(); }
  /// Outputs of a whole batch.
  [[nodiscard]] std::size_t output_bytes(int batch) const {
    return bias_bytes() * static_cast<std::size_t>(batch);
  }
};

std::vector<Layer> make_layers(const Settings& settings);

/// Initial weights of layer `index`: workload::uniform (stream 1 + index) times sqrt(6 / inputs), rounded to
/// float. Biases start as zero.
std::vector<float> initial_weights(const Settings& settings, const Layer& layer, std::size_t index);

/// One fixed batch, features in rows: inputs[feature * batch + sample].
struct Batch {
  std::vector<float> inputs;
  std::vector<int> labels;
};

/// Batch `index` of the data set. Sample s has the label c = (7 * (index * batch + s) + 3) mod kClasses, and
/// feature f is 0.75 * p + 0.25 * noise with p = number c * width + f of stream 1000 and noise = number
/// (s * width + f) of stream 2000 + index.
Batch make_batch(const Settings& settings, int index);

/// What the program asks of the device, computed from the layer table alone.
struct Footprint {
  std::size_t peak_bytes;          ///< most bytes of device memory held at one time
  std::size_t blocks;              ///< allocations alive at that time
  std::size_t blocks_2mib;         ///< those of at least 2 MiB
  std::size_t largest_launch_set;  ///< most bytes of allocations that one kernel launch touches
  std::size_t live_bytes;          ///< see footprint()
  std::size_t h2d_bytes_per_step;  ///< bytes that a step copies to the device itself
  std::size_t d2h_bytes_per_step;  ///< and back
  std::size_t h2d_bytes_once;      ///< the initial weights
  std::size_t d2h_bytes_once;      ///< the final weights and biases
};

/// live_bytes is the largest amount, over all points of a step, of bytes that were written before the point
/// and are read after it. The points are the ends of the backward work of layer i, for every i:
///
///     sum over all layers of (parameters + momentum)            always live
///   + sum over layers j >= i of their gradients                 read by the norm and by the update
///   + sum over layers j < i - 1 of their outputs                read by the backward work of layer j + 1 ...
///   + the outputs of layer i - 1 and the gradient of them       ... both read by the backward work of i - 1
///   + the inputs of the batch, if i > 0
///
/// It is a lower bound: buffers of a few bytes and the next batch, which may or may not be there, are left
/// out.
Footprint footprint(const Settings& settings);

}  // namespace mlp
