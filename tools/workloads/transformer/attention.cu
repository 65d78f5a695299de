#include <cmath>

#include "tools/workloads/common/check.h"
#include "tools/workloads/ops/ops.h"
#include "tools/workloads/transformer/attention.h"
#include "tools/workloads/transformer/attention_kernels.h"

namespace transformer {
namespace {

using workload::blocks_for;
using workload::Floats;

SIMGPU_KERNEL(causal_softmax, CausalSoftmax, (ScoreArgs args), args)
SIMGPU_KERNEL(causal_softmax_backward, CausalSoftmaxBackward, (ScoreArgs args, const float* shares), args,
              shares)

}  // namespace

Attention::Place Attention::place(Operand operand) const {
  const auto positions = static_cast<std::size_t>(sequence_);
  const auto width = static_cast<std::size_t>(width_);
  const auto share = static_cast<std::size_t>(head_width());
  switch (operand) {
    case Operand::kColumnsOfThree:
      return {3 * width_, positions * 3 * width, share};
    case Operand::kColumns:
      return {width_, positions * width, share};
    case Operand::kScores:
      break;
  }
  return {sequence_, static_cast<std::size_t>(heads_) * positions * positions, positions * positions};
}

std::size_t Attention::score_count() const {
  return at(batch_ * heads_, sequence_, 0) * static_cast<std::size_t>(sequence_);
}

float Attention::scale() const {
  return 1.0f / std::sqrt(static_cast<float>(head_width()));
}

void Attention::multiply(cudaStream_t stream, bool turn_a, bool turn_b, Side a, Side b, float* c,
                         Operand c_operand, int n, int k) {
  workload::GemmArgs args{};
  const Place of_a = place(a.operand);
  const Place of_b = place(b.operand);
  const Place of_c = place(c_operand);
  args.a = a.data;
  args.b = b.data;
  args.c = c;
  args.m = sequence_;
  args.n = n;
  args.k = k;
  args.a_row = of_a.row;
  args.b_row = of_b.row;
  args.c_row = of_c.row;
  args.inner = heads_;
  args.a_outer = of_a.outer;
  args.b_outer = of_b.outer;
  args.c_outer = of_c.outer;
  args.a_inner = of_a.inner;
  args.b_inner = of_b.inner;
  args.c_inner = of_c.inner;
  const auto turned = turn_a ? workload::Turned::kA : turn_b ? workload::Turned::kB : workload::Turned::kNone;
  workload::gemm(stream, turned, args, batch_ * heads_);
}

Floats Attention::forward(const Floats& qkv, Floats& shares) {
  const float* const queries = qkv.get();
  const float* const keys = queries + width_;
  const float* const values = keys + width_;
  shares = Floats(memory_, score_count());
  Floats y(memory_, qkv.count() / 3);
  const cudaStream_t stream = lanes_.main();
  multiply(stream, false, true, {queries, Operand::kColumnsOfThree}, {keys, Operand::kColumnsOfThree},
           shares.get(), Operand::kScores, sequence_, head_width());
  const ScoreArgs args{shares.get(), batch_ * heads_ * sequence_, sequence_, scale()};
  causal_softmax<<<blocks_for(static_cast<std::size_t>(args.rows), kThreads), kThreads, 0, stream>>>(args);
  workload::check_launch("causal_softmax");
  multiply(stream, false, false, {shares.get(), Operand::kScores}, {values, Operand::kColumnsOfThree},
           y.get(), Operand::kColumns, head_width(), sequence_);
  return y;
}

Floats Attention::backward(const Floats& qkv, const Floats& shares, const Floats& dy) {
  const float* const queries = qkv.get();
  const float* const keys = queries + width_;
  const float* const values = keys + width_;
  Floats dqkv(memory_, qkv.count());
  const Floats dscores(memory_, shares.count());
  float* const dqueries = dqkv.get();
  float* const dkeys = dqueries + width_;
  float* const dvalues = dkeys + width_;
  const Side of_shares{shares.get(), Operand::kScores};
  const Side of_scores{dscores.get(), Operand::kScores};
  const Side of_dy{dy.get(), Operand::kColumns};

  const cudaStream_t main = lanes_.main();
  cudaStream_t side = lanes_.fork(0);
  multiply(side, true, false, of_shares, of_dy, dvalues, Operand::kColumnsOfThree, head_width(), sequence_);
  multiply(main, false, true, of_dy, {values, Operand::kColumnsOfThree}, dscores.get(), Operand::kScores,
           sequence_, head_width());
  const ScoreArgs args{dscores.get(), batch_ * heads_ * sequence_, sequence_, scale()};
  causal_softmax_backward<<<blocks_for(static_cast<std::size_t>(args.rows), kThreads), kThreads, 0, main>>>(
      args, shares.get());
  workload::check_launch("causal_softmax_backward");
  side = lanes_.fork(0);
  multiply(side, true, false, of_scores, {queries, Operand::kColumnsOfThree}, dkeys, Operand::kColumnsOfThree,
           head_width(), sequence_);
  multiply(main, false, false, of_scores, {keys, Operand::kColumnsOfThree}, dqueries,
           Operand::kColumnsOfThree, head_width(), sequence_);
  lanes_.join(0);
  return dqkv;
}

}  // namespace transformer
