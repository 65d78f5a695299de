#pragma once

#include <cmath>
#include <cstddef>

#include "simgpu/kernel.h"
#include "tools/workloads/mlp_model.h"

/// The kernels of train_mlp as bodies that run on a GPU and on simgpu (see "simgpu/kernel.h"). Every sum has
/// one order, so results do not depend on where or when a kernel runs. Matrices of activations have one row
/// per feature and one column per sample.
namespace mlp {

SIMGPU_HD inline std::size_t at(int row, int columns, int column) {
  return static_cast<std::size_t>(row) * static_cast<std::size_t>(columns) + static_cast<std::size_t>(column);
}
SIMGPU_HD inline std::size_t floats(int rows, int columns) {
  return at(rows, columns, 0) * sizeof(float);
}
SIMGPU_HD inline int at_most(int n, int limit) {
  return n < limit ? n : limit;
}

/// y = w x + bias, then max(0, .) if `relu`. One block: kRows outputs of kLanes samples, one thread each.
struct LinearForward {
  template <class C>
  SIMGPU_HD static void run(C& c, const float* x, const float* w, const float* bias, int inputs, int outputs,
                            int batch, int relu, float* y) {
    const int first_row = static_cast<int>(c.block().x) * kRows;
    const int first_lane = static_cast<int>(c.block().y) * kLanes;
    const int rows = at_most(outputs - first_row, kRows);
    c.reads(x, floats(inputs, batch));
    c.reads(w + at(first_row, inputs, 0), floats(rows, inputs));
    c.reads(bias + first_row, floats(rows, 1));
    c.writes(y + at(first_row, batch, 0), floats(rows, batch));
    if (c.on_host()) {
      for (int r = 0; r < rows; ++r) {
        const float* const weights = w + at(first_row + r, inputs, 0);
        float sum[kLanes] = {};
        for (int k = 0; k < inputs; ++k) {
          const float* const values = x + at(k, batch, first_lane);
          for (int lane = 0; lane < kLanes; ++lane) sum[lane] += weights[k] * values[lane];
        }
        for (int lane = 0; lane < kLanes; ++lane) {
          y[at(first_row + r, batch, first_lane + lane)] = finish(sum[lane], bias[first_row + r], relu);
        }
      }
      return;
    }
    c.phase([&](unsigned tid) {
      const int row = first_row + static_cast<int>(tid) / kLanes;
      const int lane = first_lane + static_cast<int>(tid) % kLanes;
      if (row >= outputs) return;
      float sum = 0.0f;
      for (int k = 0; k < inputs; ++k) sum += w[at(row, inputs, k)] * x[at(k, batch, lane)];
      y[at(row, batch, lane)] = finish(sum, bias[row], relu);
    });
  }

 private:
  SIMGPU_HD static float finish(float sum, float bias, int relu) {
    const float value = sum + bias;
    return relu != 0 && !(value > 0.0f) ? 0.0f : value;
  }
};

/// dx = w^T dy where the layer's input (an output of a ReLU) was positive, else 0. One block: kRows inputs of
/// kLanes samples, one thread each.
struct LinearBackwardInput {
  template <class C>
  SIMGPU_HD static void run(C& c, const float* w, const float* dy, const float* x, int inputs, int outputs,
                            int batch, float* dx) {
    const int first_row = static_cast<int>(c.block().x) * kRows;
    const int first_lane = static_cast<int>(c.block().y) * kLanes;
    const int rows = at_most(inputs - first_row, kRows);
    c.reads(w, floats(outputs, inputs));
    c.reads(dy, floats(outputs, batch));
    c.reads(x + at(first_row, batch, 0), floats(rows, batch));
    c.writes(dx + at(first_row, batch, 0), floats(rows, batch));
    if (c.on_host()) {
      for (int r = 0; r < rows; ++r) {
        float sum[kLanes] = {};
        for (int n = 0; n < outputs; ++n) {
          const float weight = w[at(n, inputs, first_row + r)];
          const float* const values = dy + at(n, batch, first_lane);
          for (int lane = 0; lane < kLanes; ++lane) sum[lane] += weight * values[lane];
        }
        for (int lane = 0; lane < kLanes; ++lane) {
          const std::size_t i = at(first_row + r, batch, first_lane + lane);
          dx[i] = x[i] > 0.0f ? sum[lane] : 0.0f;
        }
      }
      return;
    }
    c.phase([&](unsigned tid) {
      const int row = first_row + static_cast<int>(tid) / kLanes;
      const int lane = first_lane + static_cast<int>(tid) % kLanes;
      if (row >= inputs) return;
      float sum = 0.0f;
      for (int n = 0; n < outputs; ++n) sum += w[at(n, inputs, row)] * dy[at(n, batch, lane)];
      const std::size_t i = at(row, batch, lane);
      dx[i] = x[i] > 0.0f ? sum : 0.0f;
    });
  }
};

/// dw = dy x^T and dbias = sum of dy over the samples. One block: kRows outputs by kColumns inputs, one
/// thread per input.
struct LinearBackwardWeight {
  static constexpr int kColumns = 256;

  template <class C>
  SIMGPU_HD static void run(C& c, const float* x, const float* dy, int inputs, int outputs, int batch,
                            float* dbias, float* dw) {
    const int first_row = static_cast<int>(c.block().x) * kRows;
    const int first_column = static_cast<int>(c.block().y) * kColumns;
    const int rows = at_most(outputs - first_row, kRows);
    const int columns = at_most(inputs - first_column, kColumns);
    c.reads(x + at(first_column, batch, 0), floats(columns, batch));
    c.reads(dy + at(first_row, batch, 0), floats(rows, batch));
    c.writes(dw + at(first_row, inputs, 0), floats(rows, inputs));
    c.writes(dbias + first_row, floats(rows, 1));
    if (c.on_host()) {
      host_block(x, dy, inputs, batch, first_row, rows, first_column, columns, dw);
    } else {
      c.phase([&](unsigned tid) {
        const int column = first_column + static_cast<int>(tid);
        if (column >= inputs) return;
        for (int r = first_row; r < first_row + rows; ++r) {
          float sum = 0.0f;
          for (int b = 0; b < batch; ++b) sum += dy[at(r, batch, b)] * x[at(column, batch, b)];
          dw[at(r, inputs, column)] = sum;
        }
      });
    }
    if (first_column != 0) return;
    c.phase([&](unsigned tid) {
      if (static_cast<int>(tid) >= rows) return;
      const int row = first_row + static_cast<int>(tid);
      float sum = 0.0f;
      for (int b = 0; b < batch; ++b) sum += dy[at(row, batch, b)];
      dbias[row] = sum;
    });
  }

 private:
  /// The same sums with the inputs turned first, kLanes samples at a time, so that a row is one vector loop.
  SIMGPU_HD static void host_block(const float* x, const float* dy, int inputs, int batch, int first_row,
                                   int rows, int first_column, int columns, float* dw) {
    float sum[kRows][kColumns] = {};
    float turned[kLanes][kColumns] = {};
    for (int first_lane = 0; first_lane < batch; first_lane += kLanes) {
      for (int k = 0; k < columns; ++k) {
        for (int b = 0; b < kLanes; ++b) turned[b][k] = x[at(first_column + k, batch, first_lane + b)];
      }
      for (int r = 0; r < rows; ++r) {
        for (int b = 0; b < kLanes; ++b) {
          const float gradient = dy[at(first_row + r, batch, first_lane + b)];
          for (int k = 0; k < kColumns; ++k) sum[r][k] += gradient * turned[b][k];
        }
      }
    }
    for (int r = 0; r < rows; ++r) {
      for (int k = 0; k < columns; ++k) dw[at(first_row + r, inputs, first_column + k)] = sum[r][k];
    }
  }
};

/// A struct passed by value, as many real kernels take their pointers.
struct SoftmaxArgs {
  const float* logits;
  const int* labels;
  float* gradient;
  int classes;
  int batch;
};

/// Mean cross-entropy of softmax(logits), and its gradient. One block, one thread per sample.
struct SoftmaxLoss {
  template <class C>
  SIMGPU_HD static void run(C& c, SoftmaxArgs args, float* loss) {
    c.reads(args.logits, floats(args.classes, args.batch));
    c.reads(args.labels, static_cast<std::size_t>(args.batch) * sizeof(int));
    c.writes(args.gradient, floats(args.classes, args.batch));
    c.writes(loss, sizeof(float));
    SIMGPU_SHARED(c, float, losses, kMaxBatch);
    c.phase([&](unsigned tid) {
      const int sample = static_cast<int>(tid);
      float largest = args.logits[at(0, args.batch, sample)];
      for (int k = 1; k < args.classes; ++k) {
        const float value = args.logits[at(k, args.batch, sample)];
        if (value > largest) largest = value;
      }
      float sum = 0.0f;
      for (int k = 0; k < args.classes; ++k) {
        sum += expf(args.logits[at(k, args.batch, sample)] - largest);
      }
      const int label = args.labels[sample];
      for (int k = 0; k < args.classes; ++k) {
        const float share = expf(args.logits[at(k, args.batch, sample)] - largest) / sum;
        args.gradient[at(k, args.batch, sample)] =
            (share - (k == label ? 1.0f : 0.0f)) / static_cast<float>(args.batch);
      }
      losses[tid] = logf(sum) + largest - args.logits[at(label, args.batch, sample)];
    });
    c.phase([&](unsigned tid) {
      if (tid != 0) return;
      float sum = 0.0f;
      for (int b = 0; b < args.batch; ++b) sum += losses[b];
      *loss = sum / static_cast<float>(args.batch);
    });
  }
};

/// Sum of squares of each chunk of kChunk numbers, into one number per block. 256 threads.
struct SquareSum {
  static constexpr unsigned kThreads = 256;

  template <class C>
  SIMGPU_HD static void run(C& c, const float* values, std::size_t count, float* sums) {
    const std::size_t first = std::size_t{c.block().x} * kChunk;
    const std::size_t mine = count - first < kChunk ? count - first : kChunk;
    c.reads(values + first, mine * sizeof(float));
    c.writes(sums + c.block().x, sizeof(float));
    SIMGPU_SHARED(c, float, partial, kThreads);
    c.phase([&](unsigned tid) {
      float sum = 0.0f;
      for (std::size_t i = tid; i < mine; i += kThreads) sum += values[first + i] * values[first + i];
      partial[tid] = sum;
    });
    for (unsigned half = kThreads / 2; half > 0; half /= 2) {
      c.phase([&](unsigned tid) {
        if (tid < half) partial[tid] += partial[tid + half];
      });
    }
    c.phase([&](unsigned tid) {
      if (tid == 0) sums[c.block().x] = partial[0];
    });
  }
};

/// By how much gradients are multiplied so that they are no longer than kClipNorm. One thread.
struct ClipFactor {
  template <class C>
  SIMGPU_HD static void run(C& c, const float* sums, std::size_t count, float* factor) {
    c.reads(sums, count * sizeof(float));
    c.writes(factor, sizeof(float));
    c.phase([&](unsigned) {
      float sum = 0.0f;
      for (std::size_t i = 0; i < count; ++i) sum += sums[i];
      const float norm = sqrtf(sum);
      *factor = norm > kClipNorm ? kClipNorm / norm : 1.0f;
    });
  }
};

struct UpdateArgs {
  float* parameters;
  float* momentum;
  const float* gradient;
  std::size_t count;
};

/// Stochastic gradient descent with momentum on one array. One block: kChunk numbers, 256 threads.
struct SgdUpdate {
  static constexpr unsigned kThreads = 256;

  template <class C>
  SIMGPU_HD static void run(C& c, UpdateArgs args, float rate, const float* factor) {
    const std::size_t first = std::size_t{c.block().x} * kChunk;
    const std::size_t mine = args.count - first < kChunk ? args.count - first : kChunk;
    c.reads(factor, sizeof(float));
    c.reads(args.gradient + first, mine * sizeof(float));
    c.reads(args.momentum + first, mine * sizeof(float));
    c.writes(args.momentum + first, mine * sizeof(float));
    c.reads(args.parameters + first, mine * sizeof(float));
    c.writes(args.parameters + first, mine * sizeof(float));
    const float scale = *factor;
    c.phase([&](unsigned tid) {
      for (std::size_t i = first + tid; i < first + mine; i += kThreads) {
        const float speed = kMomentum * args.momentum[i] + scale * args.gradient[i];
        args.momentum[i] = speed;
        args.parameters[i] -= rate * speed;
      }
    });
  }
};

}  // namespace mlp
