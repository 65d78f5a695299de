#pragma once

#include "simgpu/kernel.h"
#include "tools/workloads/mlp/mlp_model.h"
#include "tools/workloads/ops/arrays.h"

/// The matrix products of train_mlp as bodies that run on a GPU and on simgpu (see "simgpu/kernel.h").
/// Matrices of activations have one row per feature and one column per sample.
namespace mlp {

using workload::at;
using workload::at_most;
using workload::floats;

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

}  // namespace mlp
