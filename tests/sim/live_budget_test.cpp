// Budgets that change while a program trains, by the command, from outside. What the device holds is read
// from the simulated device itself while the program runs, never from Tidepool.
#include <signal.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

#include "tests/process/child_process.h"
#include "tools/simgpu/machine/machine_file.h"
#include "tools/tidepool/stats_reader.h"

namespace tidepool::test {
namespace {

namespace fs = std::filesystem;

const std::string kSimgpu = built("bin/simgpu");
const std::string kTidepool = built("bin/tidepool");
constexpr int kSteps = 26;  // two before, then four budgets with one to settle and three to look at

/// A workload and what it prints and needs without Tidepool.
struct Workload {
  std::vector<std::string> words;
  unsigned devices = 1;
  std::string out;
  std::uint64_t peak = 0;
};

/// simgpu's words for so many devices.
std::vector<std::string> simgpu_with(unsigned devices) {
  std::vector<std::string> words = {kSimgpu};
  for (unsigned i = 0; i < devices; ++i) words.insert(words.end(), {"--device", "h100"});
  return words;
}

/// `peak` is the first device's.
Workload measured(std::vector<std::string> words, unsigned devices = 1) {
  const ScratchFolder folder;
  std::vector<std::string> job = simgpu_with(devices);
  job.insert(job.end(), {"--report", folder / "report.json", "--"});
  job.insert(job.end(), words.begin(), words.end());
  const Outcome got = run({job, "", {}, false, false});
  REQUIRE(got.code() == 0);
  std::stringstream report;
  report << std::ifstream(folder / "report.json").rdbuf();
  const std::string key = "\"physical_peak_bytes\":";
  const std::size_t at = report.str().find(key);
  REQUIRE(at != std::string::npos);
  return {words, devices, got.out, std::strtoull(report.str().c_str() + at + key.size(), nullptr, 10)};
}

/// The workload under Tidepool, with the simulated machine's memory open beside it.
class LiveJob {
 public:
  LiveJob(const Workload& workload, std::uint64_t budget)
      : devices_(workload.devices), job_(words(workload, budget)) {
    for (int tries = 0; machine_ == nullptr && tries < 5000; ++tries, usleep(1000)) find_machine();
    REQUIRE(machine_ != nullptr);
  }

  /// Waits until the program has named managed memory so many times; false: it ended before.
  bool wait_for_launches(std::uint64_t launches) {
    while (this->launches() < launches) {
      if (kill(job_.pid(), 0) != 0 || is_zombie()) return false;
      usleep(1000);
    }
    return true;
  }
  [[nodiscard]] std::uint64_t launches() const { return metric(Metric::launches_total); }
  [[nodiscard]] std::uint64_t metric(Metric which) const {
    std::uint64_t sum = 0;
    for (const tools::ProcessStats& process : tools::read_stats_pages(folder_.path()))
      sum += process.get(which);
    return sum;
  }

  [[nodiscard]] Outcome set(const std::string& budget) const {
    return run({{kTidepool, "set", "--device-budget", budget, folder_.path()}, "", {}, false, false});
  }
  /// From here on the device notes a peak of its own.
  void begin_peak() {
    simgpu::Machine& machine = **machine_;
    const std::lock_guard guard(machine.mutex);
    for (unsigned i = 0; i < devices_; ++i)
      machine.memory[i].use.peak.store(machine.memory[i].use.now.load());
  }
  /// The highest of all devices.
  [[nodiscard]] std::uint64_t peak() const {
    std::uint64_t highest = 0;
    for (unsigned i = 0; i < devices_; ++i)
      highest = std::max(highest, (**machine_).memory[i].use.peak.load());
    return highest;
  }

  Outcome finish() { return job_.finish(); }
  [[nodiscard]] pid_t pid() const { return job_.pid(); }
  [[nodiscard]] const std::string& folder() const { return folder_.path(); }

 private:
  [[nodiscard]] Job words(const Workload& workload, std::uint64_t budget) const {
    std::vector<std::string> all = simgpu_with(workload.devices);
    all.insert(all.end(), {"--", kTidepool, "run", "--run-dir", folder_.path(), "--device-budget",
                           std::to_string(budget), "--"});
    all.insert(all.end(), workload.words.begin(), workload.words.end());
    return {all, "", {}, false, false};
  }

  void find_machine() {
    std::error_code error;
    const fs::path fds = "/proc/" + std::to_string(job_.pid()) + "/fd";
    for (fs::directory_iterator entry(fds, error), end; !error && entry != end; entry.increment(error)) {
      const fs::path target = fs::read_symlink(entry->path(), error);
      if (!error && target.string().find("simgpu-machine") != std::string::npos)
        machine_ = simgpu::MachineFile::open(entry->path().string());
    }
  }

  [[nodiscard]] bool is_zombie() const {
    std::ifstream stat("/proc/" + std::to_string(job_.pid()) + "/stat");
    std::string text;
    std::getline(stat, text);
    return text.find(") Z") != std::string::npos;
  }

  const unsigned devices_;
  const ScratchFolder folder_;
  Running job_;
  std::unique_ptr<simgpu::MachineFile> machine_;
};

/// How often one iteration names managed memory, and how often that was before the third one.
struct Pace {
  std::uint64_t per_step;
  std::uint64_t first;
};
Pace pace_of(std::vector<std::string> words, unsigned devices = 1) {
  const auto launches = [&](const std::string& steps) {
    std::vector<std::string> all = words;
    all.insert(all.end(), {"--steps", steps});
    LiveJob job({all, devices, "", 0}, std::uint64_t{1} << 30);
    REQUIRE(job.finish().code() == 0);
    return job.launches();
  };
  const std::uint64_t two = launches("2");
  return {(launches("4") - two) / 2, two};
}

/// 70, 50 and again 70 per cent of the peak, each for several iterations.
void expect_budgets_kept(const std::vector<std::string>& words, int steps, unsigned devices = 1) {
  const Pace pace = pace_of(words, devices);
  REQUIRE(pace.per_step > 20);
  std::vector<std::string> all = words;
  all.insert(all.end(), {"--steps", std::to_string(steps)});
  const Workload workload = measured(all, devices);
  const std::uint64_t high = workload.peak * 70 / 100;
  const std::uint64_t low = workload.peak * 50 / 100;
  LiveJob job(workload, high);
  REQUIRE(job.wait_for_launches(pace.first));
  job.begin_peak();
  REQUIRE(job.wait_for_launches(job.launches() + 3 * pace.per_step));
  CHECK(job.peak() > low);
  for (const std::uint64_t budget : {low, high, low}) {
    INFO(budget << " of " << workload.peak);
    const Outcome got = job.set(std::to_string(budget));
    INFO(got.out << got.err);
    CHECK(got.code() == 0);
    if (devices > 1) CHECK(got.out.find(", device 1: may hold ") != std::string::npos);
    REQUIRE(job.wait_for_launches(job.launches() + pace.per_step));
    job.begin_peak();
    REQUIRE(job.wait_for_launches(job.launches() + 3 * pace.per_step));
    CHECK(job.peak() <= budget);
    // Memory is used where it may be used again.
    if (budget == high) CHECK(job.peak() > low);
  }
  const Outcome got = job.finish();
  INFO(got.err);
  CHECK(got.code() == 0);
  CHECK(got.out == workload.out);
  CHECK(job.metric(Metric::out_of_memory_total) == 0);
}

}  // namespace

TEST_CASE(
    "live budget: 70, 50, 70 and 50 per cent of the peak are kept after one iteration each, bit for bit") {
  expect_budgets_kept({built("bin/train_mlp")}, kSteps);
}

TEST_CASE("live budget: two threads keep it as well") {
  expect_budgets_kept({built("bin/train_lstm"), "--threads", "2", "--layers", "1"}, kSteps);
}

TEST_CASE("live budget: each of two devices keeps it, and answers for itself") {
  expect_budgets_kept({built("bin/train_mlp"), "--threads", "2", "--devices", "2"}, kSteps, 2);
}

TEST_CASE("live budget: a program that fits and only launches gives memory back, and says what it needs") {
  const Workload workload = measured({built("bin/train_mlp"), "--steps", "20"});
  LiveJob job(workload, workload.peak * 2);
  REQUIRE(job.wait_for_launches(200));
  const Outcome got = job.set("16MiB");
  INFO(got.out << got.err);
  REQUIRE(job.wait_for_launches(job.launches() + 200));
  job.begin_peak();
  REQUIRE(job.wait_for_launches(job.launches() + 200));
  const std::uint64_t capacity = job.metric(Metric::device_capacity_bytes);
  CHECK(capacity < workload.peak / 2);
  CHECK(job.peak() <= capacity);
  const Outcome ended = job.finish();
  INFO(ended.err);
  CHECK(ended.code() == 0);
  CHECK(ended.out == workload.out);
}

TEST_CASE("live budget: asked before the first call of CUDA it holds from the first byte") {
  const ScratchFolder scratch;
  Workload workload = measured({built("bin/train_mlp"), "--steps", "4"});
  const std::string wait = "until test -e " + scratch / "go" + "; do sleep 0.02; done; exec ";
  Workload late = workload;
  late.words = {"sh", "-c", wait + workload.words[0] + " --steps 4"};
  LiveJob job(late, workload.peak);
  for (int tries = 0; tries < 1000 && tools::read_stats_pages(job.folder()).empty(); ++tries) usleep(5000);
  const Outcome got = job.set(std::to_string(workload.peak / 2));
  INFO(got.out << got.err);
  CHECK(got.code() == 0);
  CHECK(got.out.find("not used device memory yet and will start with it\n") != std::string::npos);
  write_file(scratch / "go", "");
  const Outcome ended = job.finish();
  CHECK(ended.code() == 0);
  CHECK(ended.out == workload.out);
  CHECK(job.peak() <= workload.peak / 2);
}

TEST_CASE("live budget: a command that is killed at any point harms nothing") {
  const Workload workload = measured({built("bin/train_mlp"), "--steps", "16"});
  LiveJob job(workload, workload.peak * 70 / 100);
  REQUIRE(job.wait_for_launches(100));
  for (unsigned round = 0; round < 20; ++round) {
    Running command({{kTidepool, "set", "--device-budget",
                      std::to_string(workload.peak * (round % 2 == 0 ? 50 : 70) / 100), job.folder()},
                     "",
                     {},
                     false,
                     false});
    usleep(round * 500);
    kill(command.pid(), SIGKILL);
    (void)command.finish();
  }
  const Outcome ended = job.finish();
  INFO(ended.err);
  CHECK(ended.code() == 0);
  CHECK(ended.out == workload.out);
}

TEST_CASE("live budget: a program that is killed while it is asked is told of, at any point") {
  Workload workload = measured({built("bin/train_mlp"), "--steps", "2"});
  workload.words.back() = "400";
  for (unsigned round = 0; round < 4; ++round) {
    LiveJob job(workload, workload.peak * 70 / 100);
    REQUIRE(job.wait_for_launches(50));
    Running command({{kTidepool, "set", "--device-budget", std::to_string(workload.peak / 2), job.folder()},
                     "",
                     {},
                     false,
                     false});
    usleep(round * 900);
    for (const tools::ProcessStats& each : tools::read_stats_pages(job.folder()))
      kill(static_cast<pid_t>(each.pid), SIGKILL);
    const Outcome told = command.finish();
    INFO(told.out << told.err);
    CHECK((told.code() == 0 || told.code() == 1 || told.code() == 125));
    CHECK_FALSE((told.out + told.err).empty());
    (void)job.finish();
  }
}

}  // namespace tidepool::test
