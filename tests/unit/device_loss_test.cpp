// A device that is lost: who is told of it when.

#include "tests/unit/runtime_fixture.h"

namespace tidepool::runtime {
namespace {

struct LostProgram : Program {
  LostProgram() : Program(Config{.is_lost = true}) {}

  /// A kernel of the program ends the device with an error, of which no call has told.
  void lose() {
    REQUIRE(device()
                .submit(stream(0), "kernel",
                        [](auto& access) {
                          std::uint64_t word = 0;
                          access.read(DevicePtr(1), &word, Bytes(8));
                        })
                .ok());
    device().run_all();
    REQUIRE(device().errors().size() == 1);
  }
  Status allocate_and_free() {
    const DeviceResult<DevicePtr> block = runtime().allocate(MiB(4));
    return block.ok() ? runtime().free(*block) : block.error();
  }
  std::uint64_t questions() { return device().calls("query"); }
};

}  // namespace

// A process has one loss_was_told: each case sets it.
TEST_CASE("loss: a device is asked for it seldom, and it comes out all the same") {
  loss_was_told.store(false);
  LostProgram program;
  REQUIRE(program.allocate_and_free().ok());
  const std::uint64_t before = program.questions();
  for (std::uint32_t i = 0; i < 4 * Runtime::kAnswersPerQuestion; ++i)
    REQUIRE(program.allocate_and_free().ok());
  CHECK(program.questions() - before <= 4);
  program.lose();
  std::uint32_t answers = 0;
  while (answers <= Runtime::kAnswersPerQuestion && program.runtime().allocate(MiB(1)).ok()) ++answers;
  CHECK(answers <= Runtime::kAnswersPerQuestion);
}

TEST_CASE("loss: after one call has told of it all do") {
  loss_was_told.store(false);
  LostProgram program;
  for (int i = 0; i < 3; ++i) REQUIRE(program.runtime().allocate(MiB(1)).ok());
  program.lose();
  note_failure(kOutOfMemory);
  CHECK_FALSE(loss_was_told.load());
  note_failure(fakes::FakeDevice::kIllegalAddress);
  for (int i = 0; i < 3; ++i)
    CHECK(program.runtime().allocate(MiB(1)).error() == fakes::FakeDevice::kIllegalAddress);
  loss_was_told.store(false);
}

TEST_CASE("loss: a loss that was of another time keeps nobody from his memory") {
  loss_was_told.store(true);
  Program program({});
  for (int i = 0; i < 3; ++i) CHECK(program.runtime().allocate(MiB(1)).ok());
  loss_was_told.store(false);
}

}  // namespace tidepool::runtime
