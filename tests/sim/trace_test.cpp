// The recorder in whole programs on the simulated device. What the device did comes from its own report.

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

#include "planner/plan/iteration.h"
#include "planner/plan/trace_reader.h"
#include "tests/process/child_process.h"

namespace tidepool::test {
namespace {

using namespace plan;

/// What one run left.
struct Traced {
  Outcome outcome;
  std::string report;  ///< of the device
  std::string folder;
  TraceInfo info;
  TraceDamage damage;
  IterationVerdict verdict;
  std::uint64_t launches = 0;
  std::uint64_t unnamed_launches = 0;  ///< of kernels without a name before them
  std::map<CopyKind, std::uint64_t> copies;
  std::map<CopyKind, std::uint64_t> copied;        ///< bytes
  std::map<MoveKind, std::uint64_t> moved;         ///< bytes
  std::uint64_t unknown_blocks = 0;                ///< in lists, without an allocation before
  std::uint64_t live = 0;                          ///< allocations less frees
  std::map<std::uint32_t, std::uint64_t> threads;  ///< launches of each
  IterationRecord last_mark;
  std::uint64_t marks = 0;  ///< of the last mark's period
  std::map<std::uint32_t, std::vector<Frame>> stacks;
  std::map<std::uint32_t, std::string> modules;
  std::uint64_t allocations_with_stack = 0;
  std::uint64_t allocations = 0;
  std::map<std::uint64_t, std::uint64_t> durations;  ///< ns by sequence number of the launch
  std::uint64_t durations_without_launch = 0;
  ProfileRecord profile;
};

class Reading {
 public:
  explicit Reading(Traced& to) : to_(to) {}
  void operator()(const KernelRecord& record) { kernels_[record.kernel] = record.name; }
  void operator()(const LaunchRecord& record) {
    ++to_.launches;
    launches_[head.sequence] = true;
    ++to_.threads[head.thread];
    if (kernels_[record.kernel].empty()) ++to_.unnamed_launches;
    check_blocks(record.blocks);
  }
  void operator()(const CopyRecord& record) {
    ++to_.copies[record.kind];
    to_.copied[record.kind] += record.bytes;
    check_blocks(record.blocks);
  }
  void operator()(const AllocationRecord& record) {
    ++to_.live;
    ++to_.allocations;
    if (record.stack != 0 && to_.stacks.contains(record.stack)) ++to_.allocations_with_stack;
    known_.insert({record.block, true});
  }
  void operator()(const FreeRecord&) { --to_.live; }
  void operator()(const MoveRecord& record) { to_.moved[record.kind] += record.bytes; }
  void operator()(const IterationRecord& record) {
    to_.marks = record.period == to_.last_mark.period ? to_.marks + 1 : 1;
    to_.last_mark = record;
  }
  void operator()(const StackRecord& record) {
    to_.stacks[record.stack].assign(record.frames.begin(), record.frames.end());
  }
  void operator()(const ModuleRecord& record) { to_.modules[record.module] = record.path; }
  void operator()(const DurationRecord& record) {
    to_.durations[record.launch] = record.ns;
    if (!launches_.contains(record.launch)) ++to_.durations_without_launch;
  }
  void operator()(const ProfileRecord& record) { to_.profile = record; }
  void operator()(const ThreadRecord&) {}
  void operator()(const DeviceRecord&) {}

  RecordHead head;

 private:
  void check_blocks(std::span<const std::uint32_t> blocks) {
    for (const std::uint32_t block : blocks) to_.unknown_blocks += known_.contains(block) ? 0 : 1;
  }
  Traced& to_;
  std::map<std::uint32_t, std::string> kernels_;
  std::map<std::uint32_t, bool> known_;
  std::map<std::uint64_t, bool> launches_;
};

void read_trace(const std::string& path, Traced& to) {
  const TraceFile file(path);
  REQUIRE(file.error() == 0);
  auto reader = TraceReader::open(file);
  REQUIRE(reader.ok());
  IterationFinder finder;
  Reading reading(to);
  AnyRecord record;
  while (reader->next(reading.head, record)) {
    finder.add(record);
    std::visit(reading, record);
  }
  to.info = reader->info();
  to.damage = reader->damage();
  to.verdict = finder.verdict();
}

struct Setup {
  std::string program = "train_mlp";
  int steps = 8;
  std::string budget = "100%";
  std::string level = "ops";
  std::vector<std::string> simgpu = {};
  std::vector<std::string> options = {};    ///< of tidepool run
  std::vector<std::string> arguments = {};  ///< of the program
};

Traced run_traced(const ScratchFolder& folder, const Setup& setup) {
  Traced traced;
  traced.folder = folder / "run";
  std::vector<std::string> words = {
      built("bin/simgpu"), "--device", "h100", "--memory", "200MiB", "--report", folder / "report.json"};
  words.insert(words.end(), setup.simgpu.begin(), setup.simgpu.end());
  words.insert(words.end(), {"--", built("bin/tidepool"), "run", "--device-budget", setup.budget, "--run-dir",
                             traced.folder, "--trace", setup.level});
  words.insert(words.end(), setup.options.begin(), setup.options.end());
  words.insert(words.end(), {"--", built("bin/" + setup.program), "--steps", std::to_string(setup.steps)});
  words.insert(words.end(), setup.arguments.begin(), setup.arguments.end());
  traced.outcome = run({words, "", {}, false, false});
  std::stringstream text;
  text << std::ifstream(folder / "report.json").rdbuf();
  traced.report = text.str();
  if (std::ifstream(traced.folder + "/trace.tptrace")) read_trace(traced.folder + "/trace.tptrace", traced);
  return traced;
}

std::uint64_t number_in(const std::string& json, const std::string& section, const std::string& key) {
  const std::size_t from = json.find("\"" + section + "\"");
  REQUIRE(from != std::string::npos);
  const std::size_t at = json.find("\"" + key + "\":", from);
  REQUIRE(at != std::string::npos);
  return std::strtoull(json.c_str() + at + key.size() + 3, nullptr, 10);
}

TEST_CASE("recorder: the trace holds what the device did, no more and no less") {
  const ScratchFolder folder;
  const Traced traced = run_traced(folder, {.budget = "40MiB"});
  REQUIRE(traced.outcome.code() == 0);
  CHECK(traced.info.end == TraceEnd::kClosed);
  CHECK(traced.info.dropped == 0);
  CHECK_FALSE(traced.damage.any());
  CHECK(traced.info.program == "train_mlp");
  // Besides the program's kernels there are those that hash for us; each answer is a copy of 16 bytes.
  const std::uint64_t hashes = number_in(traced.report, "operations", "kernels") - traced.launches;
  CHECK(hashes > 0);
  CHECK(traced.unnamed_launches == 0);
  CHECK(traced.unknown_blocks == 0);
  CHECK(traced.live == 0);  // the program frees all it allocated
  auto copied = traced.copied;
  auto moved = traced.moved;
  auto copies = traced.copies;
  CHECK(moved[MoveKind::kOut] > 0);
  constexpr std::uint64_t kHashMemory = 4096;  // zeros, once
  CHECK(copied[CopyKind::kToDevice] + moved[MoveKind::kIn] + kHashMemory ==
        number_in(traced.report, "h2d", "bytes"));
  CHECK(copied[CopyKind::kToHost] + moved[MoveKind::kOut] + 16 * hashes ==
        number_in(traced.report, "d2h", "bytes"));
  CHECK(copies[CopyKind::kMemset] == number_in(traced.report, "memsets", "count"));
  CHECK(copied[CopyKind::kMemset] == number_in(traced.report, "memsets", "bytes"));
  CHECK(copies[CopyKind::kOther] == 0);
}

TEST_CASE("recorder: threads that launch at the same time are recorded as they were ordered") {
  const ScratchFolder folder;
  const Traced traced = run_traced(
      folder, {.steps = 4, .budget = "60MiB", .options = {"--clean=off"}, .arguments = {"--threads", "3"}});
  REQUIRE(traced.outcome.code() == 0);
  CHECK_FALSE(traced.damage.any());
  CHECK(traced.info.dropped == 0);
  CHECK(traced.threads.size() >= 3);
  CHECK(traced.launches == number_in(traced.report, "operations", "kernels"));
  CHECK(traced.unnamed_launches == 0);
  CHECK(traced.unknown_blocks == 0);  // no block is used before the record of its allocation
  CHECK(traced.live == 0);
}

TEST_CASE("recorder: the command's report tells what was recorded") {
  const ScratchFolder folder;
  const Traced traced = run_traced(folder, {.budget = "40MiB", .level = "stacks"});
  REQUIRE(traced.outcome.code() == 0);
  const Outcome report = run({{built("bin/tidepool"), "report", traced.folder}, "", {}, false, false});
  INFO(report.out);
  REQUIRE(report.code() == 0);
  CHECK(report.out.find("  steps     " + describe(traced.verdict) + "\n") != std::string::npos);
  CHECK(report.out.find(" operations in ") != std::string::npos);
  CHECK(report.out.find("; allocated at train_mlp+0x") != std::string::npos);
  const Outcome json =
      run({{built("bin/tidepool"), "report", "--json", traced.folder}, "", {}, false, false});
  CHECK(json.out.find("\"period\": " + std::to_string(traced.verdict.period) + ",") != std::string::npos);
  CHECK(number_in(json.out, "traces", "launches") == traced.launches);
  CHECK(number_in(json.out, "traces", "blocks_out") == number_in(json.out, "metrics", "swap_out_total"));
  CHECK(number_in(json.out, "traces", "timed_launches") > 0);
  CHECK(number_in(json.out, "top_kernels", "device_ns") > 0);
  CHECK(json.out.find("\"top_kernels\": [{\"name\": \"") != std::string::npos);
  CHECK(number_in(json.out, "top_blocks", "bytes_moved") > 0);
  CHECK(json.out.find("\"allocated_at\": \"train_mlp+0x") != std::string::npos);
}

TEST_CASE("recorder: every process of a run has a trace of its own, and the report tells which") {
  const ScratchFolder folder;
  const std::string job = built("bin/train_mlp") + " --steps 1 > /dev/null";
  const Outcome outcome =
      run({{built("bin/simgpu"), "--", built("bin/tidepool"), "run", "--run-dir", folder / "run", "--trace",
            "ops", "--", "/bin/sh", "-c", job + "; " + job + "; true"},
           "",
           {},
           false,
           false});
  REQUIRE(outcome.code() == 0);
  std::size_t traces = 0;
  for (const std::string& name : names_in(folder / "run")) {
    if (!name.ends_with(".tptrace")) continue;
    ++traces;
    Traced traced;
    read_trace(folder / ("run/" + name), traced);
    INFO(name);
    CHECK(traced.launches > 40);
    CHECK(traced.live == 0);
    CHECK(traced.info.end == TraceEnd::kClosed);
    if (name != "trace.tptrace") CHECK(name == "trace." + std::to_string(traced.info.pid) + ".tptrace");
  }
  CHECK(traces == 2);  // the shell has none
  const Outcome report = run({{built("bin/tidepool"), "report", folder / "run"}, "", {}, false, false});
  std::size_t told = 0;
  for (std::size_t at = 0; (at = report.out.find("\n  trace  ", at)) != std::string::npos; ++at) ++told;
  INFO(report.out);
  CHECK(told == 2);
}

TEST_CASE("recorder: each training job's steps are its iterations, whatever moves") {
  const std::string programs[] = {"train_mlp", "train_cnn", "train_lstm", "train_transformer"};
  for (const std::string& program : programs) {
    for (const std::string budget : {"100%", "45MiB"}) {
      if (budget != "100%" && program != "train_mlp" && program != "train_transformer") continue;
      INFO(program << " in " << budget);
      const ScratchFolder folder;
      constexpr int kSteps = 8;
      const Traced traced = run_traced(folder, {.program = program, .steps = kSteps, .budget = budget});
      REQUIRE(traced.outcome.code() == 0);
      INFO(describe(traced.verdict));
      REQUIRE(traced.verdict.is_periodic());
      CHECK(traced.verdict.confidence() > 0.9);
      CHECK(traced.verdict.iterations >= std::uint64_t{kSteps} - 1);
      CHECK(traced.verdict.iterations <= std::uint64_t{kSteps});
      // The guest saw the same while it ran: its marks are those of the reader's verdict.
      CHECK(traced.last_mark.period == traced.verdict.period);
      CHECK(traced.last_mark.number == traced.verdict.iterations);
      CHECK(traced.marks >= 3);
    }
  }
}

TEST_CASE("recorder: the kernels of two iterations are timed, on the device's clock") {
  for (const std::string iterations : {"0", "1", "2", "5"}) {
    INFO(iterations << " iterations");
    const ScratchFolder folder;
    const Traced traced = run_traced(
        folder,
        {.steps = 12, .options = {"--profile-iterations", iterations}, .arguments = {"--streams", "1"}});
    REQUIRE(traced.outcome.code() == 0);
    const std::uint64_t in_one = traced.launches / 12;
    CHECK(traced.durations.size() == in_one * std::stoul(iterations));
    CHECK(traced.durations_without_launch == 0);
    CHECK(traced.profile.timed == traced.durations.size());
    CHECK(traced.profile.skipped == 0);
    CHECK((traced.profile.host_ns > 0) == (iterations != "0"));
    std::uint64_t sum = 0;
    for (const auto& [launch, ns] : traced.durations) sum += ns;
    // Steps are alike, so as many of them take so much of all that the device computed. On top comes what the
    // host takes from the event to the launch, where the stream has nothing else to do.
    const std::uint64_t computed =
        number_in(traced.report, "busy_ns", "compute") * std::stoul(iterations) / 12;
    CHECK(sum >= computed);
    // A launch (3.5 us of the host on this device), and the call between that ends the relaxed capture mode.
    CHECK(sum <= computed + traced.durations.size() * 4000);
  }
}

TEST_CASE("recorder: kernels that cannot be timed are counted, and run") {
  const ScratchFolder plain_folder;
  const ScratchFolder folder;
  const Traced plain = run_traced(plain_folder, {});
  write_file(folder / "faults", "cuEventElapsedTime every=3 return=999\n");
  const Traced traced = run_traced(folder, {.simgpu = {"--faults", folder / "faults"}});
  REQUIRE(traced.outcome.code() == 0);
  CHECK(traced.outcome.out == plain.outcome.out);
  CHECK(traced.durations.size() == traced.profile.timed);
  CHECK(traced.profile.timed + traced.profile.skipped == plain.profile.timed);
  CHECK(traced.profile.skipped == plain.profile.timed / 3);
}

TEST_CASE("recorder: a killed process leaves all that it did") {
  const ScratchFolder folder;
  write_file(folder / "faults", "process kill at=cuLaunchKernel:150\n");
  const Traced traced = run_traced(folder, {.simgpu = {"--faults", folder / "faults"}});
  CHECK(traced.outcome.code() == -9);
  CHECK(traced.launches == 149);
  CHECK(traced.info.end == TraceEnd::kRunning);
  CHECK(traced.damage.damaged_chunks == 0);
  CHECK(traced.damage.missing_bytes == 0);
}

TEST_CASE("recorder: the program prints the same with call stacks as without a trace") {
  const ScratchFolder plain_folder;
  const ScratchFolder folder;
  const Traced plain = run_traced(plain_folder, {.budget = "40MiB", .level = "off"});
  const Traced traced = run_traced(folder, {.budget = "40MiB", .level = "stacks"});
  REQUIRE(plain.outcome.code() == 0);
  for (const std::string& name : names_in(plain.folder)) CHECK_FALSE(name.ends_with(".tptrace"));
  CHECK(plain.info.pid == 0);
  REQUIRE(traced.outcome.code() == 0);
  CHECK(traced.outcome.out == plain.outcome.out);
  CHECK(traced.allocations > 0);
  CHECK(traced.allocations_with_stack == traced.allocations);
  CHECK(traced.stacks.size() < traced.allocations);
  // Every stack leads into the program, and none begins in the library itself.
  for (const auto& [id, frames] : traced.stacks) {
    INFO("stack " << id);
    REQUIRE_FALSE(frames.empty());
    bool in_program = false;
    for (const Frame& frame : frames)
      in_program = in_program || traced.modules.at(frame.module).ends_with("train_mlp");
    CHECK(in_program);
    CHECK_FALSE(traced.modules.at(frames.front().module).ends_with("libtidepool.so"));
  }
}

TEST_CASE("recorder: a trace that is full says so, and the program goes on") {
  const ScratchFolder folder;
  const Traced traced =
      run_traced(folder, {.steps = 800, .options = {"--trace-max", "1MiB"}, .arguments = {"--width", "16"}});
  REQUIRE(traced.outcome.code() == 0);
  CHECK(traced.info.end == TraceEnd::kFull);
  CHECK(traced.info.dropped <= 2);  // nothing is offered to it any more
  CHECK(traced.outcome.err.find("TP4002 the trace has reached 1.0 MiB.") != std::string::npos);
  CHECK(traced.verdict.is_periodic());
}

TEST_CASE("recorder: without a folder it says what is missing") {
  const Outcome outcome = run(
      {{built("bin/simgpu"), "--", built("bin/train_mlp"), "--steps", "1"},
       "",
       {{"LD_PRELOAD", preload_first() + (preload_first().empty() ? "" : ":") + built("lib/libtidepool.so")},
        {"TIDEPOOL_TRACE", "ops"}},
       false,
       false});
  CHECK(outcome.code() == 0);
  CHECK(outcome.err.find("TP4001 no trace is written: TIDEPOOL_RUN_DIR names no folder for it.") !=
        std::string::npos);
}

}  // namespace
}  // namespace tidepool::test
