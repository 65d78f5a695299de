#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "tests/simgpu_digest/device.h"

/// How fast digests read and write: one launch that reads 192 MiB and writes 64 MiB, as large as no cache is.
namespace {

using namespace digest_test;

constexpr std::size_t kBytes = std::size_t{64} << 20;

void run(benchmark::State& state, const char* stride, const char* kernel, std::size_t touched) {
  Device d(
      4 * kBytes, 1,
      "simgpu-roles 1\nkernel mixes\n param 0 in\n other none\nkernel writes\n param 0 out\n other none\n"
      "kernel works\n param 0 in\n param 1 in\n param 2 in\n param 3 out\n");
  d.stride = *dg::stride_named(stride);
  std::vector<std::uint64_t> buffers;
  for (std::size_t i = 0; i < 4; ++i) buffers.push_back(d.allocate(i * kBytes, kBytes));
  for (const std::uint64_t b : buffers) d.launch("writes", {1, 1, 1}, Params(b));
  const Params params(buffers[0], buffers[1], buffers[2], buffers[3]);
  for (auto unused : state) {
    static_cast<void>(unused);
    benchmark::DoNotOptimize(d.launch(kernel, {1, 1, 1}, params).mix);
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * touched));
}

/// A launch with eight small buffers: what does not depend on bytes.
void small_launch(benchmark::State& state) {
  Device d(1 << 20, 1, "simgpu-roles 1\nkernel k\n other in\n");
  std::vector<std::uint64_t> b;
  for (std::size_t i = 0; i < 8; ++i) b.push_back(d.allocate(i * 512, 64));
  const Params params(b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]);
  for (auto unused : state) {
    static_cast<void>(unused);
    benchmark::DoNotOptimize(d.launch("k", {1, 1, 1}, params).mix);
  }
}

BENCHMARK_CAPTURE(run, read_4k, "4k", "mixes", kBytes);
BENCHMARK_CAPTURE(run, read_full, "full", "mixes", kBytes);
BENCHMARK_CAPTURE(run, write, "4k", "writes", kBytes);
BENCHMARK_CAPTURE(run, launch_4k, "4k", "works", 4 * kBytes);
BENCHMARK_CAPTURE(run, launch_full, "full", "works", 4 * kBytes);
BENCHMARK(small_launch);

}  // namespace

BENCHMARK_MAIN();
