// Trains a small decoder with causal attention (transformer_model.h) in plain CUDA.

#include <cstring>
#include <memory>
#include <vector>

#include "tools/workloads/common/check.h"
#include "tools/workloads/common/random.h"
#include "tools/workloads/common/replicas.h"
#include "tools/workloads/ops/ops.h"
#include "tools/workloads/transformer/attention.h"
#include "tools/workloads/transformer/attention_kernels.h"
#include "tools/workloads/transformer/token_kernels.h"
#include "tools/workloads/transformer/transformer_model.h"

namespace {

using transformer::Dropout;
using transformer::Settings;
using transformer::Statistics;
using workload::blocks_for;
using workload::Floats;
using workload::kChunk;
using workload::kThreads;
using workload::Linear;

SIMGPU_KERNEL(embed, transformer::Embed, (transformer::EmbedArgs args, Dropout drop), args, drop)
SIMGPU_KERNEL(embed_backward, transformer::EmbedBackward,
              (transformer::EmbedArgs args, const float* dx, float* dtokens, float* dpositions), args, dx,
              dtokens, dpositions)
SIMGPU_KERNEL(drop_add, transformer::DropAdd,
              (const float* x, const float* skip, std::size_t count, Dropout drop, float* y), x, skip, count,
              drop, y)
SIMGPU_KERNEL(gelu, transformer::Gelu, (const float* x, std::size_t count, float* y), x, count, y)
SIMGPU_KERNEL(gelu_backward, transformer::GeluBackward, (const float* x, std::size_t count, float* dy), x,
              count, dy)
SIMGPU_KERNEL(norm_forward, transformer::NormForward, (transformer::NormArgs args), args)
SIMGPU_KERNEL(norm_backward, transformer::NormBackward, (transformer::NormBackwardArgs args), args)
SIMGPU_KERNEL(norm_backward_parameters, transformer::NormBackwardParameters,
              (transformer::NormBackwardArgs args, float* dgamma, float* dbeta), args, dgamma, dbeta)

/// Parts of a batch.
constexpr std::size_t kTokens = 0;
constexpr std::size_t kNext = 1;

struct Norm {
  std::size_t gamma, beta;
  workload::Array<Statistics> statistics;
};

struct Layer {
  Norm first, second;
  Linear qkv, projection, up, down;
  // From forward to backward:
  Floats x, normal, attended_from, shares, attended, middle, middle_normal, wide, active;
};

class Trainer final : public workload::Trainer {
 public:
  Trainer(const Settings& settings, const workload::Options& options)
      : workload::Trainer(options, 2),
        settings_(settings),
        rows_(settings.batch * settings.sequence),
        attention_(memory(), lanes(), settings.width, settings.heads, settings.batch, settings.sequence) {
    settings_.seed = options.seed;
    const int width = settings_.width;
    token_table_ = make_weights(width, transformer::kTokens, width);
    position_table_ = make_weights(width, settings_.sequence, width);
    for (int i = 0; i < settings_.layers; ++i) {
      Layer layer{};
      layer.first = make_norm();
      layer.qkv = make_linear(width, 3 * width);
      layer.projection = make_linear(width, width);
      layer.second = make_norm();
      layer.up = make_linear(width, 4 * width);
      layer.down = make_linear(4 * width, width);
      layers_.push_back(std::move(layer));
    }
    last_ = make_norm();
    head_ = make_linear(width, transformer::kTokens);

    const std::size_t bytes = static_cast<std::size_t>(rows_) * sizeof(int);
    feed_ = std::make_unique<workload::Feed>(
        memory(), lanes(), std::vector<std::size_t>{bytes, bytes}, transformer::kBatches, options.steps,
        [&](int number, std::size_t part, void* to) {
          const transformer::Batch batch = transformer::make_batch(settings_, number);
          std::memcpy(to, part == kTokens ? batch.tokens.data() : batch.next.data(), bytes);
        });
  }

 private:
  std::size_t make_weights(int inputs, int rows, int columns) {
    made_ = parameters().add(
                workload::initial_weights(settings_.seed, made_, inputs, workload::at(rows, columns, 0))) +
            1;
    return made_ - 1;
  }
  Linear make_linear(int inputs, int outputs) {
    Linear layer{inputs, outputs, make_weights(inputs, inputs, outputs), 0};
    layer.bias = parameters().add_zeros(static_cast<std::size_t>(outputs));
    made_ = layer.bias + 1;
    return layer;
  }
  Norm make_norm() {
    Norm norm{};
    norm.gamma = parameters().add(std::vector<float>(static_cast<std::size_t>(settings_.width), 1.0f));
    norm.beta = parameters().add_zeros(static_cast<std::size_t>(settings_.width));
    made_ = norm.beta + 1;
    return norm;
  }

  void queue_step(int number) override {
    feed_->begin(number);
    step_ = static_cast<std::uint32_t>(number);
    const auto* const tokens = feed_->part<int>(number, kTokens);
    Floats x = row_array(settings_.width);
    const transformer::EmbedArgs embedding{tokens,
                                           parameters().value(token_table_),
                                           parameters().value(position_table_),
                                           x.get(),
                                           rows_,
                                           settings_.width,
                                           settings_.sequence};
    embed<<<chunks(x), kThreads, 0, lanes().main()>>>(embedding, drop(0));
    workload::check_launch("embed");
    for (std::size_t i = 0; i < layers_.size(); ++i) x = forward(i, std::move(x));

    Floats dx = loss_backward(x, feed_->part<int>(number, kNext));
    x.reset();
    for (std::size_t i = layers_.size(); i-- > 0;) dx = backward(i, dx);
    dx = dropped(dx, nullptr, drop(0));
    float* const dtokens = parameters().make_gradient(token_table_);
    float* const dpositions = parameters().make_gradient(position_table_);
    embed_backward<<<static_cast<unsigned>(transformer::kTokens + settings_.sequence), kThreads, 0,
                     lanes().main()>>>(embedding, dx.get(), dtokens, dpositions);
    workload::check_launch("embed_backward");
    dx.reset();
    feed_->end(number);
    workload::adam_step(lanes(), parameters(), number, transformer::kLearningRate, transformer::kBeta1,
                        transformer::kBeta2, transformer::kAdamEpsilon);
  }

  Floats forward(std::size_t i, Floats x) {
    Layer& layer = layers_[i];
    layer.x = std::move(x);
    layer.normal = normalised(layer.first, layer.x);
    layer.attended_from = through(layer.qkv, layer.normal);
    layer.attended = attention_.forward(layer.attended_from, layer.shares);
    layer.middle = dropped(through(layer.projection, layer.attended), layer.x.get(), drop(1 + 2 * i));
    layer.middle_normal = normalised(layer.second, layer.middle);
    layer.wide = through(layer.up, layer.middle_normal);
    layer.active = row_array(layer.up.outputs);
    gelu<<<chunks(layer.wide), kThreads, 0, lanes().main()>>>(layer.wide.get(), layer.wide.count(),
                                                              layer.active.get());
    workload::check_launch("gelu");
    return dropped(through(layer.down, layer.active), layer.middle.get(), drop(2 + 2 * i));
  }

  Floats backward(std::size_t i, const Floats& dy) {
    Layer& layer = layers_[i];
    Floats gradient = back_through(layer.down, layer.active, dropped(dy, nullptr, drop(2 + 2 * i)));
    layer.active.reset();
    gelu_backward<<<chunks(gradient), kThreads, 0, lanes().main()>>>(layer.wide.get(), gradient.count(),
                                                                     gradient.get());
    workload::check_launch("gelu_backward");
    layer.wide.reset();
    gradient = back_through(layer.up, layer.middle_normal, gradient);
    layer.middle_normal.reset();
    const Floats dmiddle = norm_gradient(layer.second, layer.middle, gradient, dy.get());
    layer.middle.reset();

    gradient = back_through(layer.projection, layer.attended, dropped(dmiddle, nullptr, drop(1 + 2 * i)));
    layer.attended.reset();
    gradient = attention_.backward(layer.attended_from, layer.shares, gradient);
    layer.attended_from.reset();
    layer.shares.reset();
    gradient = back_through(layer.qkv, layer.normal, gradient);
    layer.normal.reset();
    Floats dx = norm_gradient(layer.first, layer.x, gradient, dmiddle.get());
    layer.x.reset();
    return dx;
  }

  /// Logits and loss of x, and the gradient of x.
  Floats loss_backward(const Floats& x, const int* next) {
    const Floats normal = normalised(last_, x);
    const Floats logits = through(head_, normal);
    const Floats dlogits = row_array(head_.outputs);
    workload::cross_entropy(memory(), lanes(), workload::Layout::kSampleRows, logits.get(), next, rows_,
                            head_.outputs, dlogits.get(), loss());
    return norm_gradient(last_, x, back_through(head_, normal, dlogits), nullptr);
  }

  Floats through(const Linear& layer, const Floats& x) {
    return workload::linear_forward(memory(), lanes(), parameters(), layer, x.get(), rows_);
  }
  Floats back_through(const Linear& layer, const Floats& x, const Floats& dy) {
    return workload::linear_backward(memory(), lanes(), parameters(), layer, x.get(), dy.get(), rows_);
  }

  Floats normalised(Norm& norm, const Floats& x) {
    norm.statistics = workload::Array<Statistics>(memory(), static_cast<std::size_t>(rows_));
    Floats y = row_array(settings_.width);
    const transformer::NormArgs args{x.get(),
                                     parameters().value(norm.gamma),
                                     parameters().value(norm.beta),
                                     norm.statistics.get(),
                                     y.get(),
                                     rows_,
                                     settings_.width};
    norm_forward<<<static_cast<unsigned>(rows_), kThreads, 0, lanes().main()>>>(args);
    workload::check_launch("norm_forward");
    return y;
  }

  /// The gradient of x, which was normalised, plus skip; makes the gradients of gamma and beta in a side
  /// stream.
  Floats norm_gradient(Norm& norm, const Floats& x, const Floats& dy, const float* skip) {
    Floats dx = row_array(settings_.width);
    const transformer::NormBackwardArgs args{x.get(),
                                             parameters().value(norm.gamma),
                                             norm.statistics.get(),
                                             dy.get(),
                                             skip,
                                             dx.get(),
                                             rows_,
                                             settings_.width};
    float* const dgamma = parameters().make_gradient(norm.gamma);
    float* const dbeta = parameters().make_gradient(norm.beta);
    norm_backward_parameters<<<blocks_for(static_cast<std::size_t>(settings_.width), kThreads), kThreads, 0,
                               lanes().fork(0)>>>(args, dgamma, dbeta);
    workload::check_launch("norm_backward_parameters");
    norm_backward<<<static_cast<unsigned>(rows_), kThreads, 0, lanes().main()>>>(args);
    workload::check_launch("norm_backward");
    lanes().join(0);
    norm.statistics.reset();
    return dx;
  }

  Floats dropped(const Floats& x, const float* skip, const Dropout& which) {
    Floats y = floats(x.count());
    drop_add<<<chunks(x), kThreads, 0, lanes().main()>>>(x.get(), skip, x.count(), which, y.get());
    workload::check_launch("drop_add");
    return y;
  }
  [[nodiscard]] Dropout drop(std::size_t place) const {
    return {static_cast<std::uint32_t>(settings_.seed), static_cast<std::uint32_t>(settings_.seed >> 32),
            static_cast<std::uint32_t>(place), step_};
  }

  Floats row_array(int columns) { return floats(workload::at(rows_, columns, 0)); }
  static unsigned chunks(const Floats& x) { return blocks_for(x.count(), kChunk); }

  Settings settings_;
  int rows_;
  transformer::Attention attention_;
  std::size_t made_ = 0;  ///< parameters made so far
  std::uint32_t step_ = 0;
  std::size_t token_table_ = 0;
  std::size_t position_table_ = 0;
  std::vector<Layer> layers_;
  Norm last_{};
  Linear head_{};
  std::unique_ptr<workload::Feed> feed_;
};

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  const workload::Program program{
      "train_transformer",
      "Trains a decoder with causal attention by Adam; prints each loss and a digest of the parameters.",
      {{"--width", &settings.width, 2, 16384, 1, "numbers of a position"},
       {"--heads", &settings.heads, 1, 256, 1, "heads of attention; divides the width"},
       {"--layers", &settings.layers, 1, 1000, 1, "layers"},
       {"--batch", &settings.batch, 1, 65536, 1, "samples per step"},
       {"--sequence", &settings.sequence, 1, 8192, 1, "positions of a sample"}},
      false};
  const workload::Options options = workload::parse_options(argc, argv, program, {});
  if (settings.width % settings.heads != 0) workload::fail("--heads", "must divide --width");
  return workload::train_to_the_end<Trainer>(options, settings);
}
