// Threads that record at once, and a reader in another process.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "allocator/support/event_ring.h"
#include "tests/process/child_process.h"
#include "tools/tidepool/event_reader.h"

namespace tidepool {
namespace {

using test::ScratchFolder;
using tools::EventReader;
using tools::EventSeen;

TEST_CASE("events: many threads write while another process reads, and nothing is torn") {
  ScratchFolder folder;
  int go[2];
  REQUIRE(pipe(go) == 0);
  LogLevels levels{};
  REQUIRE(parse_log_levels("trace", &levels) == nullptr);
  EventRing::instance().open(folder.path().c_str(), levels);
  const pid_t reader_pid = fork();
  if (reader_pid == 0) {
    close(go[1]);
    auto reader = EventReader::open(folder / ("events." + std::to_string(getppid())));
    if (!reader) _exit(2);
    int bad = 0;
    std::uint64_t seen = 0;
    const auto take = [&](const EventSeen& event) {
      ++seen;
      if (event.values[1] != ~event.values[0]) bad = 1;
    };
    fcntl(go[0], F_SETFL, O_NONBLOCK);
    char end = 0;
    while (read(go[0], &end, 1) != 0) reader->read(take, false);
    reader->read(take, true);
    // Each event was seen or is counted.
    if (seen + reader->lost() != 4 * 20000) bad = 3;
    _exit(bad);
  }
  close(go[0]);
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (std::uint64_t i = 0; i < 20000; ++i) emit<Ev::block_out>(t << 32 | i, Bytes(~(t << 32 | i)));
    });
  }
  for (std::thread& thread : threads) thread.join();
  close(go[1]);
  int status = 0;
  waitpid(reader_pid, &status, 0);
  CHECK(WEXITSTATUS(status) == 0);
  EventRing::instance().reset_after_fork();
}

}  // namespace
}  // namespace tidepool
