#pragma once

#include <cstddef>

#include "tools/workloads/cnn/norm_kernels.h"
#include "tools/workloads/common/lanes.h"
#include "tools/workloads/common/memory.h"
#include "tools/workloads/common/parameters.h"

namespace cnn {

/// A convolution with its normalisation: what it is, and what it keeps from forward to backward.
struct Conv {
  int inputs;
  int outputs;
  int taps;  ///< 9, or 1 for a 1x1 convolution
  int size;  ///< pixels of a side
  std::size_t weights, gamma, beta, mean, variance;
  workload::Floats convolved;
  workload::Array<Statistics> statistics;
};

/// Convolutions with their normalisation as host functions that queue work. Convolutions are products of
/// matrices: a quarter of the batch at a time is turned into one, in memory that lives as long as the call.
class ConvLayers {
 public:
  ConvLayers(workload::Memory& memory, workload::Lanes& lanes, workload::ParameterSet& parameters, int batch)
      : memory_(memory), lanes_(lanes), parameters_(parameters), batch_(batch) {}

  /// norm(conv(x)) + skip, then max(0, .) if `relu`; skip may be null. `aside`: in side stream 0, which the
  /// caller joins. Keeps in `conv` what backward() needs.
  workload::Floats forward(Conv& conv, const float* x, const float* skip, bool relu, bool aside);

  /// Makes the gradients of the parameters, given that of norm(conv(x)); returns that of x, unless nobody
  /// wants it.
  workload::Floats backward(Conv& conv, const float* x, const workload::Floats& dy, bool wants_input = true);

 private:
  using Floats = workload::Floats;

  void weight_backward(const Conv& conv, const float* x, const float* dconv, const Floats& patches,
                       float* gradient, cudaStream_t stream);
  void input_backward(const Conv& conv, const float* dconv, const Floats& patches, float* dx);
  /// The matrix of a run of images of x: made in `patches`, or x itself for a 1x1 convolution.
  const float* patches_of(const Conv& conv, const float* x, int first, const Floats& patches,
                          cudaStream_t stream, int* row);
  Floats make_patches(const Conv& conv);

  /// Numbers of a channel: all pixels of the batch.
  [[nodiscard]] std::size_t channel(const Conv& conv) const { return column(conv, batch_); }
  /// Where image `first` begins in a channel.
  static std::size_t column(const Conv& conv, int first) {
    return size_of(first) * size_of(conv.size) * size_of(conv.size);
  }
  [[nodiscard]] int run_length() const { return (batch_ + 3) / 4; }
  /// Images and columns of the run that starts with this image.
  [[nodiscard]] int images(int first) const { return at_most(batch_ - first, run_length()); }
  [[nodiscard]] int columns(const Conv& conv, int first) const {
    return images(first) * conv.size * conv.size;
  }
  [[nodiscard]] PatchArgs patch_args(const Conv& conv, const float* from, float* to, int first) const {
    return {from, to, conv.size, batch_, first, images(first)};
  }

  workload::Memory& memory_;
  workload::Lanes& lanes_;
  workload::ParameterSet& parameters_;
  int batch_;
};

}  // namespace cnn
