// Trains a multi-layer perceptron in plain CUDA: an ordinary program that knows nothing of how its memory is
// managed. Prints each step's loss as a hexadecimal float and at the end a digest of all parameters, so that
// two runs that print the same computed the same bits.

#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include "tools/workloads/common/check.h"
#include "tools/workloads/common/replicas.h"
#include "tools/workloads/mlp/mlp_kernels.h"
#include "tools/workloads/mlp/mlp_model.h"
#include "tools/workloads/ops/ops.h"

namespace {

using mlp::Layer;
using mlp::Settings;
using workload::blocks_for;
using workload::Feed;
using workload::Floats;

SIMGPU_KERNEL(linear_forward, mlp::LinearForward,
              (const float* x, const float* w, const float* bias, int inputs, int outputs, int batch,
               int relu, float* y),
              x, w, bias, inputs, outputs, batch, relu, y)
SIMGPU_KERNEL(linear_backward_input, mlp::LinearBackwardInput,
              (const float* w, const float* dy, const float* x, int inputs, int outputs, int batch,
               float* dx),
              w, dy, x, inputs, outputs, batch, dx)
SIMGPU_KERNEL(linear_backward_weight, mlp::LinearBackwardWeight,
              (const float* x, const float* dy, int inputs, int outputs, int batch, float* dbias, float* dw),
              x, dy, inputs, outputs, batch, dbias, dw)

/// Parts of a batch.
constexpr std::size_t kInputs = 0;
constexpr std::size_t kLabels = 1;

std::size_t columns(int n) {
  return static_cast<std::size_t>(n);
}

class Trainer final : public workload::Trainer {
 public:
  Trainer(const Settings& settings, const workload::Options& options)
      : workload::Trainer(options, 1), settings_(settings), layers_(mlp::make_layers(settings)) {
    settings_.seed = options.seed;
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      weights_.push_back(parameters().add(mlp::initial_weights(settings_, layers_[i], i)));
      biases_.push_back(parameters().add_zeros(columns(layers_[i].outputs)));
    }
    const std::vector<std::size_t> sizes = {mlp::floats(settings_.width, settings_.batch),
                                            columns(settings_.batch) * sizeof(int)};
    feed_ = std::make_unique<Feed>(
        memory(), lanes(), sizes, mlp::kBatches, options.steps, [&](int number, std::size_t part, void* to) {
          const mlp::Batch batch = mlp::make_batch(settings_, number);
          std::memcpy(to,
                      part == kInputs ? static_cast<const void*>(batch.inputs.data())
                                      : static_cast<const void*>(batch.labels.data()),
                      sizes[part]);
        });
    outputs_.resize(layers_.size());
  }

 private:
  void queue_step(int number) override {
    feed_->begin(number);
    const auto* const inputs = feed_->part<float>(number, kInputs);
    for (std::size_t i = 0; i < layers_.size(); ++i) forward(i, i == 0 ? inputs : outputs_[i - 1].get());
    const Layer& last = layers_.back();
    Floats gradient = floats(columns(last.outputs) * columns(settings_.batch));
    workload::cross_entropy(memory(), lanes(), workload::Layout::kClassRows, outputs_.back().get(),
                            feed_->part<int>(number, kLabels), settings_.batch, last.outputs, gradient.get(),
                            loss());
    for (std::size_t i = layers_.size(); i-- > 0;) {
      gradient = backward(i, i == 0 ? inputs : outputs_[i - 1].get(), gradient.get());
      outputs_[i].reset();
    }
    feed_->end(number);
    workload::sgd_step(memory(), lanes(), parameters(), mlp::kLearningRate, mlp::kMomentum, mlp::kClipNorm);
  }

  void forward(std::size_t i, const float* inputs) {
    const Layer& layer = layers_[i];
    outputs_[i] = floats(columns(layer.outputs) * columns(settings_.batch));
    const dim3 grid(blocks_for(columns(layer.outputs), mlp::kRows),
                    blocks_for(columns(settings_.batch), mlp::kLanes));
    linear_forward<<<grid, mlp::kRows * mlp::kLanes, 0, lanes().main()>>>(
        inputs, parameters().value(weights_[i]), parameters().value(biases_[i]), layer.inputs, layer.outputs,
        settings_.batch, layer.relu ? 1 : 0, outputs_[i].get());
    workload::check_launch("linear_forward");
  }

  /// Backward work of layer i; returns the gradient of its inputs, which the first layer has none of.
  Floats backward(std::size_t i, const float* inputs, const float* gradient) {
    const Layer& layer = layers_[i];
    float* const weight_gradient = parameters().make_gradient(weights_[i]);
    float* const bias_gradient = parameters().make_gradient(biases_[i]);
    Floats input_gradient;
    if (i > 0) input_gradient = floats(columns(layer.inputs) * columns(settings_.batch));
    const dim3 weight_grid(blocks_for(columns(layer.outputs), mlp::kRows),
                           blocks_for(columns(layer.inputs), mlp::LinearBackwardWeight::kColumns));
    linear_backward_weight<<<weight_grid, mlp::LinearBackwardWeight::kColumns, 0, lanes().fork(0)>>>(
        inputs, gradient, layer.inputs, layer.outputs, settings_.batch, bias_gradient, weight_gradient);
    workload::check_launch("linear_backward_weight");
    if (i > 0) {
      const dim3 grid(blocks_for(columns(layer.inputs), mlp::kRows),
                      blocks_for(columns(settings_.batch), mlp::kLanes));
      linear_backward_input<<<grid, mlp::kRows * mlp::kLanes, 0, lanes().main()>>>(
          parameters().value(weights_[i]), gradient, inputs, layer.inputs, layer.outputs, settings_.batch,
          input_gradient.get());
      workload::check_launch("linear_backward_input");
    }
    lanes().join(0);
    return input_gradient;
  }

  Settings settings_;
  std::vector<Layer> layers_;
  std::vector<std::size_t> weights_;
  std::vector<std::size_t> biases_;
  std::unique_ptr<Feed> feed_;
  std::vector<Floats> outputs_;
};

void describe(const Settings& settings) {
  const mlp::Footprint need = mlp::footprint(settings);
  std::printf(
      "{\"steps\": %d, \"width\": %d, \"layers\": %d, \"batch\": %d,\n"
      " \"peak_bytes\": %zu, \"blocks\": %zu, \"blocks_2mib\": %zu, \"largest_launch_set_bytes\": %zu,\n"
      " \"live_bytes\": %zu, \"h2d_bytes_per_step\": %zu, \"d2h_bytes_per_step\": %zu,\n"
      " \"h2d_bytes_once\": %zu, \"d2h_bytes_once\": %zu}\n",
      settings.steps, settings.width, settings.layers, settings.batch, need.peak_bytes, need.blocks,
      need.blocks_2mib, need.largest_launch_set, need.live_bytes, need.h2d_bytes_per_step,
      need.d2h_bytes_per_step, need.h2d_bytes_once, need.d2h_bytes_once);
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  workload::Options defaults;
  defaults.steps = settings.steps;
  const workload::Program program{
      "train_mlp",
      "Trains a multi-layer perceptron; prints each loss and a digest of the parameters.",
      {{"--width", &settings.width, 1, 16384, 1, "inputs of every layer"},
       {"--layers", &settings.layers, 1, 1000, 1, "hidden layers"},
       {"--batch", &settings.batch, mlp::kLanes, 1024, mlp::kLanes, "samples per step"}},
      true};
  const workload::Options options = workload::parse_options(argc, argv, program, defaults);
  settings.steps = options.steps;
  settings.seed = options.seed;
  if (!options.describe) return workload::train_to_the_end<Trainer>(options, settings);
  describe(settings);
  workload::finish_output();
  return 0;
}
