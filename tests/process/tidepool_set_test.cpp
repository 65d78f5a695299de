// tidepool set: what it asks, of whom, and what it says. The process that is asked is played by a child of
// the test, which answers as told.
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <new>
#include <string>

#include "allocator/support/budget_control.h"
#include "allocator/support/options.h"
#include "allocator/support/stats_page.h"
#include "tests/process/child_process.h"
#include "tests/process/pattern.h"

namespace tidepool::test {
namespace {

const std::string kTidepool = built("tests/stand_in/bin/tidepool");

Outcome set(std::vector<std::string> words) {
  words.insert(words.begin(), {kTidepool, "set"});
  return run({words, "", {}, false, false});
}

void refused(const Outcome& got, const std::string& line) {
  CHECK(got.code() == 125);
  CHECK(got.out.empty());
  CHECK(got.err == "tidepool: set: " + line + "\n");
}

/// A process with a stats page in `folder`, which does `act` once and then answers requests by `answer` until
/// it is killed.
class Guest {
 public:
  using Answer = std::function<void(BudgetAnswer&, BudgetRequest)>;

  explicit Guest(const std::string& folder, const Answer& answer = {}, const std::string& run_id = "",
                 const Answer& second = {}, Bytes watched = Bytes())
      : second_(second) {
    void* const shared = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ready_ = new (shared) std::atomic<int>(0);
    pid_ = fork();
    if (pid_ == 0) live(folder, answer, run_id, watched);
    while (ready_->load() == 0) usleep(1000);
  }
  ~Guest() { end(); }
  Guest(const Guest&) = delete;
  Guest& operator=(const Guest&) = delete;

  void end() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  [[nodiscard]] std::string pid() const { return std::to_string(pid_); }

 private:
  [[noreturn]] void live(const std::string& folder, const Answer& answer, const std::string& run_id,
                         Bytes watched) {
    setenv(kRunIdVariable, run_id.c_str(), 1);
    StatsPage::attach(folder.c_str());
    StatsPage::instance().raise(Metric::allocated_bytes_peak, watched.count());
    BudgetControl& control = StatsPage::instance().budget_control();
    BudgetAnswer* const mine = answer ? control.claim(0) : nullptr;
    BudgetAnswer* const other = second_ ? control.claim(1) : nullptr;
    ready_->store(1);
    for (std::uint64_t seen = 0;; usleep(1000)) {
      const std::uint64_t asked = control.asked.load();
      if (mine == nullptr || asked == seen) continue;
      seen = asked;
      answer(*mine, BudgetRequest::from_raw(asked));
      if (other != nullptr) second_(*other, BudgetRequest::from_raw(asked));
    }
  }

  const Answer second_;
  pid_t pid_ = -1;
  std::atomic<int>* ready_ = nullptr;
};

/// As asked, of a device of 1 GiB that held 200 MiB.
void obey(BudgetAnswer& answer, BudgetRequest request) {
  const Bytes budget = request.amount().resolve(GiB(1));
  answer.write(request, {budget, MiB(512), std::min(budget, MiB(200)), BudgetLimit::kAsked});
}

void never(BudgetAnswer& /*answer*/, BudgetRequest /*request*/) {}

TEST_CASE("set: what is missing or wrong in the words is named") {
  const ScratchFolder folder;
  refused(set({}), "say what to set: --device-budget VALUE");
  refused(set({folder.path()}), "say what to set: --device-budget VALUE");
  refused(set({"--device-budget", "1GiB"}), "name the folder of a run, its --run-dir, or a process id");
  refused(set({"--device-budget"}), "--device-budget needs a value (VALUE)");
  refused(set({"--device-budget", "1GiB", folder.path(), "more"}), "there is one argument too many: 'more'");
  refused(set({"--device-bugdet", "1GiB", folder.path()}),
          "unknown option --device-bugdet (did you mean --device-budget?)");
  for (const char* wait : {"-1", "3601", "x", "1s", ""}) {
    refused(set({"--device-budget", "1GiB", std::string("--wait=") + wait, folder.path()}),
            std::string("--wait ") + wait + " is out of range 0..3600");
  }
}

TEST_CASE("set: a value is refused in the words of run") {
  const ScratchFolder folder;
  for (const char* value : {"1MiB", "101%", "8000", "lots", "", "-1GiB", "16GiBB"}) {
    const Outcome by_run =
        run({{kTidepool, "run", "--device-budget", value, "--", "true"}, "", {}, false, false});
    const Outcome by_set = set({"--device-budget", value, folder.path()});
    INFO(value);
    CHECK(by_run.code() == 125);
    CHECK(by_set.code() == 125);
    CHECK("tidepool: set" + by_run.err.substr(std::string("tidepool: run").size()) == by_set.err);
  }
}

TEST_CASE("set: who is not there is named") {
  const ScratchFolder folder;
  refused(set({"--device-budget", "1GiB", folder / "none"}), folder / "none" + " is no folder");
  refused(set({"--device-budget", "1GiB", folder.path()}),
          folder.path() + " holds nothing of a run: no stats.PID of this version");
  refused(set({"--device-budget", "1GiB", "999999999"}), "there is no process 999999999");
  refused(set({"--device-budget", "1GiB", "99999999999999999999"}),
          "there is no process 99999999999999999999");
  refused(set({"--device-budget", "1GiB", "0"}), "there is no process 0");
  refused(set({"--device-budget", "1GiB", std::to_string(getpid())}),
          "process " + std::to_string(getpid()) +
              " does not run under Tidepool, or has no run folder. Start it by tidepool run");
  write_file(folder / "stats.1", "short");
  refused(set({"--device-budget", "1GiB", folder.path()}), folder / "stats.1" + " is no stats page");
}

TEST_CASE("set: processes that have ended are not asked") {
  const ScratchFolder folder;
  Guest guest(folder.path(), obey);
  const std::string pid = guest.pid();
  guest.end();
  refused(set({"--device-budget", "1GiB", folder.path()}),
          "no process of " + folder.path() + " runs any more");
  refused(set({"--device-budget", "1GiB", pid}), "there is no process " + pid);
}

TEST_CASE("set: a page of another version is named with both") {
  const ScratchFolder folder;
  const Guest guest(folder.path(), obey);
  const std::string name = folder / "stats." + guest.pid();
  const std::uint32_t other = kStatsPageVersion + 1;
  FILE* const file = fopen(name.c_str(), "r+");
  REQUIRE(file != nullptr);
  fseek(file, offsetof(StatsPageLayout, version), SEEK_SET);
  fwrite(&other, sizeof other, 1, file);
  fclose(file);
  refused(set({"--device-budget", "1GiB", folder.path()}),
          name + " is of another version of Tidepool (" + std::to_string(other) + ", this command knows " +
              std::to_string(kStatsPageVersion) + ")");
}

TEST_CASE("set: waits for the answer and prints it, by folder and by process") {
  const ScratchFolder folder;
  const Guest guest(folder.path(), obey);
  for (const std::string& whom : {folder.path(), guest.pid(), folder.path() + "/."}) {
    const Outcome got = set({"--device-budget", "256MiB", whom});
    INFO(whom);
    CHECK(got.code() == 0);
    CHECK(got.err.empty());
    CHECK(matches(got.out,
                  "process " + guest.pid() + " (*): may hold 256.0 MiB (was 512.0 MiB); holds 200.0 MiB\n"));
  }
  CHECK(matches(set({"--device-budget", "12.5%", folder.path()}).out,
                "process " + guest.pid() + " (*): may hold 128.0 MiB (was 512.0 MiB); holds 128.0 MiB\n"));
}

TEST_CASE("set: the budget is for each device, and each answers") {
  const ScratchFolder folder;
  {
    const Guest guest(folder.path(), obey, "", obey);
    const Outcome got = set({"--device-budget", "256MiB", folder.path()});
    CHECK(matches(got.out,
                  "process " + guest.pid() +
                      " (*), device 0: may hold 256.0 MiB (was 512.0 MiB); holds 200.0 MiB\nprocess " +
                      guest.pid() + " (*), device 1: may hold 256.0 MiB (was 512.0 MiB); holds 200.0 MiB\n"));
    CHECK(got.code() == 0);
  }
  const Guest guest(folder.path(), obey, "", never);
  const Outcome got = set({"--device-budget", "256MiB", "--wait", "1", guest.pid()});
  CHECK(got.out.find("(was 512.0 MiB); holds 200.0 MiB\n") != std::string::npos);
  CHECK(got.out.find(
            ", device 1: has not taken it yet; it will at its next launch, copy or allocation there\n") !=
        std::string::npos);
  CHECK(got.code() == 1);
}

TEST_CASE("set: says why the budget is another than asked, and what is still held") {
  const ScratchFolder folder;
  struct {
    BudgetOutcome outcome;
    std::string line;
    int code;
  } const cases[] = {
      {{MiB(16), MiB(64), MiB(16), BudgetLimit::kLeast},
       "may hold 16.0 MiB (was 64.0 MiB), the least that a budget may be; holds 16.0 MiB",
       0},
      {{GiB(23), MiB(64), MiB(16), BudgetLimit::kDevice},
       "may hold 23.0 GiB (was 64.0 MiB), all that the device has less its reserve; holds 16.0 MiB",
       0},
      {{MiB(24), MiB(64), MiB(24), BudgetLimit::kNeeded},
       "may hold 24.0 MiB (was 64.0 MiB), which is what the program needs at once and what never moves; "
       "holds "
       "24.0 MiB",
       1},
      {{MiB(24), MiB(64), MiB(30), BudgetLimit::kAsked},
       "may hold 24.0 MiB (was 64.0 MiB); still holds 30.0 MiB, what is in use leaves at later launches",
       1},
  };
  for (const auto& each : cases) {
    const Guest guest(folder.path(), [&](BudgetAnswer& answer, BudgetRequest request) {
      answer.write(request, each.outcome);
    });
    const Outcome got = set({"--device-budget", "20MiB", "--wait", "1", guest.pid()});
    INFO(each.line);
    CHECK(matches(got.out, "process " + guest.pid() + " (*): " + each.line + "\n"));
    CHECK(got.code() == each.code);
  }
}

TEST_CASE("set: a process that does nothing takes it later, and one that ends does not") {
  const ScratchFolder folder;
  {
    const Guest guest(folder.path(), never);
    const Outcome got = set({"--device-budget", "1GiB", "--wait", "0", folder.path()});
    CHECK(
        matches(got.out, "process " + guest.pid() +
                             " (*): has not taken it yet; it will at its next launch, copy or allocation\n"));
    CHECK(got.code() == 1);
  }
  const Guest guest(folder.path(), [](BudgetAnswer&, BudgetRequest) { _exit(0); });
  const Outcome got = set({"--device-budget", "1GiB", "--wait", "30", folder.path()});
  CHECK(matches(got.out, "process " + guest.pid() + " (*): ended before it took it\n"));
  CHECK(got.code() == 1);
}

TEST_CASE("set: a process that has not used a device will start with it, and is counted beside others") {
  const ScratchFolder folder;
  const Guest quiet(folder.path());
  const Outcome alone = set({"--device-budget", "1GiB", folder.path()});
  CHECK(matches(alone.out,
                "process " + quiet.pid() + " (*): has not used device memory yet and will start with it\n"));
  CHECK(alone.code() == 0);
  const Guest busy(folder.path(), obey);
  const Guest other(folder.path(), obey);
  const std::string line = " (*): may hold 256.0 MiB (was 512.0 MiB); holds 200.0 MiB\n";
  const Outcome all = set({"--device-budget", "256MiB", folder.path()});
  INFO(all.out);
  CHECK(matches(all.out, "process " + busy.pid() + line + "process " + other.pid() + line +
                             "1 process has not used device memory yet and will start with it\n"));
  const Outcome one = set({"--device-budget", "256MiB", "--pid", other.pid(), folder.path()});
  CHECK(matches(one.out, "process " + other.pid() + line));
  refused(set({"--device-budget", "256MiB", "--pid", "1", folder.path()}),
          "no process 1 of " + folder.path() + " runs");
}

TEST_CASE("set: a process whose memory is only watched keeps no budget, and that is no success") {
  const ScratchFolder folder;
  const Guest watched(folder.path(), {}, "", {}, MiB(48));
  const Outcome got = set({"--device-budget", "1GiB", folder.path()});
  INFO(got.out);
  CHECK(matches(got.out,
                "process " + watched.pid() +
                    " (*): keeps no budget, since its memory is only watched. Run it with --mode manage\n"));
  CHECK(got.code() == 1);
}

TEST_CASE("set: what a later command asked is told to the earlier one") {
  const ScratchFolder folder;
  const Guest guest(folder.path(), [](BudgetAnswer& answer, BudgetRequest) {
    BudgetControl& control = StatsPage::instance().budget_control();
    obey(answer, control.ask(Amount::bytes(MiB(100))));
  });
  const Outcome got = set({"--device-budget", "256MiB", folder.path()});
  CHECK(matches(got.out, "process " + guest.pid() +
                             " (*): may hold 100.0 MiB (was 512.0 MiB); holds 100.0 MiB, as another command "
                             "asked since\n"));
  CHECK(got.code() == 1);
}

TEST_CASE("set: by the id of tidepool run each process is asked once, and answers what was asked") {
  const ScratchFolder folder;
  const std::string run_id = std::to_string(getpid()) + "-1";  // the test stands for tidepool run
  const Guest one(folder.path(), obey, run_id);
  const Guest two(folder.path(), obey, run_id);
  const Guest other(folder.path(), obey, "1-1");
  const std::string line = " (*): may hold 256.0 MiB (was 512.0 MiB); holds 200.0 MiB\n";
  const Outcome got = set({"--device-budget", "256MiB", std::to_string(getpid())});
  INFO(got.out << got.err);
  CHECK(matches(got.out, "process " + one.pid() + line + "process " + two.pid() + line));
  CHECK(got.code() == 0);
}

TEST_CASE("set: a run inside a run is asked by the id of either") {
  const ScratchFolder folder;
  const std::string outer = std::to_string(getpid());
  // The inner tidepool run is a process of the outer run, which never uses a device itself.
  const Guest inner(folder.path(), {}, outer + "-1");
  const Guest program(folder.path(), obey, inner.pid() + "-1");
  const std::string line =
      "process " + program.pid() + " (*): may hold 256.0 MiB (was 512.0 MiB); holds 200.0 MiB\n";
  const Outcome by_inner = set({"--device-budget", "256MiB", inner.pid()});
  INFO(by_inner.out);
  CHECK(matches(by_inner.out, line));
  const Outcome by_outer = set({"--device-budget", "256MiB", outer});
  INFO(by_outer.out);
  CHECK(matches(by_outer.out, line + "1 process has not used device memory yet and will start with it\n"));
  CHECK(by_outer.code() == 0);
}

TEST_CASE("set: the id of tidepool run stands for all processes of its run, also in a private folder") {
  const ScratchFolder tmp;
  Running job(
      {{kTidepool, "run", "--", "sh", "-c", "trap 'exit 0' TERM; echo ready; while :; do sleep 0.05; done"},
       "",
       {{"TMPDIR", tmp.path()}, {"XDG_RUNTIME_DIR", tmp.path()}},
       false,
       false});
  REQUIRE(job.wait_for("ready"));
  const Outcome got = set({"--device-budget", "1GiB", std::to_string(job.pid())});
  INFO(got.err);
  CHECK(got.code() == 0);
  CHECK(got.out.find(" not used device memory yet and will start with it\n") != std::string::npos);
  kill(job.pid(), SIGTERM);
  (void)job.finish();
}

}  // namespace
}  // namespace tidepool::test
