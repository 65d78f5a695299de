// Blocks that stay on the device as long as somebody holds them.

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "allocator/support/stats_page.h"
#include "tests/unit/runtime_fixture.h"

namespace tidepool::runtime {
namespace {

/// Twice what fits, of which the first block is looked at.
struct Held {
  Program program{Program::Config{}};
  std::vector<DevicePtr> blocks;

  Held() {
    for (int i = 0; i < 8; ++i) blocks.push_back(program.allocate(MiB(4)));
    use_all();
  }
  void use(std::size_t i) { REQUIRE(program.touch({blocks[i]}, 0).ok()); }
  void use_all() {
    for (std::size_t i = 0; i < blocks.size(); ++i) use(i);
  }
  void push_out() {
    for (int round = 0; round < 2; ++round) {
      for (std::size_t i = 1; i < blocks.size(); ++i) use(i);
    }
    program.device().run_all();
    for (std::size_t i = 1; i < blocks.size(); ++i) use(i);
  }
  [[nodiscard]] bool is_there() {
    const Runtime& runtime = program.runtime();
    const BlockState state = runtime.arena().block(runtime.find(blocks[0].address())).load().state();
    return state != BlockState::kOut;
  }
  std::vector<Hold> hold() {
    const BlockId id = program.runtime().find(blocks[0].address());
    std::vector<Hold> holds;
    REQUIRE(program.runtime().hold({&id, 1}, "test", holds).ok());
    REQUIRE(holds.size() == 1);
    return holds;
  }
};

}  // namespace

TEST_CASE("hold: a block stays until the last of those who hold it lets go") {
  Held held;
  held.push_out();
  REQUIRE(!held.is_there());
  const std::vector<Hold> first = held.hold();
  const std::vector<Hold> second = held.hold();
  held.push_out();
  CHECK(held.is_there());
  CHECK(StatsPage::instance().get(Metric::held_bytes) == MiB(4).count());
  held.program.runtime().let_go(first, {}, false);
  held.push_out();
  CHECK(held.is_there());
  held.program.runtime().let_go(second, {}, true);
  CHECK(StatsPage::instance().get(Metric::held_bytes) == 0);
  CHECK(StatsPage::instance().get(Metric::kept_bytes) == 0);
  held.push_out();
  CHECK(!held.is_there());
  held.use(0);
  CHECK(held.program.runtime().check() == nullptr);
}

TEST_CASE("hold: what is kept for good stays when nobody holds it any more") {
  Held held;
  const std::vector<Hold> holds = held.hold();
  REQUIRE(held.program.runtime().keep(held.blocks[0], "test").ok());
  held.program.runtime().let_go(holds, {}, false);
  held.push_out();
  CHECK(held.is_there());
}

TEST_CASE("hold: to let go of memory that was freed meanwhile does nothing to who has it next") {
  Held held;
  Runtime& runtime = held.program.runtime();
  const std::vector<Hold> before = held.hold();
  held.program.device().run_all();
  REQUIRE(runtime.free(held.blocks[0]).ok());
  const DevicePtr again = held.program.allocate(MiB(4));
  REQUIRE(again == held.blocks[0]);  // the pair of address and memory
  held.use(0);
  const std::vector<Hold> after = held.hold();
  runtime.let_go(before, {}, true);
  held.push_out();
  CHECK(held.is_there());
  runtime.let_go(after, {}, false);
  held.push_out();
  CHECK(!held.is_there());
}

TEST_CASE("hold: what is named is addresses, so who gets freed memory again is held when that is asked") {
  Held held;
  Runtime& runtime = held.program.runtime();
  std::uint64_t seen = runtime.held_frees();
  std::vector<Hold> holds = held.hold();
  const std::vector<Hold> first = holds;
  REQUIRE(runtime.renew(holds, seen, "test").ok());
  CHECK(holds == first);
  held.program.device().run_all();
  REQUIRE(runtime.free(held.blocks[0]).ok());
  // Nothing is there: it is looked for at each call.
  REQUIRE(runtime.renew(holds, seen, "test").ok());
  CHECK(holds == first);
  CHECK(seen != runtime.held_frees());
  REQUIRE(held.program.allocate(MiB(4)) == held.blocks[0]);
  held.use(0);
  held.push_out();
  CHECK(!held.is_there());
  REQUIRE(runtime.renew(holds, seen, "test").ok());
  REQUIRE(holds.size() == 1);
  CHECK(!(holds[0] == first[0]));
  CHECK(seen == runtime.held_frees());
  held.push_out();
  CHECK(held.is_there());
  // Another's memory that was freed changes nothing.
  const std::vector<Hold> again = holds;
  held.program.device().run_all();
  REQUIRE(runtime.free(held.blocks[1]).ok());
  REQUIRE(runtime.renew(holds, seen, "test").ok());
  CHECK(holds == again);
  runtime.let_go(holds, {}, true);
  CHECK(StatsPage::instance().get(Metric::held_bytes) == 0);
  CHECK(runtime.check() == nullptr);
}

// A free takes no lock where it finds nothing kept, and who holds looks again.
TEST_CASE("hold: of a block that is freed meanwhile nothing is left") {
  constexpr int kFrees = 20'000;
  Program program{Program::Config{}};
  Runtime& runtime = program.runtime();
  const DevicePtr first = program.allocate(MiB(4));
  const BlockId id = runtime.find(first.address());
  std::atomic<bool> is_over{false};
  std::thread other([&] {
    while (!is_over.load()) {
      std::vector<Hold> holds;
      (void)runtime.hold({&id, 1}, "test", holds);
      runtime.let_go(holds, {}, false);
    }
  });
  DevicePtr at = first;
  int failed = 0;
  for (int i = 0; i < kFrees; ++i) {
    failed += runtime.free(at).ok() ? 0 : 1;
    const auto again = runtime.allocate(MiB(4));
    failed += again.ok() ? 0 : 1;
    if (!again.ok()) break;
    at = *again;
  }
  is_over.store(true);
  other.join();
  CHECK(failed == 0);
  CHECK(StatsPage::instance().get(Metric::held_bytes) == 0);
  CHECK(StatsPage::instance().get(Metric::kept_bytes) == 0);
  const Block& block = runtime.arena().block(id);
  CHECK(block.pins.load() == 0);
  CHECK(block.holds == 0);
  CHECK(runtime.check() == nullptr);
}

TEST_CASE("hold: where freed memory was, all that is there now is held, each once") {
  Held held;
  Runtime& runtime = held.program.runtime();
  const DevicePtr large = held.program.allocate(MiB(6));
  const BlockId id = runtime.find(large.address());
  std::uint64_t seen = runtime.held_frees();
  std::vector<Hold> holds;
  REQUIRE(runtime.hold({&id, 1}, "test", holds).ok());
  held.program.device().run_all();
  REQUIRE(runtime.free(large).ok());
  // What comes instead is smaller, and beside it there is nothing.
  const Hold gone{id, holds[0].life, large + MiB(2), MiB(2)};
  const BlockId other = runtime.find(held.blocks[3].address());
  holds.push_back({id, holds[0].life, held.blocks[3], MiB(4)});
  holds.push_back({id, holds[0].life, held.blocks[3] + MiB(2), MiB(2)});
  holds.push_back(gone);
  REQUIRE(runtime.renew(holds, seen, "test").ok());
  CHECK(std::count_if(holds.begin(), holds.end(), [&](const Hold& hold) { return hold.id == other; }) == 1);
  CHECK(seen != runtime.held_frees());
  REQUIRE(runtime.renew(holds, seen, "test").ok());
  CHECK(std::count_if(holds.begin(), holds.end(), [&](const Hold& hold) { return hold.id == other; }) == 1);
  held.push_out();
  CHECK(StatsPage::instance().get(Metric::held_bytes) == MiB(4).count());
  runtime.let_go(holds, {}, true);
  CHECK(StatsPage::instance().get(Metric::held_bytes) == 0);
}

// Whoever holds a block uses it unseen: the fake device faults where the memory goes before the work has
// ended.
TEST_CASE("hold: a block leaves once the work that it is let go with has passed") {
  Held held;
  Runtime& runtime = held.program.runtime();
  fakes::FakeDevice& device = held.program.device();
  const std::vector<Hold> holds = held.hold();
  const StreamHandle stream = held.program.stream(1);
  device.hold(stream);
  bool has_run = false;
  REQUIRE(device.submit(stream, "unseen", [&](auto&) { has_run = true; }).ok());
  const Use use = runtime.note_work(stream);
  runtime.let_go(holds, {&use, 1}, false);
  const BlockId id = runtime.find(held.blocks[0].address());
  const auto& uses = runtime.arena().block(id).uses;
  CHECK(std::any_of(uses.begin(), uses.end(), [&](const auto& one) { return one.load() == use.raw(); }));
  device.end_hold(stream);
  held.push_out();
  CHECK(has_run);
  CHECK(!held.is_there());
}

TEST_CASE("hold: blocks that stay need no room to move, so they may fill the budget") {
  Program program({.min_block = "8MiB"});
  std::vector<DevicePtr> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(program.allocate(MiB(4)));
  CHECK(program.runtime().allocate(MiB(4)).error() == kOutOfMemory);
  CHECK(program.touch(blocks, 0).ok());
  // One that moves needs its room, and has it before what stays.
  REQUIRE(program.free(blocks.back()).ok());
  blocks.back() = program.allocate(MiB(3));
  REQUIRE(program.free(blocks.back()).ok());
  blocks.pop_back();
  REQUIRE(program.free(blocks.back()).ok());
  blocks.back() = program.allocate(MiB(8));
  CHECK(program.runtime().allocate(MiB(2)).error() == kOutOfMemory);
  CHECK(program.touch(blocks, 0).ok());
}

}  // namespace tidepool::runtime
