// The ring of events in shared memory: what is written is read whole or counted as lost, whatever happens to
// the writer.
#include "allocator/support/event_ring.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <cstring>
#include <vector>

#include "tests/process/child_process.h"
#include "tools/tidepool/event_json.h"
#include "tools/tidepool/event_reader.h"

namespace tidepool {
namespace {

using test::names_in;
using test::ScratchFolder;
using tools::EventReader;
using tools::EventSeen;

LogLevels levels(std::string_view text) {
  LogLevels got{};
  REQUIRE(parse_log_levels(text, &got) == nullptr);
  return got;
}

/// The ring is the process' own, so each case closes what it opened.
struct OpenRing {
  explicit OpenRing(const ScratchFolder& folder, std::string_view text = "trace") {
    EventRing::instance().open(folder.path().c_str(), levels(text));
  }
  ~OpenRing() { EventRing::instance().reset_after_fork(); }
};

std::string ring_of(const ScratchFolder& folder, pid_t pid = getpid()) {
  return folder / ("events." + std::to_string(pid));
}

std::vector<EventSeen> read_all(EventReader& reader, bool is_last = true) {
  std::vector<EventSeen> all;
  reader.read([&](const EventSeen& event) { all.push_back(event); }, is_last);
  return all;
}

/// The ring as its file has it, to look into and to break.
EventRingLayout* map_ring(const std::string& path) {
  const int fd = open(path.c_str(), O_RDWR);
  REQUIRE(fd >= 0);
  void* const got = mmap(nullptr, sizeof(EventRingLayout), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  REQUIRE(got != MAP_FAILED);
  return static_cast<EventRingLayout*>(got);
}

TEST_CASE("log levels: a level for all, then exceptions; anything else is refused") {
  const LogLevels got = levels("warn,swap=debug,run=off");
  CHECK(got.of[static_cast<std::size_t>(Subsystem::memory)] == EventLevel::kWarn);
  CHECK(got.of[static_cast<std::size_t>(Subsystem::swap)] == EventLevel::kDebug);
  CHECK(got.of[static_cast<std::size_t>(Subsystem::run)] == EventLevel::kOff);
  CHECK(levels("swap=info").of[static_cast<std::size_t>(Subsystem::run)] == EventLevel::kOff);
  LogLevels kept = got;
  for (const char* bad :
       {"", "loud", "warn,", "warn,debug", "warn,swop=debug", "swap=", "=debug", "Warn", "warn swap=debug"}) {
    INFO(bad);
    CHECK(parse_log_levels(bad, &kept) != nullptr);
  }
  CHECK(std::memcmp(&kept, &got, sizeof got) == 0);
}

TEST_CASE("events: each is one line of JSON with its fields") {
  ScratchFolder folder;
  const OpenRing open(folder);
  emit<Ev::process_start>(7);
  emit<Ev::mode_change>(2);
  emit<Ev::budget>(MiB(16), GiB(1), Bytes(), std::uint64_t{0});
  emit<Ev::block_out>(0x7f0000200000, Bytes(5));
  emit<Ev::wait>(Nanos(1500));
  emit<Ev::warning>(Msg::TP2003, "a \"text\"\n");
  auto reader = EventReader::open(ring_of(folder));
  REQUIRE(reader);
  std::string tid = ",\"tid\":" + std::to_string(gettid());
  std::vector<std::string> lines;
  for (const EventSeen& event : read_all(*reader)) {
    CHECK(event.time_ns >= 0);
    std::string line = tools::event_json(event);
    lines.push_back(line.substr(line.find(",\"lvl\"")));
  }
  CHECK(lines ==
        std::vector<std::string>{
            ",\"lvl\":\"I\",\"sub\":\"run\",\"ev\":\"process_start\"" + tid + ",\"parent\":7}",
            ",\"lvl\":\"I\",\"sub\":\"run\",\"ev\":\"mode_change\"" + tid + ",\"to\":\"passthrough\"}",
            ",\"lvl\":\"I\",\"sub\":\"memory\",\"ev\":\"budget\"" + tid +
                ",\"capacity_bytes\":16777216,\"device_bytes\":1073741824,\"before_bytes\":0,\"cause\":"
                "\"start\"}",
            ",\"lvl\":\"D\",\"sub\":\"swap\",\"ev\":\"block_out\"" + tid +
                ",\"block\":\"0x7f0000200000\",\"bytes\":5}",
            ",\"lvl\":\"D\",\"sub\":\"swap\",\"ev\":\"wait\"" + tid + ",\"wait_ns\":1500}",
            ",\"lvl\":\"W\",\"sub\":\"message\",\"ev\":\"warning\"" + tid +
                ",\"code\":\"TP2003\",\"text\":\"a \\\"text\\\"\\u000a\"}"});
  CHECK(reader->source().pid == getpid());
  CHECK_FALSE(reader->source().arguments.empty());
  CHECK(reader->lost() == 0);
}

TEST_CASE("events: nothing is recorded below the level, without a folder, or with all levels off") {
  ScratchFolder folder;
  {
    const OpenRing open(folder, "off");
    CHECK_FALSE(EventRing::instance().is_open());
    emit<Ev::budget>(Bytes(1), Bytes(2), Bytes(), std::uint64_t{0});
  }
  CHECK(names_in(folder.path()).empty());
  EventRing::instance().open("", levels("trace"));
  EventRing::instance().open(nullptr, levels("trace"));
  EventRing::instance().open("/no/such/folder", levels("trace"));
  CHECK_FALSE(EventRing::instance().is_open());
  const OpenRing open(folder, "warn,swap=debug");
  emit<Ev::budget>(Bytes(1), Bytes(2), Bytes(), std::uint64_t{0});
  emit<Ev::wait>(Nanos(1));
  auto reader = EventReader::open(ring_of(folder));
  REQUIRE(reader);
  const auto all = read_all(*reader);
  REQUIRE(all.size() == 1);
  CHECK(std::string(all[0].row->name) == "wait");
}

TEST_CASE("events: a message goes into the ring, also when it is no longer printed") {
  ScratchFolder folder;
  const OpenRing open(folder);
  open_messages(true);  // quiet: a warning is not printed at all
  errno = 5;
  for (int i = 0; i < 7; ++i) report<Msg::TP2003>("3s");
  CHECK(errno == 5);
  auto reader = EventReader::open(ring_of(folder));
  REQUIRE(reader);
  const auto all = read_all(*reader);
  REQUIRE(all.size() == 7);
  CHECK(all[6].text.find("a launch has waited 3s") == 0);
}

TEST_CASE("events: text that is too long is cut") {
  ScratchFolder folder;
  const OpenRing open(folder);
  emit<Ev::error>(Msg::TP2001, std::string(1000, 'x').c_str());
  auto reader = EventReader::open(ring_of(folder));
  REQUIRE(reader);
  CHECK(read_all(*reader).at(0).text == std::string(kEventTextBytes, 'x'));
}

TEST_CASE("events: those that were overwritten before they were read are counted") {
  ScratchFolder folder;
  const OpenRing open(folder);
  auto reader = EventReader::open(ring_of(folder));
  REQUIRE(reader);
  for (std::uint64_t i = 0; i < 5000; ++i) emit<Ev::block_in>(i, Bytes(i));
  const auto all = read_all(*reader);
  REQUIRE(all.size() == kEventRecordCount);
  for (std::size_t i = 0; i < all.size(); ++i) REQUIRE(all[i].values[0] == 5000 - kEventRecordCount + i);
  CHECK(reader->lost() == 5000 - kEventRecordCount);
  emit<Ev::block_in>(1, Bytes(1));
  CHECK(read_all(*reader).size() == 1);
  CHECK(reader->lost() == 5000 - kEventRecordCount);
}

TEST_CASE("events: a writer that was stopped in the middle costs its event and no other") {
  ScratchFolder folder;
  const OpenRing open(folder);
  EventRingLayout* const ring = map_ring(ring_of(folder));
  emit<Ev::wait>(Nanos(0));
  ring->next.fetch_add(1);
  ring->records[1].state.store(3);  // the event with the number 1, half written
  emit<Ev::wait>(Nanos(2));
  auto reader = EventReader::open(ring_of(folder));
  REQUIRE(reader);
  CHECK(read_all(*reader, false).size() == 1);  // what comes behind waits for it once
  const auto rest = read_all(*reader, false);
  REQUIRE(rest.size() == 1);
  CHECK(rest[0].values[0] == 2);
  CHECK(reader->lost() == 1);
  // A round later its place is still taken: the event that would go there is lost, and is counted by its
  // writer.
  while (ring->next.load() % kEventRecordCount != 1) emit<Ev::wait>(Nanos(3));
  CHECK(ring->lost.load() == 0);
  emit<Ev::wait>(Nanos(4));
  CHECK(ring->lost.load() == 1);
  emit<Ev::wait>(Nanos(5));
  const auto last = read_all(*reader);
  CHECK(last.back().values[0] == 5);
  munmap(ring, sizeof *ring);
}

TEST_CASE("events: a reader refuses what is no ring of its own version") {
  ScratchFolder folder;
  { const OpenRing open(folder); }
  const std::string path = ring_of(folder);
  CHECK(EventReader::open(path));
  EventRingLayout* const ring = map_ring(path);
  const auto refused_with = [&](auto& field, auto value) {
    const auto before = static_cast<decltype(value)>(field);
    field = value;
    CHECK_FALSE(EventReader::open(path));
    field = before;
    CHECK(EventReader::open(path));
  };
  refused_with(ring->magic, std::uint64_t{0});
  refused_with(ring->version, kEventRingVersion + 1);
  refused_with(ring->record_count, std::uint32_t{7});
  refused_with(ring->table_hash, std::uint64_t{7});
  // What a broken process may have left: never read beyond the record.
  emit<Ev::wait>(Nanos(1));
  ring->next.store(2);
  ring->argument_bytes = 1'000'000;
  const auto put = [&](std::size_t at, std::uint16_t event, std::uint16_t text_bytes) {
    EventBody body{};
    body.event = event;
    body.values[0] = 99999;
    ring->records[at].store(body);
    const std::uint64_t second = std::uint64_t{event} << 32 | std::uint64_t{text_bytes} << 48;
    ring->records[at].words[1].store(second);
    ring->records[at].state.store(2 * at + 2);
  };
  put(0, 999, 0);
  put(1, static_cast<std::uint16_t>(Ev::error), 65535);
  auto reader = EventReader::open(path);
  REQUIRE(reader);
  const auto all = read_all(*reader);
  REQUIRE(all.size() == 1);
  CHECK(all[0].text.size() == kEventTextBytes);
  CHECK(tools::event_json(all[0]).find("\"code\":\"\"") != std::string::npos);
  munmap(ring, sizeof *ring);
  test::write_file(folder / "events.1", "short");
  CHECK_FALSE(EventReader::open(folder / "events.1"));
  CHECK_FALSE(EventReader::open(folder.path()));
}

TEST_CASE("events: the child of a fork writes nothing into the ring of its parent, and may have its own") {
  ScratchFolder folder;
  const OpenRing open(folder);
  emit<Ev::wait>(Nanos(1));
  const pid_t child = fork();
  if (child == 0) {
    EventRing::instance().reset_after_fork();
    emit<Ev::wait>(Nanos(2));
    EventRing::instance().open(folder.path().c_str(), LogLevels{{EventLevel::kTrace, EventLevel::kTrace,
                                                                 EventLevel::kTrace, EventLevel::kTrace}});
    emit<Ev::wait>(Nanos(3));
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  auto own = EventReader::open(ring_of(folder));
  auto childs = EventReader::open(ring_of(folder, child));
  REQUIRE(own);
  REQUIRE(childs);
  CHECK(read_all(*own).size() == 1);
  const auto seen = read_all(*childs);
  REQUIRE(seen.size() == 1);
  CHECK(seen[0].values[0] == 3);
}

TEST_CASE("events: a file that is there already is not touched, and one that has no room is not made") {
  ScratchFolder folder;
  { const OpenRing open(folder); }
  {
    const OpenRing open(folder);
    emit<Ev::wait>(Nanos(1));
  }
  auto first = EventReader::open(ring_of(folder));
  auto second = EventReader::open(ring_of(folder) + ".1");
  REQUIRE(first);
  REQUIRE(second);
  CHECK(read_all(*first).empty());
  CHECK(read_all(*second).size() == 1);
  ScratchFolder full;
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{1 << 16, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  {
    const OpenRing open(full);
    CHECK_FALSE(EventRing::instance().is_open());
    emit<Ev::wait>(Nanos(1));
  }
  setrlimit(RLIMIT_FSIZE, &before);
  CHECK(names_in(full.path()).empty());
}

TEST_CASE("events: kill -9 at any point leaves whole events, in order") {
  for (int round = 0; round < 30; ++round) {
    ScratchFolder folder;
    const pid_t child = fork();
    if (child == 0) {
      EventRing::instance().open(folder.path().c_str(), LogLevels{{EventLevel::kTrace, EventLevel::kTrace,
                                                                   EventLevel::kTrace, EventLevel::kTrace}});
      for (std::uint64_t i = 0;; ++i) emit<Ev::block_out>(i, Bytes(~i));
    }
    usleep(static_cast<useconds_t>(500 + 137 * round));
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    auto reader = EventReader::open(ring_of(folder, child));
    if (!reader) continue;  // killed before it was there
    std::uint64_t next = 0;
    for (const EventSeen& event : read_all(*reader)) {
      REQUIRE(event.values[0] == event.number);
      REQUIRE(event.values[1] == ~event.number);
      REQUIRE(event.number >= next);
      next = event.number + 1;
    }
  }
}

}  // namespace
}  // namespace tidepool
