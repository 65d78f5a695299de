// The folder of a run: whose it is, what is in it, and what is said where there is none that stays.

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <filesystem>
#include <thread>

#include "tests/process/child_process.h"
#include "tests/process/pattern.h"
#include "tests/process/stand_in_job.h"

namespace tidepool::test {
namespace {

namespace fs = std::filesystem;

TEST_CASE("run folder: a link that leads nowhere is called that") {
  ScratchFolder tmp;
  fs::create_symlink(tmp / "gone", tmp / "link");
  const Outcome got = run(job(tmp, {"--run-dir", tmp / "link", "true"}));
  CHECK(got.code() == 125);
  CHECK(got.err == "tidepool: run: the folder " + (tmp / "link") +
                       " cannot be used: it is a link to what is not there\n");
  CHECK(names_in(tmp.path()) == std::vector<std::string>{"link"});
}

TEST_CASE("run folder: a trace is recorded only where it stays, and that is said before the program starts") {
  ScratchFolder tmp;
  const std::string line =
      "tidepool: warning: nothing is recorded: --trace ops needs a folder that stays. Name one with "
      "--run-dir\n";
  const std::vector<std::string> show = {"printenv", "TIDEPOOL_TRACE"};
  Job plain = job(tmp, {"--trace", "ops"}, "");
  plain.words.insert(plain.words.end(), show.begin(), show.end());
  const Outcome got = run(plain);
  CHECK(got.err == line);
  CHECK(got.out == "off\n");
  Job variable = job(tmp, show, "");
  variable.variables.emplace_back("TIDEPOOL_TRACE", "stacks");
  CHECK(run(variable).err ==
        "tidepool: warning: nothing is recorded: --trace stacks needs a folder that stays. "
        "Name one with --run-dir\n");
  Job kept = job(tmp, {"--run-dir", tmp / "kept", "--trace", "ops", "printenv", "TIDEPOOL_TRACE"}, "");
  CHECK(run(kept).err.empty());
  CHECK(run(kept).out == "ops\n");
  const Outcome quiet = run(job(tmp, {"-q", "--trace", "ops", "printenv", "TIDEPOOL_TRACE"}, ""));
  CHECK(quiet.err.empty());
  CHECK(quiet.out == "off\n");
}

TEST_CASE("run folder: a log that is asked for and kept nowhere is told of") {
  ScratchFolder tmp;
  const std::string end = " needs a folder that stays. Name one with --run-dir, or a file with --log-file\n";
  const std::string start = "tidepool: warning: no log is kept: ";
  const auto said = [&](std::vector<std::string> words) {
    words.emplace_back("true");
    return run(job(tmp, words, "")).err;
  };
  CHECK(said({"--log", "debug"}) == start + "--log debug" + end);
  CHECK(said({"--log-file", "%R/l.%p"}) == start + "--log-file %R/l.%p" + end);
  Job variable = job(tmp, {"true"}, "");
  variable.variables.emplace_back("TIDEPOOL_LOG", "info,swap=debug");
  CHECK(run(variable).err == start + "--log info,swap=debug" + end);
  CHECK(said({}).empty());
  CHECK(said({"--log", "off"}).empty());
  CHECK(said({"--log", "debug", "-q"}).empty());
  CHECK(said({"--log", "debug", "--log-file", tmp / "l.%p"}).empty());
  CHECK(said({"--log", "debug", "--run-dir", tmp / "kept"}).empty());
}

TEST_CASE(
    "run folder: one that is removed while the program runs is not taken for a program without Tidepool") {
  ScratchFolder tmp;
  const std::string folder = tmp / "run";
  const std::string lost = ", or what was in it, was removed meanwhile: its numbers are lost\n";
  const std::string start = "tidepool: warning: the program ended (exit 3), but the run's folder ";
  for (const char* script : {"rm -r $TIDEPOOL_RUN_DIR; exit 3", "rm $TIDEPOOL_RUN_DIR/*; exit 3"}) {
    INFO(script);
    const Outcome got = run(job(tmp, {"--run-dir", folder, "sh", "-c", script}));
    CHECK(got.code() == 3);
    CHECK(got.err == start + folder + lost);
  }
  const Outcome own = run(job(tmp, {"sh", "-c", "rm -r $TIDEPOOL_RUN_DIR; exit 3"}));
  CHECK(matches(own.err, start + "*" + lost));
}

TEST_CASE("run folder: private, 0700, and gone afterwards") {
  ScratchFolder tmp;
  const Outcome got = run(job(tmp, {"sh", "-c", "stat -c '%a %n' \"$TIDEPOOL_RUN_DIR\""}, ""));
  CHECK(matches(got.out, "700 " + tmp.path() + "/tidepool-run-??????\n"));
  CHECK(names_in(tmp.path()).empty());
}

TEST_CASE("run folder: XDG_RUNTIME_DIR comes first, and one that cannot be used is passed over") {
  ScratchFolder tmp;
  ScratchFolder runtime;
  Job where = job(tmp, {"sh", "-c", "echo $TIDEPOOL_RUN_DIR"}, "");
  where.variables.emplace_back("XDG_RUNTIME_DIR", runtime.path());
  CHECK(run(where).out.find(runtime.path() + "/tidepool-run-") == 0);
  where.variables.back().second = "/no/such/folder";
  CHECK(run(where).out.find(tmp.path() + "/tidepool-run-") == 0);
  where.variables.back().second = "relative";
  CHECK(run(where).out.find(tmp.path() + "/tidepool-run-") == 0);
}

TEST_CASE("run folder: what a run that was killed left is removed by a later one, what is in use is not") {
  ScratchFolder tmp;
  Running killed(job(tmp, {"sh", "-c", "echo ready; exec sleep 1000"}, ""));
  REQUIRE(killed.wait_for("ready"));
  REQUIRE(names_in(tmp.path()).size() == 1);
  const std::string left = names_in(tmp.path())[0];
  kill(killed.pid(), SIGKILL);
  CHECK(killed.finish().code() == -SIGKILL);
  CHECK(names_in(tmp.path()) == std::vector<std::string>{left});

  ScratchFolder signals;
  Running other(job(tmp,
                    {"sh", "-c",
                     "echo ready; while [ ! -e " + (signals / "go") +
                         " ]; do sleep 0.02; done; test -e $TIDEPOOL_RUN_DIR/owner"},
                    ""));
  REQUIRE(other.wait_for("ready"));
  CHECK(fs::exists(tmp / left) == false);
  REQUIRE(names_in(tmp.path()).size() == 1);
  // Of somebody else's making: no owner file, or a link where the folder should be.
  fs::create_directory(tmp / "tidepool-run-theirs");
  fs::create_directory(tmp / "target");
  write_file(tmp / "target/owner", "");
  fs::create_symlink(tmp / "target", tmp / "tidepool-run-linked");
  CHECK(run(job(tmp, {"true"}, "")).code() == 0);
  CHECK(names_in(tmp.path()).size() == 4);
  CHECK(fs::exists(tmp / "target/owner"));
  write_file(signals / "go", "");
  CHECK(other.finish().code() == 0);
  CHECK(names_in(tmp.path()) ==
        std::vector<std::string>{"target", "tidepool-run-linked", "tidepool-run-theirs"});
}

TEST_CASE("run folder: a run that starts is not taken for one that was left") {
  ScratchFolder tmp;
  // Stands for the sweeps of other runs, at every moment: takes each lock that it can and gives it back.
  std::atomic<bool> is_over{false};
  std::atomic<int> in_use{0};
  std::thread sweeper([&] {
    while (!is_over) {
      for (const std::string& name : names_in(tmp.path())) {
        if (!name.starts_with("tidepool-run-")) continue;
        const int fd = open((tmp / (name + "/owner")).c_str(), O_RDWR | O_CLOEXEC);
        if (fd < 0) continue;
        struct stat file {};
        const bool taken = flock(fd, LOCK_EX | LOCK_NB) == 0;
        // A run gives the lock back once its folder is gone.
        if (taken && fstat(fd, &file) == 0 && file.st_nlink > 0) ++in_use;
        close(fd);
      }
    }
  });
  for (int i = 0; i < 20; ++i) CHECK(run(job(tmp, {"true"}, "")).code() == 0);
  is_over = true;
  sweeper.join();
  CHECK(in_use == 0);
  CHECK(names_in(tmp.path()).empty());
}

TEST_CASE("run folder: one that was asked for is made, named absolutely and kept") {
  ScratchFolder tmp;
  const std::string folder = tmp / "deep/run";
  const Outcome got =
      run(job(tmp, {"--run-dir", tmp / "x/../deep/run", "sh", "-c", "cd /; echo $TIDEPOOL_RUN_DIR"}));
  CHECK(got.code() == 0);
  CHECK(fs::path(got.out.substr(0, got.out.size() - 1)) == fs::canonical(folder));
  CHECK(names_in(folder).size() == 2);  // run.ID and stats.PID
  CHECK(names_in(tmp.path()) == std::vector<std::string>{"deep", "x"});
}

// HAMi-core#7, #191: totals of an earlier job.
TEST_CASE("run folder: numbers of an earlier run in the same folder are not counted again") {
  ScratchFolder tmp;
  const std::string folder = tmp / "run";
  for (int i = 0; i < 2; ++i) {
    const Outcome got = run(job(tmp, {"--run-dir", folder, "true"}));
    CHECK(got.err.find("processes used CUDA") == std::string::npos);
    CHECK(got.err.find("Needed 96.0 MiB") != std::string::npos);
  }
  CHECK(names_in(folder).size() == 4);
}

TEST_CASE("run folder: numbers of a run beside this one are not counted as its own") {
  ScratchFolder tmp;
  const std::string one = kTidepool + " run --run-dir " + (tmp / "run") + " sleep 0.3 2>" + (tmp / "said");
  Job both = job(tmp, {});
  both.words = {"/bin/sh", "-c",
                one + "1 & " + one + "2 & wait; cat " + (tmp / "said1") + " " + (tmp / "said2")};
  const Outcome got = run(both);
  CHECK(matches(
      got.out,
      "tidepool: done in @ (exit 0). Needed 96.0 MiB*\ntidepool: done in @ (exit 0). Needed 96.0 MiB*\n"));
  CHECK(names_in(tmp / "run").size() == 4);
}

TEST_CASE("run folder: files that are no pages are passed over") {
  ScratchFolder tmp;
  const Outcome got = run(job(
      tmp,
      {"--run-dir", tmp / "run", "sh", "-c",
       "cd $TIDEPOOL_RUN_DIR; echo short >stats.1; head -c 9000 /dev/zero >stats.2; mkdir stats.3; exit 0"}));
  CHECK(got.code() == 0);
  CHECK(got.err.find("(exit 0)") != std::string::npos);
}

TEST_CASE("run folder: one that has no room is passed over, and refused where it was asked for") {
  // RLIMIT_FSIZE stands for a full disk: both refuse the page its place.
  ScratchFolder tmp;
  const std::string refused = "ulimit -f 0; trap '' XFSZ; exec " + kTidepool + " run ";
  Job full = job(tmp, {}, "");
  full.words = {"/bin/bash", "-c", refused + "--run-dir " + (tmp / "run") + " true"};
  const Outcome got = run(full);
  CHECK(got.code() == 125);
  CHECK(got.err.find("tidepool: run: the folder " + (tmp / "run") + " cannot be used: ") == 0);
  full.words = {"/bin/bash", "-c", refused + "true"};
  const Outcome nowhere = run(full);
  CHECK(nowhere.code() == 125);
  CHECK(nowhere.err.find("no folder for the run could be made in XDG_RUNTIME_DIR, TMPDIR or /tmp: ") !=
        std::string::npos);
  CHECK(names_in(tmp.path()).empty());  // nor is what was made for it left
}

TEST_CASE("run folder: one that cannot be used stops the run") {
  ScratchFolder tmp;
  write_file(tmp / "file", "");
  const Outcome got = run(job(tmp, {"--run-dir", tmp / "file", "echo", "x"}));
  CHECK(got.code() == 125);
  CHECK(got.out.empty());
  CHECK(got.err.find("tidepool: run: the folder " + (tmp / "file") + " cannot be used: ") == 0);
}

}  // namespace
}  // namespace tidepool::test
