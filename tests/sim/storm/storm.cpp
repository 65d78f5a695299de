// A random CUDA program that is correctly synchronised by construction and checks everything it reads. What
// it prints is the same for every correct device, however late and in whatever order that works:
//
//   storm --seed 7 --threads 2 --features all
//
// Exit status: 0, or 1 wrong bytes, 2 wrong arguments, 3 out of memory, 4 another CUDA error.

#include <cinttypes>
#include <cstdio>

#include "tests/sim/storm/executor.h"
#include "tests/sim/storm/generate.h"
#include "tests/sim/storm/model.h"
#include "tests/sim/storm/order.h"

int main(int argc, char** argv) {
  const storm::Options options = storm::parse_options(argc, argv);
  storm::Program program = storm::generate(options);
  storm::add_order(options, program);
  if (options.list) {
    std::fputs(storm::text_of(program).c_str(), stdout);
    return 0;
  }
  storm::add_expectations(program);
  const storm::Result result = storm::execute(options, program);
  unsigned checks = 0;
  for (std::size_t i = 0; i < program.operations.size(); ++i) {
    if (program.operations[i].kind != storm::Kind::kCheck) continue;
    ++checks;
    std::printf("check %zu %016" PRIx64 "\n", i, result.digests[i]);
  }
  std::printf("seed %" PRIu64 ": %zu operations, %u checks, %zu bytes at once\n", options.seed,
              program.operations.size(), checks, program.peak_bytes);
  std::fprintf(stderr, "storm: %d descriptors more than at the start\n", result.more_descriptors);
  return 0;
}
