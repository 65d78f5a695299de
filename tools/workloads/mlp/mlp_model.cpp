#include "tools/workloads/mlp/mlp_model.h"

#include <algorithm>
#include <initializer_list>

#include "tools/workloads/common/random.h"

namespace mlp {

using workload::uniform;

namespace {

/// Adds up allocations and keeps the state of the highest sum.
class Ledger {
 public:
  void hold(std::size_t bytes) {
    blocks_.push_back(bytes);
    bytes_ += bytes;
    if (bytes_ > peak_bytes) {
      peak_bytes = bytes_;
      peak_blocks = blocks_.size();
      peak_blocks_2mib = static_cast<std::size_t>(
          std::count_if(blocks_.begin(), blocks_.end(), [](std::size_t n) { return n >= 2U << 20; }));
    }
  }
  void hold_all(std::initializer_list<std::size_t> sizes) {
    for (const std::size_t bytes : sizes) hold(bytes);
  }
  void drop(std::size_t bytes) {
    blocks_.erase(std::find(blocks_.begin(), blocks_.end(), bytes));
    bytes_ -= bytes;
  }

  std::size_t peak_bytes = 0;
  std::size_t peak_blocks = 0;
  std::size_t peak_blocks_2mib = 0;

 private:
  std::vector<std::size_t> blocks_;
  std::size_t bytes_ = 0;
};

std::size_t live_bytes_after_backward_of(const std::vector<Layer>& layers, std::size_t i, int batch,
                                         std::size_t input_bytes) {
  std::size_t live = i > 0 ? input_bytes : 0;
  for (std::size_t j = 0; j < layers.size(); ++j) {
    live += 2 * layers[j].parameter_bytes();
    if (j >= i) live += layers[j].parameter_bytes();
    if (j < i) live += layers[j].output_bytes(batch);
  }
  return i > 0 ? live + layers[i - 1].output_bytes(batch) : live;
}

}  // namespace

std::vector<Layer> make_layers(const Settings& settings) {
  std::vector<Layer> layers(static_cast<std::size_t>(settings.layers),
                            Layer{settings.width, settings.width, true});
  layers.push_back(Layer{settings.width, kClasses, false});
  return layers;
}

std::vector<float> initial_weights(const Settings& settings, const Layer& layer, std::size_t index) {
  return workload::initial_weights(settings.seed, index, layer.inputs, layer.weights());
}

Batch make_batch(const Settings& settings, int index) {
  const auto width = static_cast<std::size_t>(settings.width);
  const auto batch = static_cast<std::size_t>(settings.batch);
  const auto number = static_cast<std::size_t>(index);
  Batch made{std::vector<float>(width * batch), std::vector<int>(batch)};
  for (std::size_t s = 0; s < batch; ++s) {
    const std::size_t label = (7 * (number * batch + s) + 3) % kClasses;
    made.labels[s] = static_cast<int>(label);
    for (std::size_t f = 0; f < width; ++f) {
      made.inputs[f * batch + s] = 0.75f * uniform(settings.seed, 1000, label * width + f) +
                                   0.25f * uniform(settings.seed, 2000 + number, s * width + f);
    }
  }
  return made;
}

Footprint footprint(const Settings& settings) {
  const std::vector<Layer> layers = make_layers(settings);
  const int batch = settings.batch;
  const std::size_t input_bytes =
      static_cast<std::size_t>(settings.width) * static_cast<std::size_t>(batch) * sizeof(float);
  const std::size_t label_bytes = static_cast<std::size_t>(batch) * sizeof(int);

  // The allocations of train_mlp.cu that are alive in its backward work.
  Footprint need{};
  Ledger ledger;
  for (const Layer& layer : layers) {
    const std::size_t w = layer.weight_bytes();
    const std::size_t b = layer.bias_bytes();
    ledger.hold_all({w, b, w, b});
    need.h2d_bytes_once += w;
    need.d2h_bytes_once += w + b;
  }
  ledger.hold_all({input_bytes, label_bytes, input_bytes, label_bytes});
  ledger.hold(sizeof(float));  // the loss
  for (const Layer& layer : layers) ledger.hold(layer.output_bytes(batch));
  ledger.hold(layers.back().output_bytes(batch));
  for (std::size_t i = layers.size(); i-- > 0;) {
    const Layer& layer = layers[i];
    ledger.hold_all({layer.weight_bytes(), layer.bias_bytes()});
    if (i > 0) ledger.hold(layers[i - 1].output_bytes(batch));
    ledger.drop(layer.output_bytes(batch));  // its outputs
    ledger.drop(layer.output_bytes(batch));  // the gradient of its outputs
    need.live_bytes = std::max(need.live_bytes, live_bytes_after_backward_of(layers, i, batch, input_bytes));

    const std::size_t in = i > 0 ? layers[i - 1].output_bytes(batch) : input_bytes;
    const std::size_t out = layer.output_bytes(batch);
    const std::size_t w = layer.weight_bytes();
    const std::size_t b = layer.bias_bytes();
    need.largest_launch_set = std::max({need.largest_launch_set, in + w + b + out, 2 * in + w + out,
                                        in + out + w + b, 3 * w + sizeof(float)});
  }
  need.peak_bytes = ledger.peak_bytes;
  need.blocks = ledger.peak_blocks;
  need.blocks_2mib = ledger.peak_blocks_2mib;
  need.h2d_bytes_per_step = input_bytes + label_bytes;
  need.d2h_bytes_per_step = sizeof(float);
  return need;
}

}  // namespace mlp
