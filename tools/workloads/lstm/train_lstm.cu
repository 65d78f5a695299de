// Trains layers of long short-term memory through time (lstm_model.h) in plain CUDA.

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "tools/workloads/common/check.h"
#include "tools/workloads/common/random.h"
#include "tools/workloads/common/replicas.h"
#include "tools/workloads/lstm/lstm_kernels.h"
#include "tools/workloads/lstm/lstm_model.h"
#include "tools/workloads/ops/ops.h"

namespace {

using lstm::Settings;
using workload::at;
using workload::blocks_for;
using workload::Floats;
using workload::Turned;

SIMGPU_KERNEL(cell_forward, lstm::CellForward, (lstm::CellArgs args), args)
SIMGPU_KERNEL(cell_backward, lstm::CellBackward, (lstm::CellArgs args), args)

/// Parts of a batch.
constexpr std::size_t kInputs = 0;
constexpr std::size_t kLabels = 1;

struct Layer {
  std::size_t from_input, from_output, bias;
  // From forward to backward, rows of all positions:
  Floats gates, cells, outputs;
};

class Trainer final : public workload::Trainer {
 public:
  Trainer(const Settings& settings, const workload::Options& options)
      : workload::Trainer(options, 1), settings_(settings), rows_(settings.batch * settings.sequence) {
    settings_.seed = options.seed;
    const int width = settings_.width;
    for (int i = 0; i < settings_.layers; ++i) {
      Layer layer{};
      layer.from_input = make_weights(4 * width, 4 * width);
      layer.from_output = make_weights(4 * width, 4 * width);
      std::vector<float> bias(at(4, width, 0), 0.0f);
      std::fill_n(bias.begin() + width, width, 1.0f);
      layer.bias = parameters().add(bias);
      made_ = layer.bias + 1;
      layers_.push_back(std::move(layer));
    }
    head_ = {width, lstm::kClasses, make_weights(width, lstm::kClasses), 0};
    head_.bias = parameters().add_zeros(lstm::kClasses);

    const std::vector<std::size_t> sizes = {workload::floats(rows_, width),
                                            static_cast<std::size_t>(rows_) * sizeof(int)};
    feed_ = std::make_unique<workload::Feed>(
        memory(), lanes(), sizes, lstm::kBatches, options.steps, [&](int number, std::size_t part, void* to) {
          const lstm::Batch batch = lstm::make_batch(settings_, number);
          std::memcpy(to,
                      part == kInputs ? static_cast<const void*>(batch.inputs.data())
                                      : static_cast<const void*>(batch.labels.data()),
                      sizes[part]);
        });
  }

 private:
  /// Weights with `width` rows.
  std::size_t make_weights(int inputs, int columns) {
    const std::size_t made = parameters().add(
        workload::initial_weights(settings_.seed, made_, inputs, at(settings_.width, columns, 0)));
    made_ = made + 1;
    return made;
  }

  void queue_step(int number) override {
    feed_->begin(number);
    const auto* const inputs = feed_->part<float>(number, kInputs);
    for (std::size_t i = 0; i < layers_.size(); ++i) forward(layers_[i], inputs_of(i, inputs));

    const Floats& last = layers_.back().outputs;
    const Floats logits = workload::linear_forward(memory(), lanes(), parameters(), head_, last.get(), rows_);
    const Floats dlogits = floats(logits.count());
    workload::cross_entropy(memory(), lanes(), workload::Layout::kSampleRows, logits.get(),
                            feed_->part<int>(number, kLabels), rows_, lstm::kClasses, dlogits.get(), loss());
    Floats gradient =
        workload::linear_backward(memory(), lanes(), parameters(), head_, last.get(), dlogits.get(), rows_);
    for (std::size_t i = layers_.size(); i-- > 0;) {
      gradient = backward(layers_[i], inputs_of(i, inputs), gradient, i > 0);
    }
    feed_->end(number);
    workload::sgd_step(memory(), lanes(), parameters(), lstm::kLearningRate, lstm::kMomentum,
                       lstm::kClipNorm);
  }

  [[nodiscard]] const float* inputs_of(std::size_t i, const float* inputs) const {
    return i == 0 ? inputs : layers_[i - 1].outputs.get();
  }

  void forward(Layer& layer, const float* x) {
    const int width = settings_.width;
    layer.gates = floats(at(rows_, 4 * width, 0));
    layer.cells = floats(at(rows_, width, 0));
    layer.outputs = floats(at(rows_, width, 0));
    const cudaStream_t stream = lanes().main();
    workload::multiply(stream, Turned::kNone,
                       {x, parameters().value(layer.from_input), layer.gates.get(), rows_, 4 * width, width,
                        parameters().value(layer.bias)});
    for (int t = 0; t < settings_.sequence; ++t) {
      const lstm::CellArgs args = cell(layer, t);
      if (t > 0) {
        workload::multiply(stream, Turned::kNone,
                           {layer.outputs.get() + position(t - 1), parameters().value(layer.from_output),
                            args.gates, settings_.batch, 4 * width, width, nullptr, true});
      }
      cell_forward<<<cell_blocks(), workload::kThreads, 0, stream>>>(args);
      workload::check_launch("cell_forward");
    }
  }

  /// Back through time; makes the gradients of the layer's parameters, returns that of its inputs if it is
  /// wanted.
  Floats backward(Layer& layer, const float* x, const Floats& doutputs, bool wants_input) {
    const int width = settings_.width;
    const cudaStream_t stream = lanes().main();
    {
      const Floats drecurrent = floats(at(settings_.batch, width, 0));
      const Floats dcells = floats(at(settings_.batch, width, 0));
      for (int t = settings_.sequence; t-- > 0;) {
        lstm::CellArgs args = cell(layer, t);
        args.doutputs = doutputs.get() + position(t);
        args.last = t + 1 == settings_.sequence ? 1 : 0;
        args.drecurrent = args.last != 0 ? nullptr : drecurrent.get();
        args.dcells = dcells.get();
        cell_backward<<<cell_blocks(), workload::kThreads, 0, stream>>>(args);
        workload::check_launch("cell_backward");
        if (t == 0) break;
        workload::multiply(stream, Turned::kB,
                           {args.gates, parameters().value(layer.from_output), drecurrent.get(),
                            settings_.batch, width, 4 * width});
      }
    }
    layer.cells.reset();

    const float* const dgates = layer.gates.get();
    float* const dfrom_input = parameters().make_gradient(layer.from_input);
    float* const dfrom_output = parameters().make_gradient(layer.from_output);
    float* const dbias = parameters().make_gradient(layer.bias);
    Floats dx;
    if (wants_input) dx = floats(at(rows_, width, 0));
    workload::multiply(lanes().fork(0), Turned::kA, {x, dgates, dfrom_input, width, 4 * width, rows_});
    const cudaStream_t second = lanes().fork(1);
    workload::multiply(second, Turned::kA,
                       {layer.outputs.get(), dgates + 4 * position(1), dfrom_output, width, 4 * width,
                        rows_ - settings_.batch});
    workload::column_sum(second, dgates, rows_, 4 * width, dbias);
    if (wants_input) {
      workload::multiply(stream, Turned::kB,
                         {dgates, parameters().value(layer.from_input), dx.get(), rows_, width, 4 * width});
    }
    lanes().join(0);
    lanes().join(1);
    layer.gates.reset();
    layer.outputs.reset();
    return dx;
  }

  /// Where position t begins in arrays of `width` columns.
  [[nodiscard]] std::size_t position(int t) const { return at(t * settings_.batch, settings_.width, 0); }
  [[nodiscard]] unsigned cell_blocks() const {
    return blocks_for(at(settings_.batch, settings_.width, 0), workload::kChunk);
  }
  [[nodiscard]] lstm::CellArgs cell(const Layer& layer, int t) const {
    lstm::CellArgs args{};
    args.gates = layer.gates.get() + 4 * position(t);
    args.before = t == 0 ? nullptr : layer.cells.get() + position(t - 1);
    args.cells = layer.cells.get() + position(t);
    args.outputs = layer.outputs.get() + position(t);
    args.rows = settings_.batch;
    args.width = settings_.width;
    return args;
  }

  Settings settings_;
  int rows_;              ///< positions of all samples
  std::size_t made_ = 0;  ///< parameters made so far
  std::vector<Layer> layers_;
  workload::Linear head_{};
  std::unique_ptr<workload::Feed> feed_;
};

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  const workload::Program program{
      "train_lstm",
      "Trains long short-term memory through time; prints each loss and a digest of the parameters.",
      {{"--width", &settings.width, 1, 16384, 1, "inputs of each position and cells of each layer"},
       {"--layers", &settings.layers, 1, 100, 1, "layers"},
       {"--batch", &settings.batch, 1, 65536, 1, "samples per step"},
       {"--sequence", &settings.sequence, 2, 8192, 1, "positions of a sample"}},
      false};
  const workload::Options options = workload::parse_options(argc, argv, program, {});
  return workload::train_to_the_end<Trainer>(options, settings);
}
