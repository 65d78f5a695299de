#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <random>

#include "tests/process/child_process.h"

namespace tidepool::test {
namespace {

const std::string kTidepool = built("tests/stand_in/bin/tidepool");

Job tidepool_run(std::vector<std::string> words) {
  words.insert(words.begin(), {kTidepool, "run"});
  return {words, "", {}, false, false};
}

Outcome run_shell(const std::string& script) {
  return run(tidepool_run({"--", "/bin/sh", "-c", script}));
}

TEST_CASE("run: every exit code comes back") {
  for (int code = 0; code <= 255; ++code) {
    const Outcome got = run_shell("exit " + std::to_string(code));
    REQUIRE(got.code() == code);
    REQUIRE(got.out.empty());
    REQUIRE(got.err.empty());
  }
}

TEST_CASE("run: a signal that ends the program ends the command the same way") {
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGKILL, SIGSEGV, SIGABRT,
                           SIGPIPE, SIGALRM, SIGBUS}) {
    const Outcome got = run_shell("ulimit -c 0; kill -" + std::to_string(number) + " $$");
    INFO("signal " << number);
    CHECK(got.code() == -number);
    CHECK_FALSE(WCOREDUMP(got.status));
  }
}

TEST_CASE("run: signals sent to the command reach the program once") {
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}) {
    INFO("signal " << number);
    Running job(
        tidepool_run({"/bin/sh", "-c",
                      "n=0; trap 'n=$((n + 1))' " + std::to_string(number) +
                          "; echo ready; while [ $n -eq 0 ]; do sleep 0.02; done; sleep 0.1; exit $n"}));
    REQUIRE(job.wait_for("ready"));
    kill(job.pid(), number);
    CHECK(job.finish().code() == 1);
  }
}

TEST_CASE("run: kill -9 of the command ends the program") {
  Running job(tidepool_run({"/bin/sh", "-c", "echo ready; exec sleep 1000"}));
  REQUIRE(job.wait_for("ready"));
  kill(job.pid(), SIGKILL);
  CHECK(job.finish().code() == -SIGKILL);  // which waits until nobody holds the program's stdout
}

TEST_CASE("run: stdin and stdout pass byte for byte") {
  std::mt19937 random(3);
  std::string bytes(3'000'001, '\0');
  for (char& c : bytes) c = static_cast<char>(random());
  Job job = tidepool_run({"--", "cat"});
  job.input = bytes;
  const Outcome got = run(job);
  CHECK(got.code() == 0);
  CHECK(got.out == bytes);
  CHECK(got.err.empty());
}

TEST_CASE("run: the program's stderr passes as well") {
  const Outcome got = run_shell("printf 'no newline' >&2");
  CHECK(got.err == "no newline");
}

TEST_CASE("run: what follows the program is the program's") {
  const std::string script = "printf '[%s]' \"$@\"";
  const std::vector<std::string> arguments = {"sh", "--help", "-q", "--", "", "--device-budget=1", "a b"};
  for (const bool with_dashes : {true, false}) {
    std::vector<std::string> words = {"/bin/sh", "-c", script};
    if (with_dashes) words.insert(words.begin(), "--");
    words.insert(words.end(), arguments.begin(), arguments.end());
    const Outcome got = run(tidepool_run(words));
    CHECK(got.code() == 0);
    CHECK(got.out == "[--help][-q][--][][--device-budget=1][a b]");
  }
}

TEST_CASE("run: a program whose name begins with a dash is reached behind --") {
  const Outcome got = run(tidepool_run({"--", "-no-such-program"}));
  CHECK(got.code() == 127);
}

TEST_CASE("run: the program has the name it was called by and the standard signals") {
  const Outcome got = run(tidepool_run({"sh", "-c", "echo $0; grep -E 'SigBlk|SigIgn' /proc/self/status"}));
  CHECK(got.out == "sh\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
}

TEST_CASE("run: works when SIGCHLD was ignored, and leaves it so for the program") {
  Job job = tidepool_run({"grep", "SigIgn", "/proc/self/status"});
  job.with_child_signal_ignored = true;
  CHECK(run(job).out == "SigIgn:\t0000000000010000\n");
  job = tidepool_run({"sh", "-c", "exit 9"});
  job.with_child_signal_ignored = true;
  CHECK(run(job).code() == 9);
}

TEST_CASE("run: scripts run with and without an interpreter line") {
  ScratchFolder folder;
  write_file(folder / "with", "#!/bin/sh -e\necho with $1\n", 0755);
  write_file(folder / "without", "echo without $1\n", 0755);
  write_file(folder / "env", "#!/usr/bin/env sh\necho env $1\n", 0755);
  CHECK(run(tidepool_run({folder / "with", "1"})).out == "with 1\n");
  CHECK(run(tidepool_run({folder / "without", "2"})).out == "without 2\n");
  CHECK(run(tidepool_run({folder / "env", "3"})).out == "env 3\n");
}

TEST_CASE("run: with stderr closed the program runs as it would, and no message goes astray") {
  Job job = tidepool_run({"sh", "-c", "echo text; test -e /proc/self/fd/2 && echo open; kill -9 $$"});
  job.without_stderr = true;
  job.variables = {{"TIDEPOOL_TEST_STATS", "allocated_bytes_peak=1"}, {"TIDEPOOL_UNKNOWN", "1"}};
  const Outcome got = run(job);
  CHECK(got.code() == -SIGKILL);
  CHECK(got.out == "text\n");
}

TEST_CASE("run: does not wait for what the program left running, and leaves no zombie") {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  const Outcome got = run_shell("sleep 0.3 >/dev/null 2>&1 & exit 4");
  CHECK(got.code() == 4);
  // The sleeper is now ours and ends by itself; nothing else may be left.
  int status = 0;
  CHECK(waitpid(-1, &status, 0) > 0);
  CHECK((waitpid(-1, &status, WNOHANG) == -1 && errno == ECHILD));
  prctl(PR_SET_CHILD_SUBREAPER, 0);
}

// TMS 07ded68, 89c5404: a launcher that overwrote LD_PRELOAD.
TEST_CASE("run: LD_PRELOAD keeps its entries behind the library") {
  const std::string library = built("tests/stand_in/lib/libtidepool.so");
  const std::string first = preload_first().empty() ? "" : preload_first() + ":";
  const auto preload_in = [&](const std::string& before) {
    Job job = tidepool_run({"printenv", "LD_PRELOAD"});
    if (!before.empty()) job.variables = {{"LD_PRELOAD", first + before}};
    return run(job).out;
  };
  CHECK(preload_in("") == first + library + "\n");
  CHECK(preload_in("libm.so.6") == first + library + ":libm.so.6\n");
  CHECK(preload_in("libm.so.6 libc.so.6") == first + library + ":libm.so.6:libc.so.6\n");
  CHECK(preload_in("libm.so.6:" + library) == first + "libm.so.6:" + library + "\n");
}

TEST_CASE("run: options become variables of the program, and a flag wins over a variable") {
  Job job = tidepool_run({"--device-budget", "48MiB", "--check=cheap", "--min-block", "4M", "printenv",
                          "TIDEPOOL_DEVICE_BUDGET", "TIDEPOOL_CHECK", "TIDEPOOL_MIN_BLOCK"});
  job.variables = {{"TIDEPOOL_DEVICE_BUDGET", "nonsense"}};
  const Outcome got = run(job);
  CHECK(got.out == "48MiB\ncheap\n4M\n");
  CHECK(got.code() == 0);
}

TEST_CASE("run: --disable starts the program with nothing in front of it") {
  const Outcome got = run(tidepool_run({"--disable", "printenv"}));
  CHECK(got.code() == 0);
  CHECK(got.out.find("TIDEPOOL_DISABLE=1\n") != std::string::npos);
  CHECK(got.out.find("TIDEPOOL_RUN_DIR") == std::string::npos);
  CHECK(got.out.find("libtidepool") == std::string::npos);
  CHECK(got.err.empty());
}

}  // namespace
}  // namespace tidepool::test
