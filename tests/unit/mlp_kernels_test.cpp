#include "tools/workloads/mlp_kernels.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "tools/workloads/mlp_model.h"

namespace mlp {
namespace {

/// simgpu's context with the fast loops switched off: what the threads of a GPU would compute.
class PhasesOnly : public simgpu::CpuContext {
 public:
  using CpuContext::CpuContext;
  [[nodiscard]] constexpr bool on_host() const { return false; }
};

/// Runs every block of a launch with a context of this type.
template <class Context, class Body, class... Args>
void launch(unsigned grid_x, unsigned grid_y, unsigned threads, Args... args) {
  static std::vector<unsigned char> scratch(1 << 20);
  SimgpuGrid grid{};
  grid.grid[0] = grid_x;
  grid.grid[1] = grid_y;
  grid.grid[2] = grid.block[1] = grid.block[2] = 1;
  grid.block[0] = threads;
  grid.scratch = scratch.data();
  grid.scratch_bytes = scratch.size();
  grid.check_range = [](const void*, std::size_t, int) {};
  grid.fail = [](const char*) { std::abort(); };
  Context context(grid);
  for (unsigned y = 0; y < grid_y; ++y) {
    for (unsigned x = 0; x < grid_x; ++x) {
      context.start_block({x, y, 0});
      Body::run(context, args...);
    }
  }
}

std::vector<float> numbers(std::size_t count, std::uint64_t stream) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = uniform(1, stream, i);
  return values;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

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

    std::vector<float> y[2];
    std::vector<float> dx[2];
    std::vector<float> dw[2];
    std::vector<float> db[2];
    const auto compute = [&]<class Context>(std::size_t i, Context*) {
      y[i].assign(dy.size(), -1.0f);
      dx[i].assign(x.size(), -1.0f);
      dw[i].assign(w.size(), -1.0f);
      db[i].assign(bias.size(), -1.0f);
      launch<Context, LinearForward>(blocks(s.outputs, kRows), lanes, kRows * kLanes, x.data(), w.data(),
                                     bias.data(), s.inputs, s.outputs, s.batch, 1, y[i].data());
      launch<Context, LinearBackwardInput>(blocks(s.inputs, kRows), lanes, kRows * kLanes, w.data(),
                                           dy.data(), x.data(), s.inputs, s.outputs, s.batch, dx[i].data());
      launch<Context, LinearBackwardWeight>(blocks(s.outputs, kRows),
                                            blocks(s.inputs, LinearBackwardWeight::kColumns),
                                            LinearBackwardWeight::kColumns, x.data(), dy.data(), s.inputs,
                                            s.outputs, s.batch, db[i].data(), dw[i].data());
    };
    compute(0, static_cast<simgpu::CpuContext*>(nullptr));
    compute(1, static_cast<PhasesOnly*>(nullptr));
    CHECK(same_bits(y[0], y[1]));
    CHECK(same_bits(dx[0], dx[1]));
    CHECK(same_bits(dw[0], dw[1]));
    CHECK(same_bits(db[0], db[1]));
    CHECK(std::find(dw[0].begin(), dw[0].end(), -1.0f) == dw[0].end());
  }
}

TEST_CASE("mlp kernels: gradients longer than the limit are shortened to it, others are left alone") {
  for (const float length : {0.5f, 5.0f, 20.0f}) {
    std::vector<float> values(10'000, length / 100.0f);  // of this Euclidean length
    std::vector<float> sums(blocks(10'000, kChunk));
    float factor = -1.0f;
    launch<simgpu::CpuContext, SquareSum>(blocks(10'000, kChunk), 1, SquareSum::kThreads, values.data(),
                                          values.size(), sums.data());
    launch<simgpu::CpuContext, ClipFactor>(1, 1, 1, sums.data(), sums.size(), &factor);
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
