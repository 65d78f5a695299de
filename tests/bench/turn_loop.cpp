// Turns of the slow path, for counting instructions: turn_loop WHAT N BLOCKS.

#include <cstdio>
#include <cstdlib>

#include "tests/bench/turn_workload.h"

int main(int argc, char** argv) {
  using tidepool::bench::TurnWorkload;
  if (argc != 4) {
    std::fputs("usage: turn_loop turn_all|turn_read|turn_among|turn_freed N BLOCKS\n", stderr);
    return 2;
  }
  TurnWorkload program(TurnWorkload::kind_of(argv[1]), static_cast<std::size_t>(std::atol(argv[3])));
  for (long left = std::atol(argv[2]); left > 0; --left) program.turn();
  return EXIT_SUCCESS;
}
