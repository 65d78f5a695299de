#pragma once

#include <cstddef>

#include "tools/workloads/common/lanes.h"
#include "tools/workloads/common/memory.h"
#include "tools/workloads/ops/gemm.h"

namespace transformer {

/// Causal attention with several heads as host functions that queue work. Queries, keys and values are
/// columns of one matrix with a row per position, see transformer_model.h.
class Attention {
 public:
  Attention(workload::Memory& memory, workload::Lanes& lanes, int width, int heads, int batch, int sequence)
      : memory_(memory), lanes_(lanes), width_(width), heads_(heads), batch_(batch), sequence_(sequence) {}

  /// Leaves in `shares` what backward() needs: how much of each value each query takes.
  workload::Floats forward(const workload::Floats& qkv, workload::Floats& shares);

  /// The gradient of qkv from that of the result.
  workload::Floats backward(const workload::Floats& qkv, const workload::Floats& shares,
                            const workload::Floats& dy);

 private:
  /// Where operands of the products of all heads lie: positions x (a part of) the columns, or scores.
  enum class Operand { kColumnsOfThree, kColumns, kScores };
  struct Place {
    int row;
    std::size_t outer, inner;
  };
  [[nodiscard]] Place place(Operand operand) const;
  [[nodiscard]] int head_width() const { return width_ / heads_; }
  [[nodiscard]] std::size_t score_count() const;
  [[nodiscard]] float scale() const;

  struct Side {
    const float* data;
    Operand operand;
  };
  /// One product for each head of each sample, of n columns and k terms.
  void multiply(cudaStream_t stream, bool turn_a, bool turn_b, Side a, Side b, float* c, Operand c_operand,
                int n, int k);

  workload::Memory& memory_;
  workload::Lanes& lanes_;
  int width_;
  int heads_;
  int batch_;
  int sequence_;
};

}  // namespace transformer
