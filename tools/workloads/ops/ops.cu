#include <cmath>

#include "tools/workloads/common/check.h"
#include "tools/workloads/ops/gemm.h"
#include "tools/workloads/ops/loss.h"
#include "tools/workloads/ops/ops.h"
#include "tools/workloads/ops/update.h"

namespace workload {
namespace {

using GemmPlain = Gemm<false, false>;
using GemmTurnA = Gemm<true, false>;
using GemmTurnB = Gemm<false, true>;
SIMGPU_KERNEL(gemm_plain, GemmPlain, (GemmArgs args), args)
SIMGPU_KERNEL(gemm_turn_a, GemmTurnA, (GemmArgs args), args)
SIMGPU_KERNEL(gemm_turn_b, GemmTurnB, (GemmArgs args), args)
SIMGPU_KERNEL(sum_columns, ColumnSum, (const float* x, int rows, int columns, float* sums), x, rows, columns,
              sums)
SIMGPU_KERNEL(cross_entropy_of_rows, CrossEntropy, (CrossEntropyArgs args), args)
SIMGPU_KERNEL(mean_of, Mean, (const float* values, int count, float* mean), values, count, mean)
SIMGPU_KERNEL(square_sum, SquareSum, (const float* values, std::size_t count, float* sums), values, count,
              sums)
SIMGPU_KERNEL(clip_factor, ClipFactor, (const float* sums, std::size_t count, float longest, float* factor),
              sums, count, longest, factor)
SIMGPU_KERNEL(add_arrays, AddTo, (const float* from, std::size_t count, float* to), from, count, to)
SIMGPU_KERNEL(sgd_update, SgdUpdate, (SgdArgs args, const float* factor), args, factor)
SIMGPU_KERNEL(adam_update, AdamUpdate, (AdamArgs args), args)

/// The length of all gradients together, as the factor that shortens them to `longest`.
Floats make_clip_factor(Memory& memory, Lanes& lanes, const std::vector<Parameter*>& all, float longest) {
  std::size_t chunks = 0;
  for (const Parameter* p : all) chunks += blocks_for(p->gradient.count(), kChunk);
  const Floats sums(memory, chunks);
  Floats factor(memory, 1);
  lanes.fork_all();
  std::size_t chunk = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Floats& gradient = all[i]->gradient;
    const unsigned grid = blocks_for(gradient.count(), kChunk);
    square_sum<<<grid, kThreads, 0, lanes.side(i)>>>(gradient.get(), gradient.count(), sums.get() + chunk);
    check_launch("square_sum");
    chunk += grid;
  }
  lanes.join_all();
  clip_factor<<<1, 1, 0, lanes.main()>>>(sums.get(), chunks, longest, factor.get());
  check_launch("clip_factor");
  return factor;
}

void drop_gradients(const std::vector<Parameter*>& all) {
  for (Parameter* p : all) p->gradient.reset();
}

}  // namespace

void gemm(cudaStream_t stream, Turned turned, const GemmArgs& args, int batch) {
  const dim3 grid(blocks_for(static_cast<std::size_t>(args.m), GemmPlain::kRows),
                  blocks_for(static_cast<std::size_t>(args.n), GemmPlain::kColumns),
                  static_cast<unsigned>(batch));
  constexpr unsigned kBlock = GemmPlain::kRows * GemmPlain::kColumns;
  if (turned == Turned::kA) {
    gemm_turn_a<<<grid, kBlock, 0, stream>>>(args);
  } else if (turned == Turned::kB) {
    gemm_turn_b<<<grid, kBlock, 0, stream>>>(args);
  } else {
    gemm_plain<<<grid, kBlock, 0, stream>>>(args);
  }
  check_launch("gemm");
}

void multiply(cudaStream_t stream, Turned turned, const Product& p) {
  GemmArgs args{};
  args.a = p.a;
  args.b = p.b;
  args.c = p.c;
  args.bias = p.bias;
  args.m = p.m;
  args.n = p.n;
  args.k = p.k;
  args.a_row = turned == Turned::kA ? p.m : p.k;
  args.b_row = turned == Turned::kB ? p.k : p.n;
  args.c_row = p.n;
  args.accumulate = p.accumulate ? 1 : 0;
  gemm(stream, turned, args);
}

void column_sum(cudaStream_t stream, const float* x, int rows, int columns, float* sums) {
  sum_columns<<<blocks_for(static_cast<std::size_t>(columns), kThreads), kThreads, 0, stream>>>(
      x, rows, columns, sums);
  check_launch("sum_columns");
}

void add_to(cudaStream_t stream, const float* from, std::size_t count, float* to) {
  add_arrays<<<blocks_for(count, kChunk), kThreads, 0, stream>>>(from, count, to);
  check_launch("add_arrays");
}

void cross_entropy(Memory& memory, Lanes& lanes, Layout layout, const float* logits, const int* labels,
                   int samples, int classes, float* gradient, float* loss) {
  const Floats losses(memory, static_cast<std::size_t>(samples));
  const bool rows = layout == Layout::kSampleRows;
  const CrossEntropyArgs args{logits,
                              labels,
                              gradient,
                              losses.get(),
                              classes,
                              samples,
                              rows ? 1 : static_cast<std::size_t>(samples),
                              rows ? static_cast<std::size_t>(classes) : 1};
  cross_entropy_of_rows<<<blocks_for(static_cast<std::size_t>(samples), CrossEntropy::kSamples),
                          CrossEntropy::kSamples, 0, lanes.main()>>>(args);
  check_launch("cross_entropy_of_rows");
  mean_of<<<1, kThreads, 0, lanes.main()>>>(losses.get(), samples, loss);
  check_launch("mean_of");
}

Floats linear_forward(Memory& memory, const Lanes& lanes, const ParameterSet& parameters, const Linear& layer,
                      const float* x, int rows) {
  Floats y(memory, static_cast<std::size_t>(rows) * static_cast<std::size_t>(layer.outputs));
  multiply(lanes.main(), Turned::kNone,
           {x, parameters.value(layer.weights), y.get(), rows, layer.outputs, layer.inputs,
            parameters.value(layer.bias)});
  return y;
}

Floats linear_backward(Memory& memory, Lanes& lanes, ParameterSet& parameters, const Linear& layer,
                       const float* x, const float* dy, int rows, bool wants_input) {
  float* const weight_gradient = parameters.make_gradient(layer.weights);
  float* const bias_gradient = parameters.make_gradient(layer.bias);
  Floats dx;
  if (wants_input) {
    dx = Floats(memory, static_cast<std::size_t>(rows) * static_cast<std::size_t>(layer.inputs));
  }
  const cudaStream_t side = lanes.fork(0);
  multiply(side, Turned::kA, {x, dy, weight_gradient, layer.inputs, layer.outputs, rows});
  column_sum(side, dy, rows, layer.outputs, bias_gradient);
  if (wants_input) {
    multiply(lanes.main(), Turned::kB,
             {dy, parameters.value(layer.weights), dx.get(), rows, layer.inputs, layer.outputs});
  }
  lanes.join(0);
  return dx;
}

void sgd_step(Memory& memory, Lanes& lanes, ParameterSet& parameters, float rate, float decay,
              float longest) {
  const std::vector<Parameter*> all = parameters.with_gradient();
  Floats factor;
  if (longest > 0.0f) factor = make_clip_factor(memory, lanes, all, longest);
  lanes.fork_all();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Parameter& p = *all[i];
    const std::size_t count = p.value.count();
    const SgdArgs args{p.value.get(), p.state[0].get(), p.gradient.get(), count, rate, decay};
    sgd_update<<<blocks_for(count, kChunk), kThreads, 0, lanes.side(i)>>>(args, factor.get());
    check_launch("sgd_update");
  }
  lanes.join_all();
  drop_gradients(all);
}

void adam_step(Lanes& lanes, ParameterSet& parameters, int step, float rate, float beta1, float beta2,
               float epsilon) {
  const double first = 1.0 - std::pow(static_cast<double>(beta1), step + 1);
  const double second = std::sqrt(1.0 - std::pow(static_cast<double>(beta2), step + 1));
  const auto corrected_rate = static_cast<float>(rate * second / first);
  const auto corrected_epsilon = static_cast<float>(epsilon * second);
  const std::vector<Parameter*> all = parameters.with_gradient();
  lanes.fork_all();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Parameter& p = *all[i];
    const std::size_t count = p.value.count();
    const AdamArgs args{p.value.get(), p.state[0].get(), p.state[1].get(),  p.gradient.get(),
                        count,         corrected_rate,   corrected_epsilon, beta1,
                        beta2};
    adam_update<<<blocks_for(count, kChunk), kThreads, 0, lanes.side(i)>>>(args);
    check_launch("adam_update");
  }
  lanes.join_all();
  drop_gradients(all);
}

}  // namespace workload
