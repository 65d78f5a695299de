// The runtime at the edges of a program that nvcc built, and what the report says about functions that are
// not there.

#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/process/child_process.h"

namespace {

using tidepool::test::built;
using tidepool::test::Outcome;
using tidepool::test::ScratchFolder;

Outcome simgpu(std::vector<std::string> words) {
  tidepool::test::Job job;
  job.words = std::move(words);
  job.words.insert(job.words.begin(), built("bin/simgpu"));
  job.variables = {{"LD_PRELOAD", ""}};  // nothing is preloaded here, so no sanitizer has to come first
  return tidepool::test::run(job);
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

const std::string kProgram = built("tests/simgpu_runtime_exit");

}  // namespace

TEST_CASE("runtime: calls before main, after it, and from threads that end or do not") {
  for (int seed = 1; seed <= 10; ++seed) {
    const Outcome o = simgpu({"--seed", std::to_string(seed), "--", kProgram});
    INFO("seed " << seed << ": " << o.err);
    REQUIRE(o.code() == 0);
    REQUIRE(o.out == "counted 5\n");
  }
}

TEST_CASE("runtime: the report lists what was refused and what nobody knows") {
  const ScratchFolder folder;
  const std::string file = folder / "report.json";
  const Outcome o = simgpu({"--report", file, "--", kProgram, "ask"});
  INFO(o.err);
  REQUIRE(o.code() == 0);
  REQUIRE(contains(o.out, "array cudaErrorNotSupported\nfuture 1\ndriver 801\n"));
  std::ifstream in(file);
  const std::string report{std::istreambuf_iterator<char>(in), {}};
  INFO(report);
  const std::string refused = report.substr(report.find("\"not_supported\": {"));
  REQUIRE(contains(refused.substr(0, refused.find('}')), "\"cuArrayDestroy\": 1"));
  REQUIRE(contains(refused.substr(0, refused.find('}')), "\"cudaMallocArray\": 1"));
  const std::string unknown = report.substr(report.find("\"unknown_entry_points\": {"));
  REQUIRE(contains(unknown.substr(0, unknown.find('}')), "\"cuFromTheFuture\": 1"));
}
