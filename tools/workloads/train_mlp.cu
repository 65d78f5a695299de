// Trains a multi-layer perceptron in plain CUDA: an ordinary program that knows nothing of how its memory is
// managed. Prints each step's loss as a hexadecimal float and at the end a digest of all parameters, so that
// two runs that print the same computed the same bits.

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "tools/workloads/mlp_kernels.h"
#include "tools/workloads/mlp_model.h"

namespace {

using mlp::Batch;
using mlp::Layer;
using mlp::Settings;

[[noreturn]] void fail(const char* what, const char* why) {
  std::fprintf(stderr, "train_mlp: %s: %s\n", what, why);
  std::exit(1);
}

void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess) fail(what, cudaGetErrorString(error));
}
#define MLP_CUDA(call) check(call, #call)
#define MLP_LAUNCHED(name) check(cudaGetLastError(), "launch of " name)

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
SIMGPU_KERNEL(softmax_loss, mlp::SoftmaxLoss, (mlp::SoftmaxArgs args, float* loss), args, loss)
SIMGPU_KERNEL(square_sum, mlp::SquareSum, (const float* values, std::size_t count, float* sums), values,
              count, sums)
SIMGPU_KERNEL(clip_factor, mlp::ClipFactor, (const float* sums, std::size_t count, float* factor), sums,
              count, factor)
SIMGPU_KERNEL(sgd_update, mlp::SgdUpdate, (mlp::UpdateArgs args, float rate, const float* factor), args, rate,
              factor)

unsigned blocks(std::size_t n, std::size_t per_block) {
  return static_cast<unsigned>((n + per_block - 1) / per_block);
}

template <class T>
T* device_array(std::size_t bytes) {
  void* memory = nullptr;
  MLP_CUDA(cudaMalloc(&memory, bytes));
  return static_cast<T*>(memory);
}

/// The arrays that a layer keeps for the whole run.
struct Parameters {
  float* weights;
  float* bias;
  float* weight_momentum;
  float* bias_momentum;
};

/// The arrays that a layer has during one step.
struct Scratch {
  float* outputs = nullptr;
  float* weight_gradient = nullptr;
  float* bias_gradient = nullptr;
};

/// One of the two places that batches are copied to in turn.
struct InputSlot {
  float* inputs;
  int* labels;
  cudaEvent_t filled;
  cudaEvent_t used;
};

class Trainer {
 public:
  explicit Trainer(const Settings& settings)
      : settings_(settings), layers_(mlp::make_layers(settings)), steps_(layers_.size()) {
    MLP_CUDA(cudaStreamCreateWithFlags(&compute_, cudaStreamNonBlocking));
    MLP_CUDA(cudaStreamCreateWithFlags(&copies_, cudaStreamNonBlocking));
    for (std::size_t i = 0; i < layers_.size(); ++i) make_parameters(i);
    for (InputSlot& slot : slots_) {
      slot.inputs = device_array<float>(input_bytes());
      slot.labels = device_array<int>(label_bytes());
      MLP_CUDA(cudaEventCreateWithFlags(&slot.filled, cudaEventDisableTiming));
      MLP_CUDA(cudaEventCreateWithFlags(&slot.used, cudaEventDisableTiming));
    }
    for (const Layer& layer : layers_) chunks_ += layer.chunks();
    sums_ = device_array<float>(chunks_ * sizeof(float));
    factor_ = device_array<float>(sizeof(float));
    loss_ = device_array<float>(sizeof(float));
    make_data();
    // The memsets of the momenta went to the legacy stream, which non-blocking streams do not wait for.
    MLP_CUDA(cudaDeviceSynchronize());
    fill_slot(0);
  }

  /// One step of training; returns the loss before it.
  float step(int number) {
    InputSlot& slot = slots_[number % 2];
    if (number + 1 < settings_.steps) fill_slot(number + 1);
    MLP_CUDA(cudaStreamWaitEvent(compute_, slot.filled, 0));
    forward(slot);
    float* gradient = loss(slot);
    for (std::size_t i = layers_.size(); i-- > 0;) gradient = backward(slot, i, gradient);
    MLP_CUDA(cudaEventRecord(slot.used, compute_));
    update();
    MLP_CUDA(cudaStreamSynchronize(compute_));
    return *host_loss_;
  }

  /// FNV-1a of all bytes of all weights and biases.
  std::uint64_t digest() {
    std::uint64_t hash = 0xcbf29ce484222325ULL;
    std::vector<unsigned char> bytes;
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      const std::size_t sizes[] = {layers_[i].weight_bytes(), layers_[i].bias_bytes()};
      const float* const arrays[] = {parameters_[i].weights, parameters_[i].bias};
      for (int part = 0; part < 2; ++part) {
        bytes.resize(sizes[part]);
        MLP_CUDA(cudaMemcpy(bytes.data(), arrays[part], sizes[part], cudaMemcpyDeviceToHost));
        for (const unsigned char byte : bytes) hash = (hash ^ byte) * 0x100000001b3ULL;
      }
    }
    return hash;
  }

  void release() {
    for (const Parameters& p : parameters_) {
      for (float* array : {p.weights, p.bias, p.weight_momentum, p.bias_momentum}) MLP_CUDA(cudaFree(array));
    }
    for (const InputSlot& slot : slots_) {
      MLP_CUDA(cudaFree(slot.inputs));
      MLP_CUDA(cudaFree(slot.labels));
      MLP_CUDA(cudaEventDestroy(slot.filled));
      MLP_CUDA(cudaEventDestroy(slot.used));
    }
    for (float* array : {sums_, factor_, loss_}) MLP_CUDA(cudaFree(array));
    MLP_CUDA(cudaFreeHost(host_inputs_));
    MLP_CUDA(cudaFreeHost(host_labels_));
    MLP_CUDA(cudaFreeHost(host_loss_));
    MLP_CUDA(cudaStreamDestroy(compute_));
    MLP_CUDA(cudaStreamDestroy(copies_));
  }

 private:
  std::size_t input_bytes() const { return mlp::floats(settings_.width, settings_.batch); }
  std::size_t label_bytes() const { return static_cast<std::size_t>(settings_.batch) * sizeof(int); }

  void make_parameters(std::size_t i) {
    const Layer& layer = layers_[i];
    Parameters p{};
    p.weights = device_array<float>(layer.weight_bytes());
    p.bias = device_array<float>(layer.bias_bytes());
    p.weight_momentum = device_array<float>(layer.weight_bytes());
    p.bias_momentum = device_array<float>(layer.bias_bytes());
    const std::vector<float> weights = mlp::initial_weights(settings_, layer, i);
    MLP_CUDA(cudaMemcpy(p.weights, weights.data(), layer.weight_bytes(), cudaMemcpyHostToDevice));
    MLP_CUDA(cudaMemset(p.bias, 0, layer.bias_bytes()));
    MLP_CUDA(cudaMemset(p.weight_momentum, 0, layer.weight_bytes()));
    MLP_CUDA(cudaMemset(p.bias_momentum, 0, layer.bias_bytes()));
    parameters_.push_back(p);
  }

  void make_data() {
    void* memory = nullptr;
    MLP_CUDA(cudaMallocHost(&memory, mlp::kBatches * input_bytes()));
    host_inputs_ = static_cast<char*>(memory);
    MLP_CUDA(cudaMallocHost(&memory, mlp::kBatches * label_bytes()));
    host_labels_ = static_cast<char*>(memory);
    MLP_CUDA(cudaMallocHost(&memory, sizeof(float)));
    host_loss_ = static_cast<float*>(memory);
    for (int b = 0; b < mlp::kBatches; ++b) {
      const Batch batch = mlp::make_batch(settings_, b);
      std::memcpy(host_inputs_ + static_cast<std::size_t>(b) * input_bytes(), batch.inputs.data(),
                  input_bytes());
      std::memcpy(host_labels_ + static_cast<std::size_t>(b) * label_bytes(), batch.labels.data(),
                  label_bytes());
    }
  }

  /// Starts to copy the batch of a step; the copy waits until the step before the last has used the slot.
  void fill_slot(int number) {
    InputSlot& slot = slots_[number % 2];
    const auto batch = static_cast<std::size_t>(number % mlp::kBatches);
    if (number >= 2) MLP_CUDA(cudaStreamWaitEvent(copies_, slot.used, 0));
    MLP_CUDA(cudaMemcpyAsync(slot.inputs, host_inputs_ + batch * input_bytes(), input_bytes(),
                             cudaMemcpyHostToDevice, copies_));
    MLP_CUDA(cudaMemcpyAsync(slot.labels, host_labels_ + batch * label_bytes(), label_bytes(),
                             cudaMemcpyHostToDevice, copies_));
    MLP_CUDA(cudaEventRecord(slot.filled, copies_));
  }

  const float* inputs_of(const InputSlot& slot, std::size_t i) const {
    return i == 0 ? slot.inputs : steps_[i - 1].outputs;
  }

  void forward(const InputSlot& slot) {
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      const Layer& layer = layers_[i];
      steps_[i].outputs = device_array<float>(layer.output_bytes(settings_.batch));
      const dim3 grid(blocks(static_cast<std::size_t>(layer.outputs), mlp::kRows),
                      blocks(static_cast<std::size_t>(settings_.batch), mlp::kLanes));
      linear_forward<<<grid, mlp::kRows * mlp::kLanes, 0, compute_>>>(
          inputs_of(slot, i), parameters_[i].weights, parameters_[i].bias, layer.inputs, layer.outputs,
          settings_.batch, layer.relu ? 1 : 0, steps_[i].outputs);
      MLP_LAUNCHED("linear_forward");
    }
  }

  /// Returns the gradient of the logits.
  float* loss(const InputSlot& slot) {
    const std::size_t last = layers_.size() - 1;
    float* const gradient = device_array<float>(layers_[last].output_bytes(settings_.batch));
    const mlp::SoftmaxArgs args{steps_[last].outputs, slot.labels, gradient, layers_[last].outputs,
                                settings_.batch};
    softmax_loss<<<1, static_cast<unsigned>(settings_.batch), 0, compute_>>>(args, loss_);
    MLP_LAUNCHED("softmax_loss");
    MLP_CUDA(cudaMemcpyAsync(host_loss_, loss_, sizeof(float), cudaMemcpyDeviceToHost, compute_));
    return gradient;
  }

  /// Backward work of layer i; frees its outputs and their gradient, returns the gradient of its inputs.
  float* backward(const InputSlot& slot, std::size_t i, float* gradient) {
    const Layer& layer = layers_[i];
    Scratch& scratch = steps_[i];
    scratch.weight_gradient = device_array<float>(layer.weight_bytes());
    scratch.bias_gradient = device_array<float>(layer.bias_bytes());
    const dim3 weight_grid(
        blocks(static_cast<std::size_t>(layer.outputs), mlp::kRows),
        blocks(static_cast<std::size_t>(layer.inputs), mlp::LinearBackwardWeight::kColumns));
    linear_backward_weight<<<weight_grid, mlp::LinearBackwardWeight::kColumns, 0, compute_>>>(
        inputs_of(slot, i), gradient, layer.inputs, layer.outputs, settings_.batch, scratch.bias_gradient,
        scratch.weight_gradient);
    MLP_LAUNCHED("linear_backward_weight");
    float* input_gradient = nullptr;
    if (i > 0) {
      input_gradient = device_array<float>(layers_[i - 1].output_bytes(settings_.batch));
      const dim3 grid(blocks(static_cast<std::size_t>(layer.inputs), mlp::kRows),
                      blocks(static_cast<std::size_t>(settings_.batch), mlp::kLanes));
      linear_backward_input<<<grid, mlp::kRows * mlp::kLanes, 0, compute_>>>(
          parameters_[i].weights, gradient, steps_[i - 1].outputs, layer.inputs, layer.outputs,
          settings_.batch, input_gradient);
      MLP_LAUNCHED("linear_backward_input");
    }
    MLP_CUDA(cudaFree(scratch.outputs));
    MLP_CUDA(cudaFree(gradient));
    return input_gradient;
  }

  /// Shortens all gradients together if they are too long, then moves the parameters; frees the gradients.
  void update() {
    MLP_CUDA(cudaMemsetAsync(sums_, 0, chunks_ * sizeof(float), compute_));
    std::size_t chunk = 0;
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      chunk = add_squares(steps_[i].weight_gradient, layers_[i].weights(), chunk);
      chunk = add_squares(steps_[i].bias_gradient, static_cast<std::size_t>(layers_[i].outputs), chunk);
    }
    clip_factor<<<1, 1, 0, compute_>>>(sums_, chunks_, factor_);
    MLP_LAUNCHED("clip_factor");
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      const Parameters& p = parameters_[i];
      descend({p.weights, p.weight_momentum, steps_[i].weight_gradient, layers_[i].weights()});
      descend(
          {p.bias, p.bias_momentum, steps_[i].bias_gradient, static_cast<std::size_t>(layers_[i].outputs)});
      MLP_CUDA(cudaFree(steps_[i].weight_gradient));
      MLP_CUDA(cudaFree(steps_[i].bias_gradient));
    }
  }

  std::size_t add_squares(const float* values, std::size_t count, std::size_t chunk) {
    const unsigned grid = blocks(count, mlp::kChunk);
    square_sum<<<grid, mlp::SquareSum::kThreads, 0, compute_>>>(values, count, sums_ + chunk);
    MLP_LAUNCHED("square_sum");
    return chunk + grid;
  }

  void descend(mlp::UpdateArgs args) {
    sgd_update<<<blocks(args.count, mlp::kChunk), mlp::SgdUpdate::kThreads, 0, compute_>>>(
        args, mlp::kLearningRate, factor_);
    MLP_LAUNCHED("sgd_update");
  }

  Settings settings_;
  std::vector<Layer> layers_;
  std::vector<Parameters> parameters_;
  std::vector<Scratch> steps_;
  InputSlot slots_[2] = {};
  cudaStream_t compute_ = nullptr;
  cudaStream_t copies_ = nullptr;
  std::size_t chunks_ = 0;
  float* sums_ = nullptr;
  float* factor_ = nullptr;
  float* loss_ = nullptr;
  char* host_inputs_ = nullptr;
  char* host_labels_ = nullptr;
  float* host_loss_ = nullptr;
};

void train(const Settings& settings) {
  Trainer trainer(settings);
  for (int step = 0; step < settings.steps; ++step) {
    std::printf("step %d loss %a\n", step, static_cast<double>(trainer.step(step)));
  }
  std::printf("digest %016llx\n", static_cast<unsigned long long>(trainer.digest()));
  trainer.release();
}

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

constexpr char kUsage[] =
    "usage: train_mlp [--steps N] [--width N] [--layers N] [--batch N] [--seed N] [--mode train|describe]\n"
    "Trains a small network in CUDA; prints each loss and a digest of the parameters.\n"
    "--describe (the same as --mode describe) prints what it needs of memory as JSON and uses no GPU.\n";

unsigned long long number(const char* option, const char* text, unsigned long long low,
                          unsigned long long high) {
  char* end = nullptr;
  const unsigned long long n = text == nullptr ? 0 : std::strtoull(text, &end, 10);
  if (text == nullptr || text[0] < '0' || text[0] > '9' || *end != '\0' || n < low || n > high) {
    char why[80];
    std::snprintf(why, sizeof why, "needs a number in %llu..%llu", low, high);
    fail(option, why);
  }
  return n;
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  bool only_describe = false;
  for (int i = 1; i < argc; ++i) {
    const char* const option = argv[i];
    const auto is = [&](const char* name) { return std::strcmp(option, name) == 0; };
    if (is("--help")) {
      std::fputs(kUsage, stdout);
      return 0;
    }
    if (is("--describe")) {
      only_describe = true;
      continue;
    }
    const char* const value = i + 1 < argc ? argv[++i] : nullptr;
    if (is("--steps")) {
      settings.steps = static_cast<int>(number(option, value, 0, 1'000'000));
    } else if (is("--width")) {
      settings.width = static_cast<int>(number(option, value, 1, 16384));
    } else if (is("--layers")) {
      settings.layers = static_cast<int>(number(option, value, 1, 1000));
    } else if (is("--batch")) {
      settings.batch = static_cast<int>(number(option, value, mlp::kLanes, mlp::kMaxBatch));
      if (settings.batch % mlp::kLanes != 0) fail(option, "needs a multiple of 16");
    } else if (is("--seed")) {
      settings.seed = number(option, value, 0, ~0ULL);
    } else if (is("--mode") && value != nullptr && std::strcmp(value, "train") == 0) {
      only_describe = false;
    } else if (is("--mode") && value != nullptr && std::strcmp(value, "describe") == 0) {
      only_describe = true;
    } else {
      fail(option, is("--mode") ? "needs train or describe" : "is no option; see --help");
    }
  }
  if (only_describe) {
    describe(settings);
  } else {
    train(settings);
  }
  if (std::fflush(stdout) != 0) fail("stdout", "cannot be written");
  return 0;
}
