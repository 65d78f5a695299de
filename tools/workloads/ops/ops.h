#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "tools/workloads/common/lanes.h"
#include "tools/workloads/common/memory.h"
#include "tools/workloads/common/parameters.h"

/// Kernels of several workloads as host functions: each queues its work in a stream and returns. Matrices are
/// in rows without gaps.
namespace workload {

struct GemmArgs;

/// Which operands of a product lie the other way round.
enum class Turned { kNone, kA, kB };

/// `batch` products; `args` says where they lie.
void gemm(cudaStream_t stream, Turned turned, const GemmArgs& args, int batch = 1);

/// Product of matrices without gaps: c[m][n] = a[m][k] b[k][n] + bias, where a turned operand lies as a[k][m]
/// or b[n][k]. `bias` may be null; `accumulate` adds to what c holds.
struct Product {
  const float* a;
  const float* b;
  float* c;
  int m, n, k;
  const float* bias = nullptr;
  bool accumulate = false;
};
void multiply(cudaStream_t stream, Turned turned, const Product& product);

/// sums[j] = the sum of column j.
void column_sum(cudaStream_t stream, const float* x, int rows, int columns, float* sums);

/// to += from.
void add_to(cudaStream_t stream, const float* from, std::size_t count, float* to);

/// Where numbers of logits lie.
enum class Layout { kSampleRows, kClassRows };

/// Mean cross entropy of softmax(logits) into *loss and its gradient into `gradient`, laid out like logits.
void cross_entropy(Memory& memory, Lanes& lanes, Layout layout, const float* logits, const int* labels,
                   int samples, int classes, float* gradient, float* loss);

/// y = x w + b for rows of x, with weights [inputs][outputs], and the gradients of it. Numbers of parameters.
struct Linear {
  int inputs;
  int outputs;
  std::size_t weights;
  std::size_t bias;
};

Floats linear_forward(Memory& memory, const Lanes& lanes, const ParameterSet& parameters, const Linear& layer,
                      const float* x, int rows);

/// Makes the gradients of both parameters, in a side stream, and, unless `wants_input` is false, that of x,
/// which it returns. All of it is in the main stream's order when it returns.
Floats linear_backward(Memory& memory, Lanes& lanes, ParameterSet& parameters, const Linear& layer,
                       const float* x, const float* dy, int rows, bool wants_input = true);

/// Stochastic gradient descent with momentum (the parameters' one state array) over all parameters that have
/// a gradient; releases the gradients. If `longest` is above zero, gradients longer than this, all together,
/// are first shortened to it. Side streams share the work.
void sgd_step(Memory& memory, Lanes& lanes, ParameterSet& parameters, float rate, float decay, float longest);

/// Adam over all parameters that have a gradient, with their two state arrays; releases the gradients. `step`
/// counts from 0.
void adam_step(Lanes& lanes, ParameterSet& parameters, int step, float rate, float beta1, float beta2,
               float epsilon);

}  // namespace workload
