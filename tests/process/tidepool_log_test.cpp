// The logs that `tidepool run` writes from the rings of its processes.
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/process/child_process.h"

namespace tidepool::test {
namespace {

namespace fs = std::filesystem;

const std::string kTidepool = built("tests/stand_in/bin/tidepool");

/// A run in which each process records `events` pairs of events through the stand-in for the library.
Job job(const std::string& events, std::vector<std::string> words) {
  words.insert(words.begin(), {kTidepool, "run"});
  return {words, "", {{"TIDEPOOL_TEST_EVENTS", events}}, false, false};
}

std::vector<std::string> lines_of(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

std::vector<std::string> logs_in(const std::string& folder) {
  std::vector<std::string> logs;
  for (const std::string& name : names_in(folder)) {
    if (name.ends_with(".jsonl")) logs.push_back(name);
  }
  return logs;
}

/// Every line of the file is JSON, by another reader than ours.
bool is_json(const std::string& path) {
  if (!fs::exists("/usr/bin/python3")) return true;
  return run({{"/usr/bin/python3", "-c", "import json,sys\nfor l in open(sys.argv[1]): json.loads(l)", path},
              "",
              {},
              false,
              false})
             .code() == 0;
}

TEST_CASE("log: a header, the events, and how the program ended") {
  ScratchFolder folder;
  const Outcome got = run(job("3", {"--run-dir", folder / "run", "--log", "info", "sh", "-c", "exit 6"}));
  CHECK(got.code() == 6);
  const auto logs = logs_in(folder / "run");
  REQUIRE(logs.size() == 1);
  CHECK(logs[0].find("log.r0.") == 0);
  const auto lines = lines_of((folder / "run") + "/" + logs[0]);
  REQUIRE(lines.size() == 5);
  CHECK(lines[0].find("{\"schema\":\"tidepool.log/1\",\"run\":\"run\",\"start\":\"") == 0);
  CHECK(lines[0].find("\"argv\":[\"sh\",\"-c\",\"exit 6\"],\"options\":{\"run_dir\":\"") !=
        std::string::npos);
  CHECK(lines[1].find("\"ev\":\"budget\"") != std::string::npos);
  CHECK(lines[1].find("\"capacity_bytes\":0,\"device_bytes\":0,\"before_bytes\":0,\"cause\":\"start\"}") !=
        std::string::npos);
  CHECK(lines[4].find("\"ev\":\"run_end\"") != std::string::npos);
  CHECK(lines[4].find("\"exit_code\":6,\"signal\":0,\"took_ns\":") != std::string::npos);
  CHECK(is_json((folder / "run") + "/" + logs[0]));
}

TEST_CASE("log: kill -9 of the program loses nothing that was recorded") {
  ScratchFolder folder;
  CHECK(run(job("1500", {"--run-dir", folder / "run", "sh", "-c", "kill -9 $$"})).code() == -SIGKILL);
  const auto logs = logs_in(folder / "run");
  REQUIRE(logs.size() == 1);
  const auto lines = lines_of((folder / "run") + "/" + logs[0]);
  CHECK(lines.size() == 1502);
  CHECK(lines.back().find("\"signal\":9,") != std::string::npos);
}

TEST_CASE("log: levels by part") {
  ScratchFolder folder;
  const auto count = [&](const std::string& levels) {
    const std::string name = folder / levels;
    CHECK(run(job("2", {"--run-dir", name, "--log", levels, "true"})).code() == 0);
    const auto logs = logs_in(name);
    return logs.empty() ? 0 : static_cast<int>(lines_of(name + "/" + logs[0]).size());
  };
  CHECK(count("info") == 1 + 2 + 1);
  CHECK(count("info,swap=debug") == 1 + 4 + 1);
  CHECK(count("warn") == 1 + 1);
  CHECK(count("off") == 0);
  CHECK(names_in(folder / "off").size() == 2);  // the numbers and what the command knows
}

TEST_CASE("log: each process has its own, also after exec, and where names meet") {
  ScratchFolder folder;
  run(job("2", {"--run-dir", folder / "run", "sh", "-c", "exec sleep 0"}));
  const auto logs = logs_in(folder / "run");
  REQUIRE(logs.size() == 2);  // sh, and sleep in its place
  CHECK(lines_of((folder / "run") + "/" + logs[0])[0].find("\"argv\":[\"sleep\",\"0\"]") !=
        std::string::npos);
  CHECK(lines_of((folder / "run") + "/" + logs[0]).back().find("run_end") != std::string::npos);
  CHECK(lines_of((folder / "run") + "/" + logs[1])[0].find("\"argv\":[\"sh\",\"-c\"") != std::string::npos);
  run(job("2", {"--run-dir", folder / "other", "--log-file", folder / "all.jsonl", "sh", "-c",
                "/bin/true; exit 0"}));
  CHECK(logs_in(folder / "other").empty());
  int found = 0;
  for (const std::string& name : names_in(folder.path())) found += name.starts_with("all") ? 1 : 0;
  CHECK(found == 2);
}

TEST_CASE("log: more processes than there may be open files") {
  ScratchFolder folder;
  Job many = job("2", {});
  many.words = {"/bin/bash", "-c",
                "ulimit -n 128; exec " + kTidepool + " run --run-dir " + (folder / "run") +
                    " sh -c 'for i in $(seq 150); do /bin/true; done'"};
  const Outcome got = run(many);
  CHECK(got.code() == 0);
  CHECK(got.err.find("log is not complete") == std::string::npos);
  const auto logs = logs_in(folder / "run");
  CHECK(logs.size() == 152);  // sh, seq, and 150
  for (const std::string& log : logs) {
    const auto lines = lines_of((folder / "run") + "/" + log);
    REQUIRE(lines.size() >= 3);
    CHECK(lines[0].find("\"schema\"") != std::string::npos);
    CHECK(lines[1].find("\"schema\"") == std::string::npos);
  }
}

TEST_CASE("log: a full disk is said, and costs the log only") {
  if (!fs::exists("/dev/full")) return;
  const Outcome got = run(job("2", {"--log-file", "/dev/full", "sh", "-c", "echo out; exit 3"}));
  CHECK(got.code() == 3);
  CHECK(got.out == "out\n");
  CHECK(got.err.find("tidepool: warning: the log is not complete: ") == 0);
  CHECK(got.err.find("No space left on device") != std::string::npos);
}

TEST_CASE("log: one that is there already goes on, with a header for each process") {
  ScratchFolder folder;
  for (int i = 0; i < 2; ++i) run(job("2", {"--log-file", folder / "l.jsonl", "true"}));
  const auto lines = lines_of(folder / "l.jsonl");
  REQUIRE(lines.size() == 8);
  CHECK(lines[0].find("\"schema\"") != std::string::npos);
  CHECK(lines[3].find("run_end") != std::string::npos);
  CHECK(lines[4].find("\"schema\"") != std::string::npos);
  CHECK(lines[7].find("run_end") != std::string::npos);
}

TEST_CASE("log: runs that share a folder, beside or inside each other, write each event once") {
  ScratchFolder folder;
  const std::string shared =
      "TIDEPOOL_TEST_EVENTS=50 " + kTidepool + " run --run-dir " + (folder / "a%%b") + " sleep 0.5";
  run({{"/bin/sh", "-c", shared + " & " + shared + " & wait"}, "", {}, false, false});
  // A run inside a run finds the folder as it is, also with a % in its name.
  const Outcome nested = run(job("50", {"--run-dir", folder / "a%%b", kTidepool, "run", "sleep", "0.3"}));
  CHECK(nested.code() == 0);
  int programs = 0;
  for (const std::string& name : logs_in(folder / "a%b")) {
    const auto lines = lines_of((folder / "a%b") + "/" + name);
    INFO(name);
    const bool has_end = lines.back().find("run_end") != std::string::npos;
    CHECK(lines.size() == 1 + 50 + (has_end ? 1 : 0));
    programs += lines[0].find("\"sleep\"") != std::string::npos ? 1 : 0;
  }
  CHECK(programs == 4);  // three that sleep, and the run inside a run
  CHECK(names_in(folder.path()) == std::vector<std::string>{"a%b"});
}

TEST_CASE("log: rings of an earlier run in the same folder are not read again") {
  ScratchFolder folder;
  for (int i = 1; i <= 2; ++i) {
    run(job("2", {"--run-dir", folder / "run", "true"}));
    CHECK(logs_in(folder / "run").size() == static_cast<std::size_t>(i));
  }
}

TEST_CASE("log: a private folder has none, a file that was named has one") {
  ScratchFolder folder;
  Job private_run = job("2", {"true"});
  private_run.variables.emplace_back("TMPDIR", folder.path());
  CHECK(run(private_run).code() == 0);
  CHECK(names_in(folder.path()).empty());
  private_run.words.insert(private_run.words.begin() + 2, {"--log-file", folder / "%e.log"});
  CHECK(run(private_run).code() == 0);
  CHECK(names_in(folder.path()) == std::vector<std::string>{"true.log"});
  CHECK(lines_of(folder / "true.log").size() == 4);
}

TEST_CASE("log: grows to its size, then begins anew and keeps one predecessor, each with a header") {
  ScratchFolder folder;
  const std::string log = folder / "l.jsonl";
  // 30,000 events of about 100 bytes, slow enough to be read.
  Job large = job("30000/200", {"--log-file", log, "--log-max", "1MiB", "true"});
  large.variables.emplace_back("TMPDIR", folder.path());
  CHECK(run(large).code() == 0);
  CHECK(names_in(folder.path()) == std::vector<std::string>{"l.1.jsonl", "l.jsonl"});
  for (const char* name : {"l.jsonl", "l.1.jsonl"}) {
    CHECK(fs::file_size(folder / name) <= (1 << 20));
    CHECK(lines_of(folder / name)[0].find("{\"schema\":\"tidepool.log/1\"") == 0);
    CHECK(is_json(folder / name));
  }
}

TEST_CASE("log: events that came faster than they were written are counted in the log") {
  ScratchFolder folder;
  CHECK(run(job("20000", {"--run-dir", folder / "run", "true"})).code() == 0);
  const auto logs = logs_in(folder / "run");
  REQUIRE(logs.size() == 1);
  std::size_t seen = 0;
  std::size_t lost = 0;
  for (const std::string& line : lines_of((folder / "run") + "/" + logs[0])) {
    seen += line.find("\"ev\":\"budget\"") != std::string::npos ? 1 : 0;
    const std::size_t at = line.find("\"ev\":\"events_lost\",\"count\":");
    if (at != std::string::npos) lost += std::stoul(line.substr(at + 27));
  }
  CHECK(seen + lost == 20000);
}

TEST_CASE("log: is its owner's, and so is the folder that it is in") {
  ScratchFolder folder;
  const mode_t before = umask(022);
  run(job("2", {"--log-file", folder / "%e/l.jsonl", "true"}));
  run(job("30000/200", {"--run-dir", folder / "run", "--log-max", "1MiB", "true"}));
  umask(before);
  const auto mode_of = [](const std::string& path) {
    return static_cast<unsigned>(fs::status(path).permissions()) & 0777U;
  };
  CHECK(mode_of(folder / "true") == 0700);
  CHECK(mode_of(folder / "true/l.jsonl") == 0600);
  const auto logs = logs_in(folder / "run");
  CHECK(logs.size() == 2);  // and the one before
  for (const std::string& log : logs) CHECK(mode_of((folder / "run") + "/" + log) == 0600);
}

TEST_CASE("log: a name under which none can be written is refused, and nothing is made") {
  ScratchFolder folder;
  write_file(folder / "file", "");
  fs::create_directory(folder / "sub");
  REQUIRE(mkfifo((folder / "pipe").c_str(), 0600) == 0);
  const auto refused = [&](const std::string& name, const std::string& why) {
    const Outcome got = run(job("2", {"--log-file", name, "echo", "x"}));
    INFO(name);
    CHECK(got.code() == 125);
    CHECK(got.out.empty());
    CHECK(got.err == "tidepool: run: the log " + name + " cannot be written: " + why + "\n");
  };
  refused(folder / "no/such/l.jsonl", "there is no folder " + (folder / "no/such"));
  refused(folder / "no/%e/l.jsonl", "there is no folder " + (folder / "no"));
  refused(folder / "file/l.jsonl", "there is no folder " + (folder / "file"));
  refused("no-such-folder/%p", "there is no folder no-such-folder");
  refused(folder / "sub", "it is a folder");
  refused(folder / "pipe", "it is no file");
  CHECK(names_in(folder.path()) == std::vector<std::string>{"file", "pipe", "sub"});
}

TEST_CASE("log: a name that makes no sense is refused") {
  const Outcome wrong = run(job("2", {"--log-file", "%z", "echo", "x"}));
  CHECK(wrong.code() == 125);
  CHECK(wrong.err ==
        "tidepool: run: the name of the log %z is not valid: %z is none of %p, %h, %e, %t, %r, %j, %R, "
        "%q{NAME} and %%\n");
  const Outcome levels = run(job("2", {"--log", "loud", "echo", "x"}));
  CHECK(levels.err ==
        "tidepool: run: --log loud is not valid: a level is none of off, error, warn, info, debug, trace\n");
  const Outcome part = run(job("2", {"--log", "info,swop=debug", "echo", "x"}));
  CHECK(part.err ==
        "tidepool: run: --log info,swop=debug is not valid: a part is none of run memory swap message\n");
}

/// Bytes that the files of a folder have on their disk.
std::uint64_t room_of(const std::string& folder) {
  std::uint64_t sum = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    struct stat file {};
    if (stat(entry.path().c_str(), &file) == 0) sum += static_cast<std::uint64_t>(file.st_blocks) * 512;
  }
  return sum;
}

std::size_t rings_mapped_by(pid_t pid) {
  std::ifstream maps("/proc/" + std::to_string(pid) + "/maps");
  std::size_t count = 0;
  for (std::string line; std::getline(maps, line);) count += line.find("/events.") != std::string::npos;
  return count;
}

// A shell, and 150 processes one after the other that end at once.
const std::string kManyProcesses =
    "i=0; while [ $i -lt 150 ]; do /bin/true; i=$((i+1)); done; sleep 2.5; echo all; sleep 0.5";

TEST_CASE("log: rings of processes that have ended take no room, and the report still tells of them") {
  ScratchFolder folder;
  Running running(job("3", {"--run-dir", folder / "run", "--log", "info", "sh", "-c", kManyProcesses}));
  REQUIRE(running.wait_for("all"));
  CHECK(rings_mapped_by(running.pid()) <= 2);  // the shell's, and one that is just coming
  CHECK(room_of(folder / "run") < 151 * 32 * 1024 + (2 << 20));
  CHECK(running.finish().code() == 0);
  const auto logs = logs_in(folder / "run");
  CHECK(logs.size() >= 151);
  std::size_t ends = 0;
  for (const std::string& log : logs) {
    const auto lines = lines_of((folder / "run") + "/" + log);
    ends += lines.back().find("\"ev\":\"run_end\"") != std::string::npos;
    CHECK(lines.size() >= 4);  // a header and three events
  }
  CHECK(ends == 1);
  const Outcome report = run({{built("bin/tidepool"), "report", folder / "run"}, "", {}, false, false});
  CHECK(report.code() == 0);
  CHECK(report.out.find("earlier ones are in the log") == std::string::npos);
}

TEST_CASE("log: where no log is written rings go with their processes, or give their room back") {
  ScratchFolder folder;
  for (const bool has_folder : {false, true}) {
    const std::string look = kManyProcesses + "; du -s --block-size=1 $TIDEPOOL_RUN_DIR";
    std::vector<std::string> words = {"--log", "info", "--log-file", "", "sh", "-c", look};
    if (has_folder) words.insert(words.begin(), {"--run-dir", folder / "run"});
    Running running(job("3", words));
    REQUIRE(running.wait_for("all"));
    CHECK(rings_mapped_by(running.pid()) == 0);
    const Outcome got = running.finish();
    CHECK(got.code() == 0);
    REQUIRE(got.out.starts_with("all\n"));
    const std::uint64_t room = std::strtoull(got.out.c_str() + 4, nullptr, 10);
    INFO("with a folder of its own: " << has_folder);
    CHECK(room > 150 * 4096);  // the numbers of each process
    CHECK(room < 160 * 32 * 1024 + (4 << 20));
  }
}

TEST_CASE("log: stderr takes those of all processes, a line each; other descriptors are the program's") {
  for (const char* name : {"stderr", "/dev/stderr"}) {
    const Outcome got = run(job("1", {"--quiet", "--log-file", name, "sh", "-c", "echo out; exit 3"}));
    CHECK(got.code() == 3);
    CHECK(got.out == "out\n");
    CHECK(got.err.find("{\"schema\":\"tidepool.log/1\",") == 0);
    CHECK(std::count(got.err.begin(), got.err.end(), '\n') == 3);  // and a budget, and the end
    CHECK(got.err.find("\"exit_code\":3,\"signal\":0,\"took_ns\":") != std::string::npos);
  }
  for (const char* name : {"-", "/dev/stdout", "/dev/fd/2", "/proc/self/fd/1"}) {
    const Outcome got = run(job("1", {"--log-file", name, "true"}));
    CHECK(got.code() == 125);
    CHECK(got.err == std::string("tidepool: run: the log ") + name +
                         " cannot be written: stdout and other descriptors are the program's. Name a "
                         "file, or stderr\n");
  }
}

}  // namespace
}  // namespace tidepool::test
