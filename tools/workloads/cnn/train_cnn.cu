// Trains a convolutional network with residual blocks and batch normalisation (cnn_model.h) in plain CUDA.

#include <cstring>
#include <memory>
#include <vector>

#include "tools/workloads/cnn/cnn_model.h"
#include "tools/workloads/cnn/conv_kernels.h"
#include "tools/workloads/cnn/conv_layers.h"
#include "tools/workloads/cnn/norm_kernels.h"
#include "tools/workloads/common/check.h"
#include "tools/workloads/common/random.h"
#include "tools/workloads/common/replicas.h"
#include "tools/workloads/ops/ops.h"

namespace {

using cnn::Conv;
using cnn::kTaps;
using cnn::Settings;
using cnn::size_of;
using workload::blocks_for;
using workload::Floats;
using workload::kChunk;
using workload::kThreads;

SIMGPU_KERNEL(max_pool, cnn::MaxPool, (cnn::PoolArgs args), args)
SIMGPU_KERNEL(max_pool_backward, cnn::MaxPoolBackward, (cnn::PoolArgs args), args)
SIMGPU_KERNEL(mean_pool, cnn::MeanPool, (const float* from, int channels, int images, int pixels, float* to),
              from, channels, images, pixels, to)
SIMGPU_KERNEL(mean_pool_backward, cnn::MeanPoolBackward,
              (const float* from, int channels, int images, int pixels, float* to), from, channels, images,
              pixels, to)
SIMGPU_KERNEL(relu_backward, cnn::ReluBackward,
              (const float* y, const float* dy, std::size_t count, float* dx), y, dy, count, dx)

/// Parts of a batch.
constexpr std::size_t kImages = 0;
constexpr std::size_t kLabels = 1;

struct Block {
  Conv first;
  Conv second;
  std::vector<Conv> skip;  ///< none or one
  Floats middle;
  Floats output;
};

class Trainer final : public workload::Trainer {
 public:
  Trainer(const Settings& settings, const workload::Options& options)
      : workload::Trainer(options, 1),
        settings_(settings),
        convs_(memory(), lanes(), parameters(), settings.batch) {
    settings_.seed = options.seed;
    const int width = settings_.width;
    const int half = settings_.image / 2;
    stem_ = make_conv(cnn::kColours, width, kTaps, settings_.image);
    for (int i = 0; i < settings_.layers; ++i) first_.push_back(make_block(width, width, settings_.image));
    for (int i = 0; i < settings_.layers; ++i) {
      second_.push_back(make_block(i == 0 ? width : 2 * width, 2 * width, half));
    }
    head_ = {2 * width, cnn::kClasses, 0, 0};
    head_.weights = parameters().add(workload::initial_weights(settings_.seed, made_, head_.inputs,
                                                               size_of(head_.inputs) * cnn::kClasses));
    head_.bias = parameters().add_zeros(cnn::kClasses);
    make_feed(options.steps);
  }

 private:
  Conv make_conv(int inputs, int outputs, int taps, int size) {
    Conv conv{};
    conv.inputs = inputs;
    conv.outputs = outputs;
    conv.taps = taps;
    conv.size = size;
    const std::vector<float> zeros(size_of(outputs), 0.0f);
    const std::vector<float> ones(size_of(outputs), 1.0f);
    conv.weights = parameters().add(workload::initial_weights(settings_.seed, made_, inputs * taps,
                                                              size_of(outputs) * size_of(inputs * taps)));
    conv.gamma = parameters().add(ones);
    conv.beta = parameters().add(zeros);
    conv.mean = parameters().add_average(zeros);
    conv.variance = parameters().add_average(ones);
    made_ = conv.variance + 1;
    return conv;
  }

  Block make_block(int inputs, int outputs, int size) {
    Block block;
    block.first = make_conv(inputs, outputs, kTaps, size);
    block.second = make_conv(outputs, outputs, kTaps, size);
    if (inputs != outputs) block.skip.push_back(make_conv(inputs, outputs, 1, size));
    return block;
  }

  void make_feed(int steps) {
    const std::size_t pixels = size_of(settings_.image) * size_of(settings_.image);
    const std::vector<std::size_t> sizes = {cnn::kColours * size_of(settings_.batch) * pixels * sizeof(float),
                                            size_of(settings_.batch) * sizeof(int)};
    feed_ = std::make_unique<workload::Feed>(
        memory(), lanes(), sizes, cnn::kBatches, steps, [&](int number, std::size_t part, void* to) {
          const cnn::Batch batch = cnn::make_batch(settings_, number);
          std::memcpy(to,
                      part == kImages ? static_cast<const void*>(batch.images.data())
                                      : static_cast<const void*>(batch.labels.data()),
                      sizes[part]);
        });
  }

  void queue_step(int number) override {
    feed_->begin(number);
    const auto* const images = feed_->part<float>(number, kImages);
    const int half = settings_.image / 2;
    stem_output_ = convs_.forward(stem_, images, nullptr, true, false);
    const float* x = stem_output_.get();
    for (Block& block : first_) x = forward(block, x);
    Floats pooled =
        pool(x, size_of(settings_.width) * size_of(settings_.batch) * size_of(half) * size_of(half));
    x = pooled.get();
    for (Block& block : second_) x = forward(block, x);

    Floats gradient = head(x, feed_->part<int>(number, kLabels));
    for (std::size_t i = second_.size(); i-- > 0;) {
      gradient = backward(second_[i], i == 0 ? pooled.get() : second_[i - 1].output.get(), gradient);
    }
    pooled.reset();
    gradient = pool_backward(gradient);
    for (std::size_t i = first_.size(); i-- > 0;) {
      gradient = backward(first_[i], i == 0 ? stem_output_.get() : first_[i - 1].output.get(), gradient);
    }
    gradient = relu_gradient(stem_output_, gradient);
    stem_output_.reset();
    convs_.backward(stem_, images, gradient, false);
    gradient.reset();
    feed_->end(number);
    workload::sgd_step(memory(), lanes(), parameters(), cnn::kLearningRate, cnn::kMomentum, 0.0f);
  }

  const float* forward(Block& block, const float* x) {
    Floats projected;
    const float* skip = x;
    if (!block.skip.empty()) {
      projected = convs_.forward(block.skip[0], x, nullptr, false, true);
      skip = projected.get();
    }
    block.middle = convs_.forward(block.first, x, nullptr, true, false);
    if (!block.skip.empty()) lanes().join(0);
    block.output = convs_.forward(block.second, block.middle.get(), skip, true, false);
    return block.output.get();
  }

  Floats backward(Block& block, const float* x, const Floats& dy) {
    const Floats dsum = relu_gradient(block.output, dy);
    block.output.reset();
    Floats dmiddle = convs_.backward(block.second, block.middle.get(), dsum);
    dmiddle = relu_gradient(block.middle, dmiddle);
    block.middle.reset();
    Floats dx = convs_.backward(block.first, x, dmiddle);
    Floats dskip;
    if (!block.skip.empty()) dskip = convs_.backward(block.skip[0], x, dsum);
    workload::add_to(lanes().main(), block.skip.empty() ? dsum.get() : dskip.get(), dx.count(), dx.get());
    return dx;
  }

  Floats relu_gradient(const Floats& y, const Floats& dy) {
    Floats dx = floats(y.count());
    relu_backward<<<blocks_for(y.count(), kChunk), kThreads, 0, lanes().main()>>>(y.get(), dy.get(),
                                                                                  y.count(), dx.get());
    workload::check_launch("relu_backward");
    return dx;
  }

  Floats pool(const float* x, std::size_t results) {
    Floats y = floats(results);
    which_ = {memory(), results};
    max_pool<<<blocks_for(results, kChunk), kThreads, 0, lanes().main()>>>(
        cnn::PoolArgs{x, y.get(), which_.get(), results, settings_.image});
    workload::check_launch("max_pool");
    return y;
  }

  Floats pool_backward(const Floats& dy) {
    Floats dx = floats(4 * dy.count());
    max_pool_backward<<<blocks_for(dy.count(), kChunk), kThreads, 0, lanes().main()>>>(
        cnn::PoolArgs{dy.get(), dx.get(), which_.get(), dy.count(), settings_.image});
    workload::check_launch("max_pool_backward");
    which_.reset();
    return dx;
  }

  /// Means, linear layer and loss, forward and back; returns the gradient of x.
  Floats head(const float* x, const int* labels) {
    const int channels = 2 * settings_.width;
    const int samples = settings_.batch;
    const int pixels = settings_.image / 2 * (settings_.image / 2);
    const Floats means = floats(size_of(channels) * size_of(samples));
    mean_pool<<<blocks_for(means.count(), kChunk), kThreads, 0, lanes().main()>>>(x, channels, samples,
                                                                                  pixels, means.get());
    workload::check_launch("mean_pool");
    const Floats logits =
        workload::linear_forward(memory(), lanes(), parameters(), head_, means.get(), samples);
    const Floats dlogits = floats(logits.count());
    workload::cross_entropy(memory(), lanes(), workload::Layout::kSampleRows, logits.get(), labels, samples,
                            cnn::kClasses, dlogits.get(), loss());
    const Floats dmeans = workload::linear_backward(memory(), lanes(), parameters(), head_, means.get(),
                                                    dlogits.get(), samples);
    Floats dx = floats(means.count() * size_of(pixels));
    mean_pool_backward<<<blocks_for(dx.count(), kChunk), kThreads, 0, lanes().main()>>>(
        dmeans.get(), channels, samples, pixels, dx.get());
    workload::check_launch("mean_pool_backward");
    return dx;
  }

  Settings settings_;
  cnn::ConvLayers convs_;
  std::size_t made_ = 0;  ///< parameters made so far
  Conv stem_{};
  Floats stem_output_;
  std::vector<Block> first_;
  std::vector<Block> second_;
  workload::Linear head_{};
  workload::Array<unsigned char> which_;
  std::unique_ptr<workload::Feed> feed_;
};

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  const workload::Program program{
      "train_cnn",
      "Trains a convolutional network with residual blocks; prints each loss and a digest of the parameters.",
      {{"--width", &settings.width, 1, 1024, 1, "channels of the first half; twice as many in the second"},
       {"--layers", &settings.layers, 1, 100, 1, "residual blocks of each half"},
       {"--batch", &settings.batch, 2, 4096, 1, "images per step"},
       {"--image", &settings.image, 4, 256, 2, "pixels of a side"}},
      false};
  const workload::Options options = workload::parse_options(argc, argv, program, {});
  return workload::train_to_the_end<Trainer>(options, settings);
}
