// Nanoseconds of the hooks by Google Benchmark. run.sh starts it with and without the preload.

#include <benchmark/benchmark.h>

#include "tests/bench/hook_workload.h"

namespace tidepool::bench {
namespace {

HookWorkload& workload() {
  static HookWorkload instance;
  return instance;
}

void launch_8_pointers(benchmark::State& state) {
  HookWorkload& program = workload();
  for ([[maybe_unused]] auto _ : state) program.launch();
}
BENCHMARK(launch_8_pointers);

void alloc_free_4mib(benchmark::State& state) {
  HookWorkload& program = workload();
  for ([[maybe_unused]] auto _ : state) program.alloc_free(std::size_t{4} << 20);
}
BENCHMARK(alloc_free_4mib);

void alloc_free_64kib(benchmark::State& state) {
  HookWorkload& program = workload();
  for ([[maybe_unused]] auto _ : state) program.alloc_free(std::size_t{64} << 10);
}
BENCHMARK(alloc_free_64kib);

}  // namespace
}  // namespace tidepool::bench

BENCHMARK_MAIN();
