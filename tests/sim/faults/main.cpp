// Rounds of calls, each driver function at least once in a round, for plans that make one of them fail
// (run_calls.py). Each round checks what it wrote.

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/sim/faults/device.h"

namespace tidepool::faults {
namespace {

void work(unsigned rounds) {
  Device device;
  for (unsigned round = 0; round < rounds; ++round) {
    g_twins = round % 2 == 1;
    for (const auto part : {plain_memory, memory_of_pools, memory_that_is_shared, own_mappings, copies,
                            memsets, operations_on_words, graphs, captures, launches, modules, questions}) {
      part(device, round);
      device.turn(round);
    }
  }
}

}  // namespace
}  // namespace tidepool::faults

// fault_rounds work|contexts ROUNDS
int main(int count, char** words) {
  using namespace tidepool::faults;
  if (count != 3) return 2;
  const auto rounds = static_cast<unsigned>(std::strtoul(words[2], nullptr, 10));
  CALL(cuInit)(0u);
  if (std::strcmp(words[1], "work") == 0) {
    work(rounds);
  } else {
    for (unsigned round = 0; round < rounds; ++round) contexts(round);
  }
  std::printf("%u rounds of %s\n", rounds, words[1]);
  return kRight;
}
