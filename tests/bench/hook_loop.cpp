// The hooks N times, for counting instructions: hook_loop launch|alloc_free_4mib|alloc_free_64kib N

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "tests/bench/hook_workload.h"

int main(int argc, char** argv) {
  const std::string_view what = argc == 3 ? argv[1] : "";
  const bool known = what == "launch" || what == "alloc_free_4mib" || what == "alloc_free_64kib";
  if (!known) {
    std::fputs("usage: hook_loop launch|alloc_free_4mib|alloc_free_64kib N\n", stderr);
    return 2;
  }
  tidepool::bench::HookWorkload program;
  for (long left = std::atol(argv[2]); left > 0; --left) {
    if (what == "launch") program.launch();
    if (what == "alloc_free_4mib") program.alloc_free(std::size_t{4} << 20);
    if (what == "alloc_free_64kib") program.alloc_free(std::size_t{64} << 10);
  }
  return EXIT_SUCCESS;
}
