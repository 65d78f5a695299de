// The fast loops that simgpu runs compute the bits of the threads that a GPU runs; and a published generator
// is the published one.

#include <array>
#include <catch2/catch.hpp>
#include <vector>

#include "tests/workloads/run_body.h"
#include "tools/workloads/cnn/norm_kernels.h"
#include "tools/workloads/common/random.h"
#include "tools/workloads/ops/gemm.h"
#include "tools/workloads/ops/philox.h"

namespace tidepool::test {
namespace {

using workload::blocks_for;
using workload::GemmArgs;

std::vector<float> numbers(std::size_t count, std::uint64_t stream) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = workload::uniform(1, stream, i);
  return values;
}

template <bool kTurnA, bool kTurnB>
void expect_same_product(int m, int n, int k) {
  using Body = workload::Gemm<kTurnA, kTurnB>;
  constexpr int kGap = 3;  // rows of the operands lie further apart than they are long
  constexpr int kProducts = 4;
  GemmArgs args{};
  args.m = m;
  args.n = n;
  args.k = k;
  args.a_row = (kTurnA ? m : k) + kGap;
  args.b_row = (kTurnB ? k : n) + kGap;
  args.c_row = n + kGap;
  args.inner = 2;
  args.a_inner = workload::at(kTurnA ? k : m, args.a_row, 0);
  args.b_inner = workload::at(kTurnB ? n : k, args.b_row, 0);
  args.c_inner = workload::at(m, args.c_row, 0);
  args.a_outer = 2 * args.a_inner;
  args.b_outer = 2 * args.b_inner;
  args.c_outer = 2 * args.c_inner;
  const auto a = numbers(kProducts * args.a_inner, 1);
  const auto b = numbers(kProducts * args.b_inner, 2);
  const auto bias = numbers(static_cast<std::size_t>(n), 3);
  args.a = a.data();
  args.b = b.data();
  args.bias = bias.data();
  const LaunchShape shape{blocks_for(static_cast<std::size_t>(m), Body::kRows),
                          blocks_for(static_cast<std::size_t>(n), Body::kColumns), kProducts,
                          Body::kRows * Body::kColumns};
  for (const int accumulate : {0, 1}) {
    args.accumulate = accumulate;
    const auto [fast, threads] = both_ways([&](const auto& launcher) {
      std::vector<float> c = numbers(kProducts * args.c_inner, 4);
      args.c = c.data();
      launcher.template run<Body>(shape, args);
      return c;
    });
    INFO(m << " x " << n << " x " << k << ", turned " << kTurnA << kTurnB);
    CHECK(same_bits(fast, threads));
    const std::vector<float> before = numbers(kProducts * args.c_inner, 4);
    CHECK(fast[static_cast<std::size_t>(n)] == before[static_cast<std::size_t>(n)]);  // a gap
    double want = bias[0] + static_cast<double>(accumulate) * before[0];
    for (int i = 0; i < k; ++i) {
      want += static_cast<double>(a[workload::at(kTurnA ? i : 0, args.a_row, kTurnA ? 0 : i)]) *
              static_cast<double>(b[workload::at(kTurnB ? 0 : i, args.b_row, kTurnB ? i : 0)]);
    }
    CHECK(fast[0] == Approx(want).epsilon(1e-5).margin(1e-5));
  }
}

TEST_CASE("workload kernels: fast products of matrices are those of the threads") {
  for (const auto& [m, n, k] : std::vector<std::array<int, 3>>{{16, 32, 64}, {5, 3, 1}, {37, 70, 150}}) {
    expect_same_product<false, false>(m, n, k);
    expect_same_product<true, false>(m, n, k);
    expect_same_product<false, true>(m, n, k);
  }
}

TEST_CASE("workload kernels: fast loops over images are those of the threads") {
  for (const int size : {2, 5, 18}) {
    constexpr int kChannels = 3;
    constexpr int kImages = 4;
    constexpr int kRun = 2;  // the last two
    const auto pixels = static_cast<std::size_t>(size * size);
    const LaunchShape shape{kRun, kChannels, 1, workload::kThreads};
    const auto images = numbers(kChannels * kImages * pixels, 1);
    const auto matrix = numbers(cnn::kTaps * kChannels * kRun * pixels, 2);
    INFO("size " << size);
    const auto to = both_ways([&](const auto& launcher) {
      std::vector<float> out(matrix.size(), -1.0f);
      launcher.template run<cnn::ToPatches>(
          shape, cnn::PatchArgs{images.data(), out.data(), size, kImages, kImages - kRun, kRun});
      return out;
    });
    CHECK(same_bits(to.first, to.second));
    const auto from = both_ways([&](const auto& launcher) {
      std::vector<float> out(images.size(), -1.0f);
      launcher.template run<cnn::FromPatches>(
          shape, cnn::PatchArgs{matrix.data(), out.data(), size, kImages, kImages - kRun, kRun});
      return out;
    });
    CHECK(same_bits(from.first, from.second));
  }
}

TEST_CASE("workload kernels: fast sums are those of the threads") {
  for (const std::size_t count : {1U, 255U, 256U, 5000U}) {
    const auto values = numbers(2 * count + 2, 1);
    const auto sums = both_ways([&](const auto& launcher) {
      std::vector<float> averages = {0.5f, 0.5f, 1.5f, 1.5f};
      std::vector<cnn::Statistics> statistics(2);
      launcher.template run<cnn::NormStatistics>({2, 1, 1, workload::kThreads}, values.data(), count,
                                                 statistics.data(), averages.data(), averages.data() + 2);
      for (const cnn::Statistics& s : statistics) averages.insert(averages.end(), {s.mean, s.scale});
      return averages;
    });
    INFO(count << " numbers");
    CHECK(same_bits(sums.first, sums.second));
  }
}

// The known answers that come with the authors' Random123 library, for philox4x32 of 10 rounds.
TEST_CASE("workload kernels: the generator of dropout is Philox4x32-10") {
  struct Case {
    workload::Philox counter;
    std::uint32_t key0, key1;
    workload::Philox want;
  };
  const Case cases[] = {{{{0, 0, 0, 0}}, 0, 0, {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}}},
                        {{{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}},
                         0xffffffff,
                         0xffffffff,
                         {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}}},
                        {{{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}},
                         0xa4093822,
                         0x299f31d0,
                         {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}}};
  for (const Case& c : cases) {
    const workload::Philox got = workload::philox(c.counter, c.key0, c.key1);
    for (int i = 0; i < 4; ++i) CHECK(got.word[i] == c.want.word[i]);
  }
}

}  // namespace
}  // namespace tidepool::test
