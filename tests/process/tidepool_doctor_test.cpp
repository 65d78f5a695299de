// doctor and report: what they find, each with its exact line.
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "tests/process/child_process.h"
#include "tests/process/pattern.h"

namespace tidepool::test {
namespace {

namespace fs = std::filesystem;

const std::string kTidepool = built("tests/stand_in/bin/tidepool");
const std::string kOddDriver = built("tests/odd_driver");

using Variables = std::vector<std::pair<std::string, std::string>>;

Outcome call(const std::string& command, std::vector<std::string> words = {}, Variables variables = {}) {
  words.insert(words.begin(), {kTidepool, command});
  return run({words, "", std::move(variables), false, false});
}

bool has_line(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

Outcome with_driver(const std::string& kind) {
  return call("doctor", {}, {{"LD_LIBRARY_PATH", kOddDriver}, {"TIDEPOOL_TEST_DRIVER", kind}});
}

TEST_CASE("doctor: a machine without a driver can still run programs") {
  const Outcome got = call("doctor");
  CHECK(got.code() == 0);
  CHECK(got.err.empty());
  CHECK(has_line(got.out, "PASS library " + built("tests/stand_in/lib/libtidepool.so")));
  CHECK(has_line(got.out, "PASS options are valid"));
  if (!fs::exists("/usr/lib/x86_64-linux-gnu/libcuda.so.1")) {
    CHECK(has_line(got.out,
                   "WARN there is no CUDA driver (libcuda.so.1): programs run without Tidepool\n"
                   "     -> install a driver of CUDA 12.4 or newer, or try it with simgpu"));
  }
  CHECK(got.out.find("0 problems, ") != std::string::npos);
}

TEST_CASE("doctor: which driver and device there are") {
  const Outcome good = with_driver("good");
  CHECK(good.code() == 0);
  CHECK(has_line(good.out, "PASS driver of CUDA 12.9: " + kOddDriver + "/libcuda.so.1"));
  CHECK(has_line(good.out, "PASS GPU 0 Odd, 8.0 GiB"));
  CHECK(has_line(
      with_driver("old").out,
      "WARN driver of CUDA 11.8: " + kOddDriver +
          "/libcuda.so.1, which lacks what Tidepool needs: nothing moves, memory is watched at most\n"
          "     -> install a driver of CUDA 12.4 or newer"));
  CHECK(has_line(with_driver("plain").out,
                 "WARN GPU 0 Odd, 8.0 GiB: no virtual memory calls, so its memory cannot be moved\n"
                 "     -> use another device"));
  CHECK(has_line(with_driver("empty").out,
                 "WARN the driver has no device\n"
                 "     -> look at CUDA_VISIBLE_DEVICES and at nvidia-smi"));
  CHECK(has_line(with_driver("refuses").out,
                 "WARN the driver cannot be used: cuInit answers 999\n"
                 "     -> look at the driver's log (dmesg) and at nvidia-smi"));
}

TEST_CASE("doctor: a driver that crashes or hangs is a finding, not the end", "[plain]") {
  const Outcome crash = with_driver("crash");
  CHECK(crash.code() == 0);
  CHECK(has_line(crash.out,
                 "WARN a process that used the driver was ended by signal 11\n"
                 "     -> look at the driver's log (dmesg)"));
  const Outcome hang = with_driver("hang");
  CHECK(hang.code() == 0);
  CHECK(has_line(hang.out,
                 "WARN the driver did not answer within 5 s\n     -> look at the driver's log (dmesg)"));
}

TEST_CASE("doctor: what tidepool run would refuse is a problem, with exit code 1") {
  ScratchFolder folder;
  const Outcome got = call("doctor", {}, {{"TIDEPOOL_MIN_BLOCK", "3"}, {"TIDEPOOL_MIN_BLOK", "4MiB"}});
  CHECK(got.code() == 1);
  CHECK(has_line(got.out,
                 "FAIL TIDEPOOL_MIN_BLOCK=3 is out of range 1MiB..1GiB (without a unit it means bytes)\n"
                 "     -> see tidepool env"));
  CHECK(has_line(got.out,
                 "WARN unknown variable TIDEPOOL_MIN_BLOK (did you mean TIDEPOOL_MIN_BLOCK?)\n"
                 "     -> see tidepool env"));
  CHECK(got.out.find("\n1 problem, ") != std::string::npos);
  CHECK(got.out.find(" tidepool run would refuse to start.\n") != std::string::npos);
  CHECK(call("doctor", {}, {{"TIDEPOOL_MIN_BLOK", "4MiB"}}).code() == 0);
  CHECK(call("doctor", {}, {{"TIDEPOOL_MIN_BLOK", "4MiB"}, {"TIDEPOOL_STRICT", "1"}}).code() == 1);
  write_file(folder / "tidepool.toml", "nonsense = 1\n");
  const Outcome file = run(
      {{"/bin/sh", "-c", "cd " + folder.path() + " && exec " + kTidepool + " doctor"}, "", {}, false, false});
  CHECK(file.code() == 1);
  CHECK(has_line(file.out, "FAIL tidepool.toml:1: there is no option nonsense\n     -> correct the file"));
  CHECK(file.out.find("options are valid") == std::string::npos);
  write_file(folder / "tidepool.toml", "disable = true\n");
  CHECK(has_line(run({{"/bin/sh", "-c", "cd " + folder.path() + " && exec " + kTidepool + " doctor"},
                      "",
                      {},
                      false,
                      false})
                     .out,
                 "WARN Tidepool is switched off\n     -> tidepool env tells by what: TIDEPOOL_DISABLE or "
                 "TIDEPOOL_MODE"));
}

TEST_CASE("doctor: the run folder that is named is tried, and nothing of it stays") {
  ScratchFolder folder;
  write_file(folder / "file", "");
  const auto with = [&](const std::string& name) { return call("doctor", {}, {{"TIDEPOOL_RUN_DIR", name}}); };
  CHECK(has_line(with(folder / "a/b").out, "PASS the run folder " + (folder / "a/b") + " can be used"));
  CHECK(names_in(folder.path()) == std::vector<std::string>{"file"});
  const Outcome refused = with(folder / "file/x");
  CHECK(refused.code() == 1);
  CHECK(has_line(refused.out, "FAIL the folder " + (folder / "file/x") +
                                  " cannot be used: Not a directory\n     -> name another with --run-dir"));
  CHECK(with("/tmp/%z").code() == 1);
}

TEST_CASE("doctor: limits, other preloads and PyTorch's settings") {
  const Outcome limited = run({{"/bin/sh", "-c", "ulimit -l 64; exec " + kTidepool + " doctor"},
                               "",
                               {{"TIDEPOOL_HOST_BUDGET", "1MiB"}},
                               false,
                               false});
  CHECK(has_line(
      limited.out,
      "WARN ulimit -l is 64.0 KiB, less than the host budget of 1.0 MiB: a driver that keeps to it refuses "
      "to pin more\n"
      "     -> ulimit -l unlimited, if a run says that host memory cannot be pinned"));
  CHECK(has_line(call("doctor", {}, {{"TIDEPOOL_HOST_BUDGET", "4KiB"}}).out,
                 "PASS host budget 4.0 KiB may be pinned"));
  const std::string first = preload_first().empty() ? "" : preload_first() + ":";
  const Outcome preloads = call("doctor", {}, {{"LD_PRELOAD", first + "/no/such/library.so:libm.so.6"}});
  CHECK(has_line(
      preloads.out,
      "WARN LD_PRELOAD names /no/such/library.so, which cannot be read\n     -> correct LD_PRELOAD"));
  CHECK(has_line(preloads.out, "PASS LD_PRELOAD has libm.so.6 as well; it stays"));
  const auto torch = [](const char* settings) {
    return call("doctor", {}, {{"PYTORCH_CUDA_ALLOC_CONF", settings}}).out;
  };
  CHECK(has_line(torch("max_split_size_mb:64"),
                 "PASS PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:64 can be managed"));
  CHECK(torch("expandable_segments:True")
            .find("WARN PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True: memory of ") != std::string::npos);
  CHECK(
      torch("backend:native").find("WARN PYTORCH_CUDA_ALLOC_CONF=backend:native: PyTorch's own allocator ") !=
      std::string::npos);
}

TEST_CASE("doctor: the program, before it is started") {
  ScratchFolder folder;
  const auto about = [](const std::string& program) { return call("doctor", {"--", program, "--help"}); };
  CHECK(has_line(about("true").out, "PASS /usr/bin/true is dynamic, for this machine, and not set-uid"));
  CHECK(has_line(about("true").out,
                 "PASS /usr/bin/true names no CUDA library; what it loads later cannot be seen here"));
  const std::string fixed = built("tests/tp_static_program");
  const Outcome refused = about(fixed);
  CHECK(refused.code() == 1);
  CHECK(has_line(refused.out,
                 "FAIL " + fixed +
                     " is linked statically, so no library can be put in front of it. Link it dynamically"));
  CHECK(has_line(about("no-such-program").out,
                 "FAIL there is no program 'no-such-program'\n     -> give the program's path"));
  write_file(folder / "plain", "text");
  CHECK(has_line(
      about(folder / "plain").out,
      "FAIL " + (folder / "plain") + " cannot be executed\n     -> chmod +x it, if it is a program"));
  write_file(folder / "broken", "#!/no/such/interpreter\n", 0755);
  CHECK(has_line(about(folder / "broken").out,
                 "FAIL " + (folder / "broken") +
                     " is a script for /no/such/interpreter, which is not there. Correct its first line"));
  write_file(folder / "script", "#!/bin/bash\nexit 9\n", 0755);
  CHECK(has_line(about(folder / "script").out, "PASS " + (folder / "script") + " is a script for it"));
  CHECK(about(folder / "script").code() == 0);
}

TEST_CASE("doctor: JSON is JSON") {
  const Outcome got = call("doctor", {"--json", "--", "true"}, {{"TIDEPOOL_CHECK", "so \"me\""}});
  CHECK(got.code() == 1);
  if (!fs::exists("/usr/bin/python3")) return;
  const Job reader{{"/usr/bin/python3", "-c",
                    "import json,sys; d = json.load(sys.stdin); "
                    "print(d['schema'], d['problems'], sum(f['verdict'] == 'FAIL' for f in d['findings']))"},
                   got.out,
                   {},
                   false,
                   false};
  CHECK(run(reader).out == "tidepool.doctor/1 1 1\n");
}

TEST_CASE("report: what a run needed, moved and waited for, also of one that was killed") {
  ScratchFolder folder;
  const Job job{
      {kTidepool, "run", "--run-dir", folder / "run", "sh", "-c", "kill -9 $$"},
      "",
      {{"TIDEPOOL_TEST_STATS",
        "allocated_bytes_peak=4096 device_capacity_bytes=2048 device_resident_bytes_peak=2048 "
        "swap_out_total=3 "
        "swap_in_total=2 swap_out_bytes_total=3072 swap_in_bytes_total=2048 wait_ns_total=1500000000 "
        "slow_path_total=7 wait_copy_out_ns_total=1200000000 wait_turn_ns_total=41000000 "
        "host_bytes_peak=1024 evictions_cancelled_total=1 library_bytes=512"},
       {"TIDEPOOL_TEST_EVENTS", "3"}},
      false,
      false};
  CHECK(run(job).code() == -SIGKILL);
  const Outcome got = call("report", {folder / "run"});
  CHECK(got.code() == 0);
  CHECK(got.err.empty());
  CHECK(has_line(got.out, (folder / "run") + ": 1 of 1 processes asked for device memory"));
  CHECK(got.out.find(" (sh), started 20") != std::string::npos);
  CHECK(has_line(
      got.out,
      "  memory    needed 4.0 KiB, fitted in 2.0 KiB (peak 2.0 KiB). Swapped 3.0 KiB out, 2.0 KiB in."));
  CHECK(has_line(got.out, "            512 B held by CUDA libraries for themselves at the end"));
  CHECK(has_line(got.out, "  host      at most 1.0 KiB of moved blocks"));
  CHECK(has_line(got.out, "  moved     3 blocks out, 2 in; 1 moves out taken back"));
  CHECK(has_line(got.out, "  waited    1.5s; 7 calls found memory missing"));
  CHECK(has_line(got.out, "            1.2s for copy out"));
  CHECK(has_line(got.out, "            41ms for turn"));
  CHECK(got.out.find(" for pinning") == std::string::npos);  // none
  const Outcome json = call("report", {"--json", folder / "run"});
  if (!fs::exists("/usr/bin/python3")) return;
  const Job reader{{"/usr/bin/python3", "-c",
                    "import json,sys; p = json.load(sys.stdin)['processes'][0]; "
                    "print(p['metrics']['swap_out_total'], p['events'], p['events_lost'])"},
                   json.out,
                   {},
                   false,
                   false};
  CHECK(run(reader).out == "3 {'budget': 3} 0\n");
}

TEST_CASE("report: tells whether a process runs, how it ended and after what time") {
  ScratchFolder folder;
  const auto made = [&](const std::string& name, std::vector<std::string> words) {
    words.insert(words.begin(), {kTidepool, "run", "--quiet", "--run-dir", folder / name});
    return run({words, "", {{"TIDEPOOL_TEST_STATS", "allocated_bytes_peak=4096"}}, false, false});
  };
  const auto first = [](const std::string& text) {
    const std::size_t at = text.find("process ");
    return at == text.npos ? "" : text.substr(at, text.find('\n', at) - at);
  };
  const auto reported = [&](const std::string& name) { return first(call("report", {folder / name}).out); };
  made("killed", {"sh", "-c", "kill -9 $$"});
  CHECK(matches(reported("killed"), "process # (sh), started *, done in @ (killed by SIGKILL)"));
  CHECK(call("report", {"--json", folder / "killed"}).out.find("\"state\": \"ended\", \"took_ns\": ") !=
        std::string::npos);
  CHECK(call("report", {"--json", folder / "killed"}).out.find(", \"signal\": 9, \"only_watched\": false,") !=
        std::string::npos);
  made("three", {"sh", "-c", "sleep 0.1; exit 3"});
  CHECK(matches(reported("three"), "process # (sh), started *, done in @ (exit 3)"));
  CHECK(call("report", {"--json", folder / "three"}).out.find(", \"exit_code\": 3, ") != std::string::npos);
  // What it started has ended too; how, nobody knows.
  const std::string both = call("report", {folder / "three"}).out;
  CHECK(matches(first(both.substr(both.find("process ") + 1)), "process # (sleep), started *, has ended"));

  // From inside: the shell runs, and what it has started before does not.
  const Outcome inside =
      made("inside", {"sh", "-c", "/bin/true; '" + kTidepool + "' report $TIDEPOOL_RUN_DIR"});
  INFO(inside.out);
  CHECK(matches(first(inside.out), "process # (sh), started *, has run for @"));
  CHECK(inside.out.find(" (true), started ") != std::string::npos);
  CHECK(inside.out.find(", has ended\n") != std::string::npos);
  const Outcome json =
      made("json", {"sh", "-c", "'" + kTidepool + "' report --json $TIDEPOOL_RUN_DIR; true"});
  CHECK(json.out.find("\"state\": \"running\", \"took_ns\": ") != std::string::npos);
}

TEST_CASE("report: a program's name does not steer the terminal") {
  ScratchFolder folder;
  fs::copy_file("/bin/true", folder / "b\n\x1b[31mc");
  const Job job{{kTidepool, "run", "--quiet", "--run-dir", folder / "run", folder / "b\n\x1b[31mc"},
                "",
                {{"TIDEPOOL_TEST_STATS", "allocated_bytes_peak=4096"}},
                false,
                false};
  CHECK(run(job).code() == 0);
  const Outcome got = call("report", {folder / "run"});
  CHECK(got.out.find('\x1b') == std::string::npos);
  CHECK(got.out.find(" (b??[31mc), started ") != std::string::npos);
}

TEST_CASE("report: memory that was only watched is told so, with or without a trace") {
  ScratchFolder folder;
  run({{kTidepool, "run", "--quiet", "--mode", "observe", "--run-dir", folder.path(), "true"},
       "",
       {{"TIDEPOOL_TEST_STATS", "allocated_bytes_peak=4096"}},
       false,
       false});
  CHECK(call("report", {folder.path()})
            .out.find(" It was only watched (--mode observe): nothing was managed.") != std::string::npos);
  CHECK(call("report", {"--json", folder.path()}).out.find("\"only_watched\": true") != std::string::npos);
}

TEST_CASE("report: pipes under the names of a run's files are passed over") {
  ScratchFolder folder;
  for (const char* name : {"stats.1", "events.1", "p.tptrace"})
    REQUIRE(mkfifo((folder / name).c_str(), 0600) == 0);
  const Job job{{kTidepool, "run", "--run-dir", folder.path(), "true"},
                "",
                {{"TIDEPOOL_TEST_STATS", "allocated_bytes_peak=4096"}},
                false,
                false};
  CHECK(run(job).code() == 0);
  const Outcome got = call("report", {folder.path()});
  CHECK(got.code() == 0);
  CHECK(has_line(got.out, folder.path() + ": 1 of 1 processes asked for device memory"));
}

TEST_CASE("report: what is no run is refused") {
  ScratchFolder folder;
  const auto refused = [](const Outcome& got, const std::string& line) {
    CHECK(got.code() == 125);
    CHECK(got.out.empty());
    CHECK(got.err == "tidepool: report: " + line + "\n");
  };
  refused(call("report"), "name the folder of a run, its --run-dir");
  refused(call("report", {"/no/such"}), "/no/such is no folder");
  refused(call("report", {folder.path()}),
          folder.path() + " holds nothing of a run: no stats.PID of this version");
  refused(call("report", {"--json", folder.path()}),
          folder.path() + " holds nothing of a run: no stats.PID of this version");
  // Of another user: root reads everything, so it becomes one.
  const auto as_nobody = [](const std::string& path) {
    std::vector<std::string> words = {kTidepool, "report", path};
    if (getuid() == 0) words.insert(words.begin(), {"/usr/bin/setpriv", "--reuid=65534", "--clear-groups"});
    return run({words, "", {}, false, false});
  };
  write_file(folder / "stats.1", "", 0000);
  REQUIRE(chmod(folder.path().c_str(), 0755) == 0);
  refused(as_nobody(folder.path()),
          (folder / "stats.1") + " cannot be read: Permission denied. A run's folder is its user's alone");
  REQUIRE(chmod(folder.path().c_str(), 0000) == 0);
  refused(as_nobody(folder.path()),
          folder.path() + " cannot be read: Permission denied. A run's folder is its user's alone");
  REQUIRE(chmod(folder.path().c_str(), 0755) == 0);
  refused(call("report", {"a", "b"}), "there is one argument too many: 'b'");
}

}  // namespace
}  // namespace tidepool::test
