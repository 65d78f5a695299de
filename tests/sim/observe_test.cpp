// TIDEPOOL_MODE=observe: the program runs as without Tidepool, and its trace holds what the trace of a
// managed run with room for everything holds.

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <map>
#include <sstream>

#include "planner/plan/trace_reader.h"
#include "tests/process/child_process.h"
#include "tests/sim/device_run.h"

namespace tidepool::test {
namespace {

using namespace plan;

/// What a program did, told so that two runs compare: allocations by their number, streams by the order in
/// which they came, and of memory that small allocations share in a managed run only that it is such.
class Told {
 public:
  /// `like`: a run of the same program that was managed, which says what is shared.
  Told(const std::string& path, const Told* like) : like_(like) {
    const TraceFile file(path);
    REQUIRE(file.error() == 0);
    auto reader = TraceReader::open(file);
    REQUIRE(reader.ok());
    RecordHead head;
    AnyRecord record;
    while (reader->next(head, record)) std::visit(*this, record);
    CHECK_FALSE(reader->damage().any());
  }

  void operator()(const DeviceRecord& record) { is_observed = record.is_observed; }
  void operator()(const KernelRecord& record) { kernels_[record.kernel] = record.name; }
  void operator()(const AllocationRecord& record) {
    if (record.api == MemoryApi::kMapping) return;
    const std::size_t number = is_shared_.size();
    is_shared_.push_back((record.flags & AllocationRecord::kShared) != 0);
    by_address_[record.address] = number;
    by_block_[record.block] = number;
    std::ostringstream line;
    line << "allocation " << record.bytes << " api " << static_cast<int>(record.api) << " stream "
         << stream(record.stream);
    lines.push_back(line.str());
  }
  void operator()(const FreeRecord& record) {
    const auto freed = by_address_.find(record.address);
    if (freed == by_address_.end()) return;
    std::ostringstream line;
    line << "free " << freed->second << " of " << record.bytes << " api " << static_cast<int>(record.api)
         << " stream " << stream(record.stream);
    lines.push_back(line.str());
    if (!is_shared(freed->second)) by_block_.erase(record.block);
    by_address_.erase(freed);
  }
  void operator()(const LaunchRecord& record) {
    std::ostringstream line;
    line << "launch " << kernels_[record.kernel] << " grid";
    for (const std::uint32_t n : record.grid.blocks) line << " " << n;
    for (const std::uint32_t n : record.grid.threads) line << " " << n;
    line << " shared " << record.shared_bytes << " stream " << stream(record.stream);
    lines.push_back(line.str() + blocks(record.any_block, record.blocks));
    ++launches;
    if (record.any_block) ++any_launches;
  }
  void operator()(const CopyRecord& record) {
    std::ostringstream line;
    line << "copy " << static_cast<int>(record.kind) << " of " << record.bytes << " stream "
         << stream(record.stream);
    lines.push_back(line.str() + blocks(record.any_block, record.blocks));
  }
  void operator()(const DurationRecord&) { ++durations; }
  void operator()(const MoveRecord&) { ++moves; }
  template <class Other>
  void operator()(const Other&) {}

  std::vector<std::string> lines;
  bool is_observed = false;
  std::size_t launches = 0;
  std::size_t any_launches = 0;  ///< that may touch anything
  std::size_t durations = 0;
  std::size_t moves = 0;

 private:
  [[nodiscard]] bool is_shared(std::size_t number) const {
    const std::vector<bool>& told = like_ != nullptr ? like_->is_shared_ : is_shared_;
    return number < told.size() && told[number];
  }
  std::size_t stream(std::uint64_t handle) { return streams_.emplace(handle, streams_.size()).first->second; }
  std::string blocks(bool any, std::span<const std::uint32_t> ids) {
    if (any) return " blocks any";
    std::vector<std::string> names;
    for (const std::uint32_t id : ids) {
      const auto known = by_block_.find(id);
      if (known == by_block_.end()) continue;  // a stale word that names what was freed
      names.push_back(is_shared(known->second) ? "shared" : std::to_string(known->second));
    }
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
    std::string text = " blocks";
    for (const std::string& name : names) text += " " + name;
    return text;
  }

  const Told* like_;
  std::vector<bool> is_shared_;
  std::map<std::uint64_t, std::size_t> by_address_;
  std::map<std::uint32_t, std::size_t> by_block_;
  std::map<std::uint32_t, std::string> kernels_;
  std::map<std::uint64_t, std::size_t> streams_;
};

/// Under `tidepool run` with these options; without Tidepool if there are none.
DeviceRun on_device(const ScratchFolder& folder, const std::vector<std::string>& program,
                    const std::vector<std::string>& options) {
  std::vector<std::string> words = {built("bin/simgpu"),    "--device", "h100", "--report",
                                    folder / "report.json", "--"};
  if (!options.empty()) {
    words.insert(words.end(), {built("bin/tidepool"), "run"});
    words.insert(words.end(), options.begin(), options.end());
    words.push_back("--");
  }
  words.insert(words.end(), program.begin(), program.end());
  DeviceRun result;
  result.outcome = run({words, "", {}, false, false});
  std::stringstream text;
  text << std::ifstream(folder / "report.json").rdbuf();
  result.report = text.str();
  return result;
}

void expect_same_trace(const std::vector<std::string>& program) {
  const ScratchFolder folder;
  const DeviceRun plain = on_device(folder, program, {});
  REQUIRE(plain.outcome.code() == 0);
  const DeviceRun managed = on_device(folder, program, {"--trace", "ops", "--run-dir", folder / "managed"});
  INFO(managed.outcome.err);
  REQUIRE(managed.outcome.code() == 0);
  const DeviceRun observed =
      on_device(folder, program, {"--mode", "observe", "--trace", "ops", "--run-dir", folder / "observed"});
  INFO(observed.outcome.err);
  REQUIRE(observed.outcome.code() == 0);
  CHECK(observed.outcome.out == plain.outcome.out);
  CHECK(observed.outcome.err.find(" TP") == std::string::npos);
  // The driver's own memory, as without Tidepool.
  CHECK(observed.number("memory", "physical_peak_bytes") == plain.number("memory", "physical_peak_bytes"));
  CHECK(observed.number("d2h", "bytes") == plain.number("d2h", "bytes"));

  const Told by_managed(folder / "managed/trace.tptrace", nullptr);
  const Told by_observed(folder / "observed/trace.tptrace", &by_managed);
  CHECK_FALSE(by_managed.is_observed);
  CHECK(by_observed.is_observed);
  CHECK(by_observed.moves == 0);
  CHECK(by_managed.launches > 0);
  REQUIRE(by_observed.lines.size() == by_managed.lines.size());
  const auto [one, other] =
      std::mismatch(by_observed.lines.begin(), by_observed.lines.end(), by_managed.lines.begin());
  if (one != by_observed.lines.end()) {
    INFO("operation " << one - by_observed.lines.begin() << "\n observed: " << *one
                      << "\n managed:  " << *other);
    CHECK(false);
  }
}

}  // namespace

// All of them in the nightly sweep.
TEST_CASE("observe: the trace of a perceptron's training holds what that of a managed run does") {
  for (const std::string alloc : {"plain", "async", "pool"}) {
    INFO(alloc);
    expect_same_trace({built("bin/train_mlp"), "--steps", "1", "--alloc", alloc});
  }
}

TEST_CASE("observe: the traces of the other jobs hold what those of managed runs do", "[plain]") {
  const std::pair<const char*, const char*> jobs[] = {
      {"train_cnn", "plain"}, {"train_lstm", "async"}, {"train_transformer", "pool"}};
  for (const auto& [job, usual] : jobs) {
    for (const std::string alloc : {"plain", "async", "pool"}) {
      if (alloc != usual && !is_sweep()) continue;
      INFO(job << " " << alloc);
      expect_same_trace({built(std::string("bin/") + job), "--steps", "1", "--alloc", alloc});
    }
  }
}

TEST_CASE("observe: the trace of random programs holds what that of managed runs does") {
  // Not churn, renew nor retable: which handles and addresses come again is nobody's promise.
  for (int seed = 1; seed <= (is_sweep() ? 50 : 4); ++seed) {
    INFO("storm --seed " << seed);
    expect_same_trace({built("tests/storm"), "--seed", std::to_string(seed), "--threads", "1", "--features",
                       "all,-peer,-churn,-renew,-retable"});
  }
}

TEST_CASE("observe: kernels are timed, and the report tells what the program needed") {
  const ScratchFolder folder;
  const DeviceRun got = on_device(folder, {built("bin/train_mlp"), "--steps", "8"},
                                  {"--mode", "observe", "--trace", "ops", "--run-dir", folder / "run"});
  REQUIRE(got.outcome.code() == 0);
  const Told told(folder / "run/trace.tptrace", nullptr);
  CHECK(told.durations > told.launches / 8);
  const Outcome report = run({{built("bin/tidepool"), "report", folder / "run"}, "", {}, false, false});
  INFO(report.out);
  CHECK(report.code() == 0);
  CHECK(report.out.find("only watched: nothing moved") != std::string::npos);
  CHECK(report.out.find("  steps     ") != std::string::npos);
  CHECK(report.out.find("no period") == std::string::npos);
}

// A driver of before CUDA 12.4, or one without virtual memory: the device's own, in which one name is
// unknown.
TEST_CASE("observe: with a driver that lacks an entry the program is watched, and one line says so",
          "[plain]") {
  const DeviceRun plain = on_device(ScratchFolder(), {built("bin/train_mlp"), "--steps", "1"}, {});
  for (const std::string missing : {"cuFuncGetParamInfo", "cuMemAddressReserve"}) {
    const ScratchFolder folder;
    std::stringstream bytes;
    bytes << std::ifstream(built("lib/simgpu/libcuda.so.1"), std::ios::binary).rdbuf();
    std::string driver = bytes.str();
    std::size_t found = 0;
    for (std::size_t at = 0; (at = driver.find(missing, at)) != std::string::npos; ++at, ++found)
      driver[at] = 'x';
    REQUIRE(found > 0);
    std::ofstream(folder / "libcuda.so.1", std::ios::binary) << driver;
    const auto watched = [&](std::vector<std::string> options) {
      std::vector<std::string> words = {"/usr/bin/env",
                                        "LD_LIBRARY_PATH=" + (folder / "") + ":" + built("lib/simgpu"),
                                        built("bin/tidepool"), "run"};
      words.insert(words.end(), options.begin(), options.end());
      words.insert(words.end(), {"--trace", "ops", "--run-dir", folder / "run", "--", built("bin/train_mlp"),
                                 "--steps", "1"});
      return on_device(folder, words, {});
    };
    INFO(missing);
    const DeviceRun strict = watched({"--strict"});
    CHECK(strict.outcome.code() == 0);
    CHECK(strict.outcome.out == plain.outcome.out);
    CHECK(strict.outcome.err.find("TP1002 the driver has no entry " + missing +
                                  ". The program runs without Tidepool. Install") != std::string::npos);
    CHECK_FALSE(std::ifstream(folder / "run/trace.tptrace"));
    const DeviceRun got = watched({});
    INFO(got.outcome.err);
    CHECK(got.outcome.code() == 0);
    CHECK(got.outcome.out == plain.outcome.out);
    CHECK(got.outcome.err.find("TP1002 the driver has no entry " + missing +
                               ". Its memory is only watched: nothing moves, and no budget holds. Install") !=
          std::string::npos);
    const Told told(folder / "run/trace.tptrace", nullptr);
    CHECK(told.is_observed);
    CHECK(told.launches == got.number("operations", "kernels"));
    const bool is_blind = missing == "cuFuncGetParamInfo";  // then a launch may touch anything
    CHECK((told.any_launches == told.launches) == is_blind);
  }
}

TEST_CASE("observe: a mapping of the program's own is an allocation") {
  const ScratchFolder folder;
  const DeviceRun got = on_device(folder, {built("bin/train_mlp"), "--steps", "1", "--alloc", "vmm"},
                                  {"--mode", "observe", "--trace", "ops", "--run-dir", folder / "run"});
  INFO(got.outcome.err);
  REQUIRE(got.outcome.code() == 0);
  const Outcome report = run({{built("bin/tidepool"), "report", folder / "run"}, "", {}, false, false});
  INFO(report.out);
  CHECK(report.out.find(" allocations, ") != std::string::npos);
  CHECK(report.out.find("needed 0 B") == std::string::npos);
}

}  // namespace tidepool::test
