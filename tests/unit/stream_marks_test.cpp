// How far a stream has come: tickets, marks, and entries that are used again.

#include <catch2/catch.hpp>
#include <vector>

#include "allocator/streams.h"
#include "tests/fakes/fake_device.h"

namespace tidepool::runtime {
namespace {

struct Table {
  fakes::FakeDevice device;
  StreamTable streams{device};

  StreamHandle create() { return device.create_program_stream(false); }
  /// A kernel in the stream, and its ticket.
  Use launch(StreamHandle handle) {
    REQUIRE(device.submit(handle, "kernel", [](auto&) {}).ok());
    return streams.find(handle)->draw();
  }
  /// A kernel that runs until device.end_hold(), and its ticket.
  Use hold(StreamHandle handle) {
    device.hold(handle);
    return streams.find(handle)->draw();
  }
  Status mark(StreamHandle handle) { return streams.mark(*streams.find(handle)); }
};

}  // namespace

TEST_CASE("streams: a use has passed when the device has done it, and what came later has not") {
  Table table;
  const StreamHandle stream = table.create();
  const Use first = table.launch(stream);
  CHECK(table.mark(stream).ok());
  const Use second = table.hold(stream);
  CHECK(table.mark(stream).ok());
  const Use third = table.launch(stream);
  table.device.run_all();
  CHECK(table.streams.passed(first));
  CHECK_FALSE(table.streams.passed(second));
  CHECK_FALSE(table.streams.passed(third));
  table.device.end_hold(stream);
  table.device.run_all();
  CHECK(table.streams.passed(second));
  // Nothing was recorded behind it, so nothing tells, until it is asked for.
  CHECK_FALSE(table.streams.passed(third));
  CHECK_FALSE(table.streams.passed_or_wanted(third));
  table.streams.make_marks();
  table.device.run_all();
  CHECK(table.streams.passed(third));
}

TEST_CASE("streams: marks are rare while nothing is to leave, and as often as ever once something is") {
  Table table;
  const StreamHandle handle = table.create();
  Stream& stream = *table.streams.find(handle);
  const auto marks_of = [&](std::uint64_t launches) {
    const std::uint64_t before = table.device.calls("record");
    for (std::uint64_t i = 0; i < launches; ++i) {
      (void)table.launch(handle);
      table.streams.mark_sometimes(stream, Bytes());
    }
    return table.device.calls("record") - before;
  };
  constexpr std::uint64_t kMany = 2 * StreamTable::kLaunchesPerCalmMark;
  CHECK(marks_of(kMany) == kMany / StreamTable::kLaunchesPerMark);
  table.streams.expect_evictions(false);
  CHECK(marks_of(kMany) == 2);
  // What is not marked yet is, with the next launch.
  CHECK(marks_of(StreamTable::kLaunchesPerMark) == 0);
  table.streams.expect_evictions(true);
  CHECK(marks_of(1) == 1);
  CHECK(marks_of(kMany) == kMany / StreamTable::kLaunchesPerMark);
}

TEST_CASE("streams: how far a stream has come is one question, however many marks it has") {
  Table table;
  const StreamHandle stream = table.create();
  std::vector<Use> uses;
  for (int i = 0; i < 12; ++i) {
    uses.push_back(table.launch(stream));
    CHECK(table.mark(stream).ok());
  }
  table.device.run_all();
  const std::uint64_t before = table.device.calls("query");
  CHECK(table.streams.passed(uses[10]));
  CHECK(table.device.calls("query") == before + 1);
  for (int i = 0; i < 10; ++i) CHECK(table.streams.passed(uses[i]));
  CHECK(table.device.calls("query") == before + 1);
  CHECK(table.streams.passed(uses[11]));
  // Nothing is asked where no mark tells.
  const Use unmarked = table.launch(stream);
  const std::uint64_t asked = table.device.calls("query");
  CHECK_FALSE(table.streams.passed(unmarked));
  CHECK(table.device.calls("query") == asked);
}

TEST_CASE("streams: more marks than a stream has room for lose no ticket, and let none pass early") {
  Table table;
  const StreamHandle stream = table.create();
  std::vector<Use> uses{table.hold(stream)};
  for (std::size_t i = 0; i < 3 * MarkRing::kRoom; ++i) {
    CHECK(table.mark(stream).ok());
    uses.push_back(table.launch(stream));
  }
  CHECK(table.mark(stream).ok());
  table.device.run_all();
  for (const Use use : uses) CHECK_FALSE(table.streams.passed(use));
  table.device.end_hold(stream);
  table.device.run_all();
  for (const Use use : uses) CHECK(table.streams.passed(use));
}

TEST_CASE("streams: the entry of one that was destroyed serves another once its work is done, not before") {
  Table table;
  const StreamHandle old = table.create();
  const Use last = table.hold(old);
  table.streams.retire(old);
  const StreamHandle early = table.create();
  CHECK(table.launch(early).stream() != last.stream());
  CHECK_FALSE(table.streams.passed(last));
  table.device.end_hold(old);
  table.device.run_all();
  const StreamHandle late = table.create();
  const Use now = table.hold(late);
  REQUIRE(now.stream() == last.stream());
  // Uses of the one before mean what they meant.
  CHECK(now.ticket() > last.ticket());
  CHECK(table.streams.passed(last));
  CHECK(table.mark(late).ok());
  table.device.run_all();
  CHECK_FALSE(table.streams.passed(now));
  table.device.end_hold(late);
}

TEST_CASE("streams: one that waits for another's use runs after it, also after one that nobody has marked") {
  Table table;
  const StreamHandle first = table.create();
  const StreamHandle second = table.create();
  const Use use = table.hold(first);
  REQUIRE(table.streams.order(*table.streams.find(second), use).ok());
  bool has_run = false;
  REQUIRE(table.device.submit(second, "waiter", [&](auto&) { has_run = true; }).ok());
  table.device.run_all();
  CHECK_FALSE(has_run);
  table.device.end_hold(first);
  table.device.run_all();
  CHECK(has_run);
}

}  // namespace tidepool::runtime
