#include "tools/workloads/cnn/conv_layers.h"
#include "tools/workloads/common/check.h"
#include "tools/workloads/ops/gemm.h"
#include "tools/workloads/ops/ops.h"

namespace cnn {
namespace {

using workload::blocks_for;
using workload::Floats;
using workload::Turned;

SIMGPU_KERNEL(to_patches, cnn::ToPatches, (cnn::PatchArgs args), args)
SIMGPU_KERNEL(from_patches, cnn::FromPatches, (cnn::PatchArgs args), args)
SIMGPU_KERNEL(norm_statistics, NormStatistics,
              (const float* x, std::size_t count, Statistics* statistics, float* running_mean,
               float* running_variance),
              x, count, statistics, running_mean, running_variance)
SIMGPU_KERNEL(norm_forward, NormForward, (NormArgs args), args)
SIMGPU_KERNEL(norm_backward_sums, NormBackwardSums, (NormBackwardArgs args), args)
SIMGPU_KERNEL(norm_backward, NormBackward, (NormBackwardArgs args), args)

dim3 chunks_of(const Conv& conv, std::size_t count) {
  return {blocks_for(count, workload::kChunk), static_cast<unsigned>(conv.outputs), 1};
}
dim3 patch_grid(const Conv& conv, int images) {
  return {static_cast<unsigned>(images), static_cast<unsigned>(conv.inputs), 1};
}

}  // namespace

Floats ConvLayers::forward(Conv& conv, const float* x, const float* skip, bool relu, bool aside) {
  const std::size_t count = channel(conv);
  conv.convolved = Floats(memory_, size_of(conv.outputs) * count);
  conv.statistics = workload::Array<Statistics>(memory_, size_of(conv.outputs));
  Floats y(memory_, conv.convolved.count());
  Floats patches;
  if (conv.taps != 1) patches = make_patches(conv);
  const cudaStream_t stream = aside ? lanes_.fork(0) : lanes_.main();
  for (int first = 0; first < batch_; first += run_length()) {
    workload::GemmArgs product{};
    product.a = parameters_.value(conv.weights);
    product.a_row = conv.inputs * conv.taps;
    product.b = patches_of(conv, x, first, patches, stream, &product.b_row);
    product.c = conv.convolved.get() + column(conv, first);
    product.c_row = static_cast<int>(count);
    product.m = conv.outputs;
    product.n = columns(conv, first);
    product.k = conv.inputs * conv.taps;
    workload::gemm(stream, Turned::kNone, product);
  }
  norm_statistics<<<static_cast<unsigned>(conv.outputs), kThreads, 0, stream>>>(
      conv.convolved.get(), count, conv.statistics.get(), parameters_.value(conv.mean),
      parameters_.value(conv.variance));
  workload::check_launch("norm_statistics");
  const NormArgs args{conv.convolved.get(),
                      conv.statistics.get(),
                      parameters_.value(conv.gamma),
                      parameters_.value(conv.beta),
                      skip,
                      y.get(),
                      count,
                      relu ? 1 : 0};
  norm_forward<<<chunks_of(conv, count), kThreads, 0, stream>>>(args);
  workload::check_launch("norm_forward");
  return y;
}

Floats ConvLayers::backward(Conv& conv, const float* x, const Floats& dy, bool wants_input) {
  const std::size_t count = channel(conv);
  const Floats dconv(memory_, conv.convolved.count());
  const NormBackwardArgs args{conv.convolved.get(),
                              dy.get(),
                              conv.statistics.get(),
                              parameters_.value(conv.gamma),
                              parameters_.make_gradient(conv.gamma),
                              parameters_.make_gradient(conv.beta),
                              dconv.get(),
                              count};
  norm_backward_sums<<<static_cast<unsigned>(conv.outputs), kThreads, 0, lanes_.main()>>>(args);
  workload::check_launch("norm_backward_sums");
  norm_backward<<<chunks_of(conv, count), kThreads, 0, lanes_.main()>>>(args);
  workload::check_launch("norm_backward");
  conv.convolved.reset();
  conv.statistics.reset();

  float* const weight_gradient = parameters_.make_gradient(conv.weights);
  Floats patches;
  Floats patch_gradient;
  Floats dx;
  if (conv.taps != 1) patches = make_patches(conv);
  if (wants_input) dx = Floats(memory_, size_of(conv.inputs) * count);
  if (wants_input && conv.taps != 1) patch_gradient = make_patches(conv);
  weight_backward(conv, x, dconv.get(), patches, weight_gradient, lanes_.fork(0));
  if (wants_input) input_backward(conv, dconv.get(), patch_gradient, dx.get());
  lanes_.join(0);
  return dx;
}

/// dW = dconv patches^T, run after run.
void ConvLayers::weight_backward(const Conv& conv, const float* x, const float* dconv, const Floats& patches,
                                 float* gradient, cudaStream_t stream) {
  for (int first = 0; first < batch_; first += run_length()) {
    workload::GemmArgs product{};
    product.a = dconv + column(conv, first);
    product.a_row = static_cast<int>(channel(conv));
    product.b = patches_of(conv, x, first, patches, stream, &product.b_row);
    product.c = gradient;
    product.c_row = conv.inputs * conv.taps;
    product.m = conv.outputs;
    product.n = conv.inputs * conv.taps;
    product.k = columns(conv, first);
    product.accumulate = first == 0 ? 0 : 1;
    workload::gemm(stream, Turned::kB, product);
  }
}

/// dx = W^T dconv, through patches if there are any.
void ConvLayers::input_backward(const Conv& conv, const float* dconv, const Floats& patches, float* dx) {
  const int count = static_cast<int>(channel(conv));
  for (int first = 0; first < batch_; first += run_length()) {
    workload::GemmArgs product{};
    product.a = parameters_.value(conv.weights);
    product.a_row = conv.inputs * conv.taps;
    product.b = dconv + column(conv, first);
    product.b_row = count;
    product.c = conv.taps == 1 ? dx + column(conv, first) : patches.get();
    product.c_row = conv.taps == 1 ? count : columns(conv, first);
    product.m = conv.inputs * conv.taps;
    product.n = columns(conv, first);
    product.k = conv.outputs;
    workload::gemm(lanes_.main(), Turned::kA, product);
    if (conv.taps == 1) continue;
    from_patches<<<patch_grid(conv, images(first)), kThreads, 0, lanes_.main()>>>(
        patch_args(conv, patches.get(), dx, first));
    workload::check_launch("from_patches");
  }
}

Floats ConvLayers::make_patches(const Conv& conv) {
  return Floats(memory_, size_of(conv.inputs * conv.taps) * size_of(columns(conv, 0)));
}

const float* ConvLayers::patches_of(const Conv& conv, const float* x, int first, const Floats& patches,
                                    cudaStream_t stream, int* row) {
  if (conv.taps == 1) {
    *row = static_cast<int>(channel(conv));
    return x + column(conv, first);
  }
  to_patches<<<patch_grid(conv, images(first)), kThreads, 0, stream>>>(
      patch_args(conv, x, patches.get(), first));
  workload::check_launch("to_patches");
  *row = columns(conv, first);
  return patches.get();
}

}  // namespace cnn
