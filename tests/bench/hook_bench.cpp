// Nanoseconds of the hooks by Google Benchmark. run.sh starts it with and without the preload.

#include <benchmark/benchmark.h>

#include "tests/bench/hook_workload.h"

namespace tidepool::bench {
namespace {

/// Each thread's own: threads that do not share anything.
HookWorkload& workload() {
  thread_local HookWorkload instance;
  return instance;
}

void launch_8_pointers(benchmark::State& state) {
  HookWorkload& program = workload();
  for ([[maybe_unused]] auto _ : state) program.launch();
}
BENCHMARK(launch_8_pointers)->Name("launch_8_pointers")->ThreadRange(1, 2);

void copy_512(benchmark::State& state) {
  HookWorkload& program = workload();
  for ([[maybe_unused]] auto _ : state) program.copy();
}
BENCHMARK(copy_512)->Name("copy_512")->ThreadRange(1, 2);

void alloc_free(benchmark::State& state, std::size_t bytes) {
  HookWorkload& program = workload();
  for ([[maybe_unused]] auto _ : state) program.alloc_free(bytes);
}
BENCHMARK_CAPTURE(alloc_free, 4mib, std::size_t{4} << 20)->Name("alloc_free_4mib")->ThreadRange(1, 2);
BENCHMARK_CAPTURE(alloc_free, 64kib, std::size_t{64} << 10)->Name("alloc_free_64kib")->ThreadRange(1, 2);

void alloc_free_among_many(benchmark::State& state) {
  HookWorkload program;
  program.hold(state.range(0));
  for ([[maybe_unused]] auto _ : state) program.alloc_free(std::size_t{4} << 20);
}
BENCHMARK(alloc_free_among_many)->Name("alloc_free_4mib_live")->Arg(1000)->Arg(100000);

}  // namespace
}  // namespace tidepool::bench

BENCHMARK_MAIN();
