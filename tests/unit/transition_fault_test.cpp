// Every driver call that a transition makes may fail: the job goes on with the right bytes, or gets a clean
// error and can still go on after it.

#include "tests/unit/runtime_fixture.h"

namespace tidepool::runtime {
namespace {

constexpr const char* kCalls[] = {
    "create", "map",          "unmap",          "set_access",    "create_event", "record",      "wait",
    "query",  "copy_to_host", "copy_to_device", "register_host", "hash_to_host", "prepare_hash"};

void run_program(Program& program, int* refused) {
  (void)program.allocate(KiB(4));  // hashes find their memory beside it
  std::vector<DevicePtr> blocks;
  for (int i = 0; i < 8; ++i)
    blocks.push_back(program.allocate(MiB(4) + MiB(2) * static_cast<unsigned>(i % 2)));
  for (int round = 0; round < 4; ++round) {
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const std::vector<DevicePtr> set{blocks[i], blocks[(i + 3) % 8]};
      const Status status = round % 2 == 0 ? program.touch(set, i % 2) : program.look(set, i % 2);
      if (!status.ok()) ++*refused;
      program.synchronize();
    }
  }
  for (const DevicePtr block : blocks) REQUIRE(program.free(block).ok());
}

}  // namespace

TEST_CASE("transition: one failed driver call, any call, any time, is survived with the right bytes") {
  const char* const check = GENERATE("full", "unmap");
  INFO("TIDEPOOL_CHECK=" << check);
  for (const char* call : kCalls) {
    std::size_t total = 0;
    {
      Program program({.budget = "20MiB", .seed = 5, .check = check});
      const std::size_t before = program.device().calls(call);
      int refused = 0;
      run_program(program, &refused);
      REQUIRE(refused == 0);
      total = program.device().calls(call) - before;
    }
    for (std::size_t nth = 1; nth <= total; nth += 1 + total / 6) {
      INFO(call << " fails at call " << nth << " of " << total);
      Program program({.budget = "20MiB", .seed = 5, .check = check});
      program.device().faults().add({.function = call, .after = nth - 1, .code = 2});
      int refused = 0;
      run_program(program, &refused);
      CHECK(refused == 0);
      program.check();
    }
  }
}

}  // namespace tidepool::runtime
