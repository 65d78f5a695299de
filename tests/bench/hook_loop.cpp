// The hooks N times, for counting instructions: hook_loop WHAT N [LIVE]. LIVE more allocations are held
// meanwhile.

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "tests/bench/hook_workload.h"

int main(int argc, char** argv) {
  const std::string_view what = argc == 3 || argc == 4 ? argv[1] : "";
  const bool known = what == "launch" || what == "launch_others" || what == "copy" || what == "gate" ||
                     what == "alloc_free_4mib" || what == "alloc_free_64kib";
  if (!known) {
    std::fputs("usage: hook_loop launch|launch_others|copy|gate|alloc_free_4mib|alloc_free_64kib N [LIVE]\n",
               stderr);
    return 2;
  }
  const long rounds = std::atol(argv[2]);
  if (what == "gate") {
    for (long left = rounds; left > 0; --left) tidepool::bench::HookWorkload::ask();
    return EXIT_SUCCESS;
  }
  tidepool::bench::HookWorkload program;
  if (argc == 4) program.hold(std::atol(argv[3]));
  for (long left = rounds; left > 0; --left) {
    if (what == "launch") program.launch();
    if (what == "launch_others") program.launch_others();
    if (what == "copy") program.copy();
    if (what == "alloc_free_4mib") program.alloc_free(std::size_t{4} << 20);
    if (what == "alloc_free_64kib") program.alloc_free(std::size_t{64} << 10);
  }
  return EXIT_SUCCESS;
}
