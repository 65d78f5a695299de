#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <mutex>
#include <thread>

#include "planner/plan/trace_writer.h"
#include "tests/process/child_process.h"
#include "tests/unit/trace_samples.h"

namespace tidepool::plan {
namespace {

using test::ReadTrace;
using test::ScratchFolder;
using test::trace_in;

/// True if each thread (kernel) counted (shared memory) up from 0 without a hole. `next`: how far.
bool counts_up(const std::vector<LaunchRecord>& launches, std::map<std::uint32_t, std::uint32_t>& next) {
  return std::all_of(launches.begin(), launches.end(), [&](const LaunchRecord& launch) {
    return launch.shared_bytes == next[launch.kernel]++;
  });
}

/// Kernel and shared memory of every launch, in order.
std::vector<LaunchRecord> launches_of(const std::string& path, TraceDamage* damage,
                                      TraceInfo* info = nullptr) {
  const TraceFile file(path);
  auto reader = TraceReader::open(file);
  REQUIRE(reader.ok());
  std::vector<LaunchRecord> launches;
  RecordHead head;
  AnyRecord record;
  while (reader->next(head, record)) {
    if (const auto* launch = std::get_if<LaunchRecord>(&record)) launches.push_back(*launch);
  }
  *damage = reader->damage();
  if (info != nullptr) *info = reader->info();
  return launches;
}

TEST_CASE("trace: records of many threads come back in the order in which they were written") {
  constexpr unsigned kThreads = 4;
  constexpr std::uint32_t kRecords = 20'000;
  const ScratchFolder folder;
  TraceWriter writer;
  REQUIRE(writer.open(folder.path().c_str(), MiB(64)) == 0);
  std::mutex lock;
  std::uint32_t ordered = 0;
  std::vector<std::thread> threads;
  for (std::uint32_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint32_t i = 0; i < kRecords; ++i) {
        LaunchRecord launch;
        launch.kernel = t;
        launch.shared_bytes = i;
        (void)writer.write(launch);
        if (i % 16 != 0) continue;
        const std::lock_guard guard(lock);
        launch.kernel = 1000;
        launch.shared_bytes = ordered++;
        (void)writer.write(launch);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  writer.close();
  TraceDamage damage;
  std::map<std::uint32_t, std::uint32_t> next;
  REQUIRE(counts_up(launches_of(trace_in(folder.path()), &damage), next));
  CHECK_FALSE(damage.any());
  CHECK(next[1000] == ordered);
  for (std::uint32_t t = 0; t < kThreads; ++t) CHECK(next[t] == kRecords);
}

TEST_CASE("trace: threads that come and go share the chunks that they leave") {
  const ScratchFolder folder;
  TraceWriter writer;
  REQUIRE(writer.open(folder.path().c_str(), MiB(1)) == 0);
  constexpr unsigned kRounds = 500;
  std::vector<std::uint32_t> ids;
  for (unsigned i = 0; i < kRounds; ++i) {
    std::thread([&] {
      ids.push_back(static_cast<std::uint32_t>(gettid()));
      (void)writer.write(MoveRecord{i, MoveKind::kOut, MoveCause::kDemand, 0});
    }).join();
  }
  CHECK(writer.is_on());
  writer.close();
  const TraceFile file(trace_in(folder.path()));
  auto reader = TraceReader::open(file);
  REQUIRE(reader.ok());
  RecordHead head;
  AnyRecord record;
  unsigned seen = 0;
  while (reader->next(head, record)) {
    const auto* move = std::get_if<MoveRecord>(&record);
    if (move == nullptr) continue;
    REQUIRE(move->block == seen);
    REQUIRE(head.thread == ids[seen++]);
  }
  CHECK(seen == kRounds);
}

TEST_CASE("trace: a full trace is whole, also when many threads fill it") {
  const ScratchFolder folder;
  TraceWriter writer;
  REQUIRE(writer.open(folder.path().c_str(), MiB(6)) == 0);
  std::atomic<std::uint64_t> refused{0};
  std::vector<std::thread> threads;
  for (std::uint32_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::uint32_t written = 0;
      while (writer.write(LaunchRecord{0, t, {}, written, false, {}})) ++written;
      refused += 1;
    });
  }
  for (std::thread& thread : threads) thread.join();
  TraceDamage damage;
  TraceInfo info;
  std::map<std::uint32_t, std::uint32_t> next;
  REQUIRE(counts_up(launches_of(trace_in(folder.path()), &damage, &info), next));
  CHECK_FALSE(damage.any());
  CHECK(info.end == TraceEnd::kFull);
  CHECK(info.dropped == refused);
}

TEST_CASE("trace: a process killed at any moment leaves whole records up to there") {
  const int rounds = test::sanitized() ? 10 : 50;
  std::mt19937_64 random(20261128);
  for (int round = 0; round < rounds; ++round) {
    const auto wait_us = static_cast<useconds_t>(random() % 20'000);
    INFO("round " << round << ", killed after " << wait_us << " us");
    const ScratchFolder folder;
    int started[2];
    REQUIRE(pipe(started) == 0);
    const pid_t pid = fork();
    if (pid == 0) {
      TraceWriter writer;
      if (writer.open(folder.path().c_str(), MiB(64)) != 0) _exit(1);
      std::vector<std::thread> threads;
      for (std::uint32_t t = 0; t < 3; ++t) {
        threads.emplace_back([&, t] {
          const std::uint32_t blocks[] = {1, 2, 3, 1000, t};
          for (std::uint32_t i = 0;; ++i) (void)writer.write(LaunchRecord{t, t, {}, i, false, blocks});
        });
      }
      (void)!write(started[1], "x", 1);
      for (std::thread& thread : threads) thread.join();
      _exit(2);
    }
    char byte = 0;
    REQUIRE(read(started[0], &byte, 1) == 1);
    usleep(wait_us);
    kill(pid, SIGKILL);
    int status = 0;
    REQUIRE(waitpid(pid, &status, 0) == pid);
    REQUIRE(WIFSIGNALED(status));
    close(started[0]);
    close(started[1]);
    TraceDamage damage;
    TraceInfo info;
    std::map<std::uint32_t, std::uint32_t> next;
    REQUIRE(counts_up(launches_of(trace_in(folder.path()), &damage, &info), next));
    CHECK(damage.damaged_chunks == 0);
    CHECK(info.end == (info.dropped > 0 ? TraceEnd::kFull : TraceEnd::kRunning));
  }
}

}  // namespace
}  // namespace tidepool::plan
