// TIDEPOOL_CHECK=full compares what moves with what moved (docs/explanation/residency.md).

#include "allocator/support/message.h"
#include "allocator/support/stats_page.h"
#include "tests/unit/runtime_fixture.h"

namespace tidepool::runtime {
namespace {

constexpr int kBlocks = 8;
constexpr Bytes kSize = MiB(4);
constexpr Bytes kPlace = MiB(1);  // no stamp is there, and the first run of a slot is longer

std::uint64_t verified() {
  return StatsPage::instance().get(Metric::verified_bytes_total);
}

/// How often something was reported since.
class Told {
 public:
  explicit Told(Msg code) : code_(code), before_(times_reported(code)) {}
  [[nodiscard]] std::uint64_t times() const { return times_reported(code_) - before_; }

 private:
  Msg code_;
  std::uint64_t before_;
};

/// Blocks of twice the budget, each written once. The last are on the device.
std::vector<DevicePtr> written_blocks(Program& program) {
  std::vector<DevicePtr> blocks;
  for (int i = 0; i < kBlocks; ++i) blocks.push_back(program.allocate(kSize));
  for (const DevicePtr block : blocks) REQUIRE(program.touch({block}, 0).ok());
  program.synchronize();
  return blocks;
}

Block& block_at(Program& program, DevicePtr at) {
  return program.runtime().arena().block(program.runtime().find(at.address()));
}

/// Touches others until the block stands so.
void press_until(Program& program, const std::vector<DevicePtr>& others, DevicePtr at, BlockState wanted) {
  const auto is_there = [&] { return block_at(program, at).load().state() == wanted; };
  for (std::size_t i = 0; !is_there() && i < 40; ++i) {
    REQUIRE(program.touch({others[i % others.size()]}, 0).ok());
    if (wanted == BlockState::kOut) program.device().run_all();
  }
  REQUIRE(is_there());
}

}  // namespace

TEST_CASE("verifying: a byte of the host's copy that changes is found before the block comes back") {
  for (const bool is_full : {true, false}) {
    INFO("full: " << is_full);
    Program program({.check = is_full ? "full" : "cheap"});
    const std::vector<DevicePtr> blocks = written_blocks(program);
    const Told lost(Msg::TP3009);
    Block& block = block_at(program, blocks[0]);
    REQUIRE(block.load().state() == BlockState::kOut);
    std::byte& byte = block.host.front().base[kPlace.count()];
    byte ^= std::byte{0x10};
    const Status status = program.look({blocks[0]}, 1);
    CHECK(lost.times() == (is_full ? 1 : 0));
    CHECK(status == (is_full ? kUnknownError : kOk));
    if (is_full) {
      // Nothing else has changed: not the block, not the others.
      CHECK(block.load().state() == BlockState::kOut);
      for (std::size_t i = 1; i < blocks.size(); ++i) REQUIRE(program.touch({blocks[i]}, 0).ok());
      CHECK(lost.times() == 1);
      byte ^= std::byte{0x10};
      CHECK(program.touch({blocks[0]}, 0).ok());
    }
    program.synchronize();
    program.check();
    REQUIRE(program.free(blocks[0]).ok());
  }
}

TEST_CASE("verifying: what changes while it is copied in is told of after that") {
  int came_wrong = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    INFO("seed " << seed);
    Program program({.seed = seed, .check = "full"});
    const std::vector<DevicePtr> blocks = written_blocks(program);
    const Told lost(Msg::TP3009);
    const Told other(Msg::TP3010);
    std::byte& byte = block_at(program, blocks[0]).host.front().base[kPlace.count()];
    const std::byte before = byte;
    REQUIRE(program.look({blocks[0]}, 1).ok());
    byte ^= std::byte{0x10};  // before its copy, or too late for it
    program.synchronize();
    REQUIRE(program.runtime().check() == nullptr);
    std::byte now{};
    REQUIRE(program.device().peek(blocks[0] + kPlace, &now, Bytes(1)));
    came_wrong += now != before;
    CHECK(other.times() == (now != before ? 1 : 0));
    CHECK(lost.times() == 0);
    REQUIRE(program.runtime().check() == nullptr);
    CHECK(other.times() <= 1);
  }
  CHECK(came_wrong > 0);
}

TEST_CASE("verifying: what work that names nothing writes to a block that leaves is told of, and kept") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    INFO("seed " << seed);
    Program program({.seed = seed, .check = "full"});
    std::vector<DevicePtr> blocks = written_blocks(program);
    const Told changed(Msg::TP3008);
    const DevicePtr at = blocks.back();
    blocks.pop_back();
    REQUIRE(program.touch({at}, 0).ok());
    press_until(program, blocks, at, BlockState::kOutgoing);
    program.device().run_all();
    REQUIRE(program.device().submit_fill(program.stream(2), at + kPlace, KiB(4), 0x5a).ok());
    program.device().run_all();
    press_until(program, blocks, at, BlockState::kOut);
    CHECK(changed.times() == 1);
    REQUIRE(program.touch({at}, 0).ok());
    program.synchronize();
    unsigned char seen = 0;
    REQUIRE(program.device().peek(at + kPlace, &seen, Bytes(1)));
    CHECK(seen == 0x5a);
    program.check();
  }
}

TEST_CASE(
    "verifying: everything that moves is looked at, and where there is no room for that it moves all the "
    "same") {
  const auto moved = [](const char* host) {
    Program program({.host = host, .check = "full"});
    const std::uint64_t before = verified();
    const Bytes in_before = program.device().copied_to_device();
    const std::vector<DevicePtr> blocks = written_blocks(program);
    for (int round = 0; round < 4; ++round) {
      for (const DevicePtr block : blocks) REQUIRE(program.touch({block}, 0).ok());
    }
    program.synchronize();
    program.check();
    return std::pair(Bytes(verified() - before), program.device().copied_to_device() - in_before);
  };
  const auto [looked_at, came_in] = moved("1GiB");
  // Each that came in had left.
  CHECK(looked_at >= came_in * 3);
  CHECK(came_in > kSize * kBlocks);
  // Twice the largest block is left for the exchange.
  const auto [looked_at_less, came_in_too] = moved("24MiB");
  CHECK(looked_at_less < came_in_too * 3);
  CHECK(looked_at_less >= came_in_too);
}

// A copy to look at that fails is no reason for anything.
TEST_CASE("verifying: a second copy that fails changes nothing") {
  for (std::uint64_t nth = 0; nth < 30; ++nth) {
    INFO("call " << nth);
    Program program({.check = "full"});
    const Told changed(Msg::TP3008);
    const Told lost(Msg::TP3009);
    const Told other(Msg::TP3010);
    program.device().faults().add({.function = "copy_to_host", .after = nth, .code = 2});
    const std::vector<DevicePtr> blocks = written_blocks(program);
    for (int round = 0; round < 2; ++round) {
      for (const DevicePtr block : blocks) REQUIRE(program.touch({block}, 0).ok());
    }
    program.synchronize();
    program.check();
    CHECK(changed.times() + lost.times() + other.times() == 0);
  }
}

}  // namespace tidepool::runtime
