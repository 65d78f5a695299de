// The hooks N times, for counting instructions: hook_loop WHAT N [LIVE]. LIVE more allocations are held
// meanwhile.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "tests/bench/hook_workload.h"

namespace {

using Program = tidepool::bench::HookWorkload;
constexpr std::size_t k4MiB = std::size_t{4} << 20;
constexpr std::size_t k64KiB = std::size_t{64} << 10;

constexpr struct {
  std::string_view name;
  void (*run)(Program& program);
} kHooks[] = {
    {"launch", [](Program& program) { program.launch(); }},
    {"launch_ex", [](Program& program) { program.launch_ex(); }},
    {"launch_others", [](Program& program) { program.launch_others(); }},
    {"launch_graph", [](Program& program) { program.launch_graph(); }},
    {"copy", [](Program& program) { program.copy(); }},
    {"fill", [](Program& program) { program.fill(); }},
    {"wait_for_event", [](Program& program) { program.wait_for_event(); }},
    {"alloc_free_4mib", [](Program& program) { program.alloc_free(k4MiB); }},
    {"alloc_free_64kib", [](Program& program) { program.alloc_free(k64KiB); }},
    {"alloc_free_async_4mib", [](Program& program) { program.alloc_free_async(k4MiB); }},
    {"alloc_free_async_64kib", [](Program& program) { program.alloc_free_async(k64KiB); }},
};

int usage() {
  std::fputs("usage: hook_loop WHAT N [LIVE]; WHAT: gate", stderr);
  for (const auto& hook : kHooks) std::fprintf(stderr, "|%s", hook.name.data());
  std::fputc('\n', stderr);
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3 && argc != 4) return usage();
  const std::string_view what = argv[1];
  const long rounds = std::atol(argv[2]);
  if (what == "gate") {
    for (long left = rounds; left > 0; --left) Program::ask();
    return EXIT_SUCCESS;
  }
  const auto* const hook =
      std::find_if(std::begin(kHooks), std::end(kHooks), [&](const auto& row) { return row.name == what; });
  if (hook == std::end(kHooks)) return usage();
  Program program;
  if (argc == 4) program.hold(std::atol(argv[3]));
  for (long left = rounds; left > 0; --left) hook->run(program);
  return EXIT_SUCCESS;
}
