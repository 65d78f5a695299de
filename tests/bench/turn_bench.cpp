// Nanoseconds of a turn of the slow path, over a device that does nothing, by the number of live blocks.

#include <benchmark/benchmark.h>

#include "tests/bench/turn_workload.h"

namespace tidepool::bench {
namespace {

void turn(benchmark::State& state, TurnWorkload::Kind kind) {
  TurnWorkload program(kind, static_cast<std::size_t>(state.range(0)));
  for ([[maybe_unused]] auto _ : state) program.turn();
}

using Kind = TurnWorkload::Kind;
BENCHMARK_CAPTURE(turn, all, Kind::kAll)->Arg(1000)->Arg(2000)->Arg(10000)->Arg(100000);
BENCHMARK_CAPTURE(turn, read, Kind::kRead)->Arg(1000)->Arg(2000)->Arg(10000)->Arg(100000);
BENCHMARK_CAPTURE(turn, among, Kind::kAmong)->Arg(1000)->Arg(2000)->Arg(10000)->Arg(100000);
BENCHMARK_CAPTURE(turn, freed, Kind::kFreed)->Arg(1000)->Arg(2000)->Arg(10000)->Arg(100000);

}  // namespace
}  // namespace tidepool::bench

BENCHMARK_MAIN();
