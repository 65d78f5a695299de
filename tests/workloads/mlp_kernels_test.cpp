#include "tools/workloads/mlp/mlp_kernels.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

#include "tests/workloads/run_body.h"
#include "tools/workloads/common/random.h"
#include "tools/workloads/mlp/mlp_model.h"
#include "tools/workloads/ops/update.h"

namespace mlp {
namespace {

std::vector<float> numbers(std::size_t count, std::uint64_t stream) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = workload::uniform(1, stream, i);
  return values;
}

using tidepool::test::both_ways;
using tidepool::test::launch_body;
using tidepool::test::same_bits;
using workload::ClipFactor;
using workload::SquareSum;

unsigned blocks(int n, int per_block) {
  return static_cast<unsigned>((n + per_block - 1) / per_block);
}

struct Shape {
  int inputs, outputs, batch;
};
const Shape kShapes[] = {{64, 64, 16}, {300, 37, 32}, {17, 16, 48}, {513, 100, 16}};

TEST_CASE("mlp kernels: the fast loops of matrix products compute the bits of the threads") {
  for (const Shape& s : kShapes) {
    const auto w = numbers(at(s.outputs, s.inputs, 0), 1);
    const auto x = numbers(at(s.inputs, s.batch, 0), 2);
    const auto dy = numbers(at(s.outputs, s.batch, 0), 3);
    const auto bias = numbers(static_cast<std::size_t>(s.outputs), 4);
    const unsigned lanes = blocks(s.batch, kLanes);
    INFO(s.inputs << " x " << s.outputs << " x " << s.batch);

    struct Results {
      std::vector<float> y, dx, dw, db;
    };
    const auto [fast, threads] = both_ways([&](const auto& launcher) {
      Results r{std::vector<float>(dy.size(), -1.0f), std::vector<float>(x.size(), -1.0f),
                std::vector<float>(w.size(), -1.0f), std::vector<float>(bias.size(), -1.0f)};
      launcher.template run<LinearForward>({blocks(s.outputs, kRows), lanes, 1, kRows * kLanes}, x.data(),
                                           w.data(), bias.data(), s.inputs, s.outputs, s.batch, 1,
                                           r.y.data());
      launcher.template run<LinearBackwardInput>({blocks(s.inputs, kRows), lanes, 1, kRows * kLanes},
                                                 w.data(), dy.data(), x.data(), s.inputs, s.outputs, s.batch,
                                                 r.dx.data());
      launcher.template run<LinearBackwardWeight>(
          {blocks(s.outputs, kRows), blocks(s.inputs, LinearBackwardWeight::kColumns), 1,
           LinearBackwardWeight::kColumns},
          x.data(), dy.data(), s.inputs, s.outputs, s.batch, r.db.data(), r.dw.data());
      return r;
    });
    CHECK(same_bits(fast.y, threads.y));
    CHECK(same_bits(fast.dx, threads.dx));
    CHECK(same_bits(fast.dw, threads.dw));
    CHECK(same_bits(fast.db, threads.db));
    CHECK(std::find(fast.dw.begin(), fast.dw.end(), -1.0f) == fast.dw.end());
  }
}

TEST_CASE("mlp kernels: gradients longer than the limit are shortened to it, others are left alone") {
  for (const float length : {0.5f, 5.0f, 20.0f}) {
    std::vector<float> values(10'000, length / 100.0f);  // of this Euclidean length
    const unsigned chunks = workload::blocks_for(values.size(), workload::kChunk);
    std::vector<float> sums(chunks);
    float factor = -1.0f;
    launch_body<simgpu::CpuContext, SquareSum>({chunks, 1, 1, workload::kThreads}, values.data(),
                                               values.size(), sums.data());
    launch_body<simgpu::CpuContext, ClipFactor>({1, 1, 1, 1}, sums.data(), sums.size(), kClipNorm, &factor);
    CHECK(factor == Approx(length > 5.0f ? 5.0f / length : 1.0f).epsilon(1e-4));
  }
}

TEST_CASE("mlp footprint: as large as the project's tests need it") {
  const Footprint need = footprint(Settings{});
  CHECK(need.peak_bytes >= 64U << 20);
  CHECK(need.blocks_2mib >= 12);
  CHECK(need.blocks > need.blocks_2mib + 12);  // and a good many small ones
  CHECK(need.largest_launch_set * 4 <= need.peak_bytes);
  CHECK(need.live_bytes > need.peak_bytes / 2);
  CHECK(need.live_bytes <= need.peak_bytes);
}

TEST_CASE("mlp footprint: adds up for one hidden layer") {
  Settings tiny;
  tiny.width = 32;
  tiny.layers = 1;
  tiny.batch = 16;
  const Footprint need = footprint(tiny);
  constexpr std::size_t kHidden = 4UL * (32 * 32 + 32);
  constexpr std::size_t kLast = 4UL * (16 * 32 + 16);
  constexpr std::size_t kActivations = 4UL * 32 * 16;
  // Live at the end of the backward work of the first layer, or of the last one.
  CHECK(need.live_bytes == std::max(3 * (kHidden + kLast), 3 * kLast + 2 * kHidden + 3 * kActivations));
  CHECK(need.h2d_bytes_per_step == kActivations + 4UL * 16);
  CHECK(need.h2d_bytes_once == 4UL * (32 * 32 + 16 * 32));
}

}  // namespace
}  // namespace mlp
