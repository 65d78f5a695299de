// What a run leaves to read: its log, its numbers and its report agree with each other and with the device.
#include <signal.h>

#include <catch2/catch.hpp>
#include <cstdint>
#include <fstream>
#include <sstream>

#include "tests/process/child_process.h"

namespace tidepool::test {
namespace {

const std::string kSimgpu = built("bin/simgpu");
const std::string kTidepool = built("bin/tidepool");
const std::string kTrainMlp = built("bin/train_mlp");

Outcome train(const std::string& folder, std::vector<std::string> options,
              std::vector<std::string> workload = {}) {
  std::vector<std::string> words = {kSimgpu, "--device", "h100", "--report",  folder + "/simgpu.json",
                                    "--",    kTidepool,  "run",  "--run-dir", folder + "/run"};
  words.insert(words.end(), options.begin(), options.end());
  words.insert(words.end(), {"--", kTrainMlp});
  words.insert(words.end(), workload.begin(), workload.end());
  return run({words, "", {}, false, false});
}

std::vector<std::string> log_of(const std::string& folder) {
  std::vector<std::string> lines;
  for (const std::string& name : names_in(folder + "/run")) {
    if (!name.ends_with(".jsonl")) continue;
    std::ifstream file(folder + "/run/" + name);
    for (std::string line; std::getline(file, line);) lines.push_back(line);
  }
  return lines;
}

/// The number behind `"key":` or `"key": `.
std::uint64_t number(const std::string& text, const std::string& key) {
  const std::size_t at = text.find("\"" + key + "\":");
  REQUIRE(at != std::string::npos);
  return std::stoull(text.substr(at + key.size() + 3));
}

struct Moves {
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
};

Moves moves(const std::vector<std::string>& log, const std::string& event) {
  Moves all;
  for (const std::string& line : log) {
    if (line.find("\"ev\":\"" + event + "\"") == std::string::npos) continue;
    ++all.count;
    all.bytes += number(line, "bytes");
  }
  return all;
}

TEST_CASE("records: log, numbers and report agree to the byte", "[plain]") {
  ScratchFolder folder;
  const Outcome got =
      train(folder.path(), {"--device-budget", "40MiB", "--log", "info,swap=debug"}, {"--steps", "3"});
  INFO(got.err);
  REQUIRE(got.code() == 0);
  const auto log = log_of(folder.path());
  REQUIRE(log.size() > 10);
  CHECK(log[0].find("\"schema\":\"tidepool.log/1\"") != std::string::npos);
  CHECK(log[1].find("\"ev\":\"process_start\"") != std::string::npos);
  CHECK(log[2].find("\"ev\":\"mode_change\"") != std::string::npos);
  CHECK(log[2].find("\"to\":\"active\"") != std::string::npos);
  CHECK(log[3].find("\"ev\":\"budget\"") != std::string::npos);
  CHECK(number(log[3], "capacity_bytes") == 40 << 20);
  CHECK(log.back().find("\"ev\":\"run_end\"") != std::string::npos);
  for (const std::string& line : log) CHECK(line.find("events_lost") == std::string::npos);

  const std::string json = run({{kTidepool, "report", "--json", folder / "run"}, "", {}, false, false}).out;
  const Moves out = moves(log, "block_out");
  const Moves in = moves(log, "block_in");
  CHECK(out.count > 0);
  CHECK(out.count == number(json, "swap_out_total"));
  CHECK(out.bytes == number(json, "swap_out_bytes_total"));
  CHECK(in.count == number(json, "swap_in_total"));
  CHECK(in.bytes == number(json, "swap_in_bytes_total"));
  const std::string text = run({{kTidepool, "report", folder / "run"}, "", {}, false, false}).out;
  CHECK(text.find("needed 74.0 MiB, fitted in 40.0 MiB (peak 38.0 MiB). Swapped ") != std::string::npos);
  CHECK(text.find("  moved     " + std::to_string(out.count) + " blocks out, " + std::to_string(in.count) +
                  " in; ") != std::string::npos);
}

TEST_CASE("records: messages are in the log and in the report, also with --quiet", "[plain]") {
  ScratchFolder folder;
  const Outcome got = train(folder.path(), {"--device-budget", "0.01%", "--quiet"}, {"--steps", "1"});
  REQUIRE(got.code() == 0);
  CHECK(got.err.empty());
  const std::string wanted =
      "--device-budget is 8.2 MiB of this device's 79.6 GiB. The least, 16.0 MiB, is used. ";
  bool found = false;
  for (const std::string& line : log_of(folder.path())) {
    found = found || (line.find("\"ev\":\"warning\"") != std::string::npos &&
                      line.find("\"code\":\"TP1005\",\"text\":\"" + wanted) != std::string::npos);
  }
  CHECK(found);
  const std::string text = run({{kTidepool, "report", folder / "run"}, "", {}, false, false}).out;
  CHECK(text.find("\n  message   TP1005, 1 time: " + wanted) != std::string::npos);
}

TEST_CASE("records: out of memory is in the log", "[plain]") {
  ScratchFolder folder;
  const Outcome got = train(folder.path(), {"--device-budget", "20MiB"},
                            {"--width", "2048", "--layers", "2", "--steps", "1"});
  CHECK(got.code() == 1);
  std::string all;
  for (const std::string& line : log_of(folder.path())) all += line + "\n";
  CHECK(all.find("\"ev\":\"out_of_memory\"") != std::string::npos);
  CHECK(all.find("\"code\":\"TP2001\",\"text\":\"kernel workload::") != std::string::npos);
  CHECK(all.find("\"exit_code\":1,\"signal\":0,") != std::string::npos);
}

TEST_CASE("records: the doctor sees the simulated device, and the program's run time", "[plain]") {
  const Outcome got =
      run({{kSimgpu, "--device", "h100", "--", kTidepool, "doctor", "--", kTrainMlp}, "", {}, false, false});
  CHECK(got.code() == 0);
  CHECK(got.out.find("PASS driver of CUDA 13.0: ") != std::string::npos);
  CHECK(got.out.find("PASS GPU 0 NVIDIA H100 80GB HBM3, 79.6 GiB\n") != std::string::npos);
  CHECK(got.out.find("PASS " + kTrainMlp + " uses the shared CUDA runtime, libcudart.so.13\n") !=
        std::string::npos);
}

}  // namespace
}  // namespace tidepool::test
