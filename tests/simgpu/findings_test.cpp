// What the simgpu command says at the end of a run, and how it ends, by what the report counts.

#include <catch2/catch.hpp>
#include <csignal>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/process/child_process.h"

namespace {

using tidepool::test::built;
using tidepool::test::Outcome;
using tidepool::test::ScratchFolder;

const std::string kProgram = built("tests/simgpu_findings");

Outcome simgpu(std::vector<std::string> options, const std::vector<std::string>& command) {
  tidepool::test::Job job;
  job.words = {built("bin/simgpu")};
  job.words.insert(job.words.end(), options.begin(), options.end());
  job.words.emplace_back("--");
  job.words.insert(job.words.end(), command.begin(), command.end());
  job.variables = {{"LD_PRELOAD", ""}};
  return tidepool::test::run(job);
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

const std::string kOneDigest =
    "simgpu: 1 kernel has no CPU body and ran as a digest: its numbers mean nothing (--summary lists it)\n";

}  // namespace

TEST_CASE("findings: --error-exitcode ends with its code where races or errors were found") {
  const auto ends = [](const std::vector<std::string>& words, int code, const std::string& found) {
    std::vector<std::string> command = {kProgram};
    command.insert(command.end(), words.begin(), words.end());
    CHECK(simgpu({}, command).code() == 0);
    const Outcome o = simgpu({"--error-exitcode", "9"}, command);
    INFO(o.err);
    CHECK(o.code() == code);
    CHECK(o.out == "done\n");
    const std::string line = "simgpu: the command ended with 0, but the report counts " + found +
                             ": ending with 9 (--error-exitcode)\n";
    CHECK(contains(o.err, "--error-exitcode") == (code != 0));
    CHECK(o.err.ends_with(found.empty() ? "" : line));
  };
  ends({"clean"}, 0, "");
  ends({"race"}, 9, "1 race");
  ends({"race", "race"}, 9, "2 races");
  ends({"possible"}, 0, "");
  ends({"illegal"}, 9, "1 error");
  ends({"race", "illegal"}, 9, "1 race and 1 error");
}

TEST_CASE("findings: another end of the command stays what it is") {
  CHECK(simgpu({"--error-exitcode=9"}, {kProgram, "race", "fail"}).code() == 5);
  CHECK(simgpu({"--error-exitcode=9"}, {"sh", "-c", kProgram + " race; kill -TERM $$"}).code() == -SIGTERM);
  CHECK(simgpu({"--error-exitcode=9"}, {"no-such-program"}).code() == 127);
  CHECK(simgpu({"--error-exitcode=9"}, {built("tests/simgpu_static_runtime")}).code() == 125);
}

TEST_CASE("findings: races of any process count, and the report has the command's own end") {
  const ScratchFolder folder;
  const std::string file = folder / "report.json";
  const Outcome o = simgpu({"--error-exitcode", "255", "--report", file},
                           {"sh", "-c", kProgram + " race; " + kProgram + " clean"});
  CHECK(o.code() == 255);
  std::ifstream in(file);
  const std::string report{std::istreambuf_iterator<char>(in), {}};
  CHECK(contains(report, "\"command\": { \"exit_code\": 0, "));
}

TEST_CASE("findings: kernels that ran as digests are told at the end, unless --summary lists them") {
  CHECK(simgpu({}, {kProgram, "clean"}).err.empty());
  CHECK(simgpu({}, {kProgram, "digest", "digest"}).err == kOneDigest);
  CHECK(simgpu({}, {kProgram, "digests"}).err ==
        "simgpu: 2 kernels have no CPU body and ran as digests: their numbers mean nothing (--summary lists "
        "them)\n");
  CHECK(simgpu({}, {kProgram, "digest", "fail"}).err == kOneDigest);
  const Outcome listed = simgpu({"--summary"}, {kProgram, "digests", "digest"});
  CHECK_FALSE(contains(listed.err, "--summary lists"));
  CHECK(contains(listed.err,
                 "  digests        3 launches of kernels that have no CPU body: their results are digests: "
                 "add_one(int*) 2, add_two(int*) 1\n"));
}
