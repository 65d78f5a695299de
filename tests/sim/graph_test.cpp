// Programs that use graphs in less memory than they ask for: what graphs name stays on the device, what they
// do not name moves, before, between and after their launches.

#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/process/child_process.h"
#include "tests/sim/device_run.h"

namespace tidepool::test {
namespace {

const std::string kSimgpu = built("bin/simgpu");
const std::string kTidepool = built("bin/tidepool");
const std::string kJob = built("tests/graph_job");

DeviceRun run_job(int seed, const std::string& budget, const std::vector<std::string>& options = {},
                  const std::vector<std::string>& job = {"3"}) {
  std::vector<std::string> tidepool;
  if (!budget.empty()) tidepool = {"--device-budget", budget, "--check", "full"};
  tidepool.insert(tidepool.end(), options.begin(), options.end());
  std::vector<std::string> program = {built("tests/graph_job")};
  program.insert(program.end(), job.begin(), job.end());
  return run_on_device({"--seed", std::to_string(seed)}, tidepool, program);
}

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

}  // namespace

// HAMi-core#192, HAMi#1360 (a capture crashed in hooks), aws-ofi-nccl PR#1342 (calls of the shim's own broke
// a capture), sglang PR#32718 (the memory of a graph lost its contents).
TEST_CASE("graph: a program that launches graphs runs in half of the memory it asks for") {
  const DeviceRun plain = run_job(1, "");
  REQUIRE(plain.outcome.code() == 0);
  for (int seed = 1; seed <= seeds_of_sweep(); ++seed) {
    INFO("seed " << seed);
    const DeviceRun got = run_job(seed, "32MiB");
    INFO(got.outcome.err);
    REQUIRE(got.outcome.code() == 0);
    CHECK(got.outcome.out == plain.outcome.out);
    CHECK(got.number("memory", "physical_peak_bytes") <= 32 * kMiB);
    // 44 MiB of blocks that no graph names share 12 MiB: each round they come and go.
    CHECK(got.number("d2h", "bytes") >= 3 * 32 * kMiB);
    CHECK(got.outcome.err.find("TP2101") == std::string::npos);
  }
}

TEST_CASE("graph: memory that comes again at the address that a graph names is the graph's") {
  const std::vector<std::string> job = {"6", "again"};
  const DeviceRun plain = run_job(1, "", {}, job);
  REQUIRE(plain.outcome.code() == 0);
  for (int seed = 1; seed <= seeds_of_sweep(); ++seed) {
    INFO("seed " << seed);
    const DeviceRun got = run_job(seed, "24MiB", {}, job);
    INFO(got.outcome.err);
    REQUIRE(got.outcome.code() == 0);
    CHECK(got.outcome.out == plain.outcome.out);
    CHECK(got.number("memory", "physical_peak_bytes") <= 24 * kMiB);
    // Else nothing was asked of Tidepool.
    CHECK(got.outcome.err.find("graph_job: made 1 times") != std::string::npos);
  }
}

// The events around timed launches are asked for while the next graph is captured; in the mode that
// cudaStreamBeginCapture has by default a capture ends with an error if anybody asks for one.
TEST_CASE("graph: a trace with timed kernels is no matter of captures") {
  const std::vector<std::string> job = {"12", "captures"};
  const DeviceRun plain = run_job(1, "", {}, job);
  REQUIRE(plain.outcome.code() == 0);
  for (int seed = 1; seed <= seeds_of_sweep(); ++seed) {
    INFO("seed " << seed);
    const ScratchFolder folder;  // where nothing is kept, nothing is recorded
    const DeviceRun got = run_job(seed, "64MiB", {"--run-dir", folder.path(), "--trace", "ops"}, job);
    INFO(got.outcome.err);
    const auto kept = names_in(folder.path());
    CHECK(std::any_of(kept.begin(), kept.end(),
                      [](const std::string& name) { return name.ends_with(".tptrace"); }));
    CHECK(got.outcome.code() == 0);
    CHECK(got.outcome.out == plain.outcome.out);
  }
}

TEST_CASE("graph: what it uses is freed after it, also while a stream is captured") {
  for (int seed = 1; seed <= 20; ++seed) {
    INFO("seed " << seed);
    for (const std::vector<std::string>& tidepool :
         {std::vector<std::string>(), {kTidepool, "run", "--device-budget", "64MiB", "--"}}) {
      std::vector<std::string> words = {kSimgpu, "--seed", std::to_string(seed), "--"};
      words.insert(words.end(), tidepool.begin(), tidepool.end());
      words.push_back(built("tests/capture_free_job"));
      const Outcome got = run({words, "", {}, false, false});
      INFO(got.err);
      REQUIRE(got.code() == 0);
      CHECK(got.out == "0 changed\n");
      CHECK(got.err.find("race") == std::string::npos);
    }
  }
}

TEST_CASE("graph: a reset while a stream is captured leaves nothing behind") {
  const Outcome got = run({{kSimgpu, "--memory", "96MiB", "--", kTidepool, "run", "--device-budget", "64MiB",
                            "--", built("tests/capture_free_job"), "reset"},
                           "",
                           {},
                           false,
                           false});
  INFO(got.err);
  CHECK(got.code() == 0);
  CHECK(got.out == "done\n");
  CHECK(got.err.find(" TP") == std::string::npos);
}

// pytorch#193402, #192061: the memory of a graph was unmapped.
TEST_CASE("graph: what its nodes name must fit") {
  const DeviceRun got = run_job(1, "16MiB");
  INFO(got.outcome.err);
  CHECK(got.outcome.code() == 1);
  CHECK(got.outcome.err.find("needs ") != std::string::npos);
  CHECK(got.outcome.err.find("cudaErrorMemoryAllocation") == std::string::npos);
  CHECK(got.outcome.err.find("out of memory") != std::string::npos);
}

// CUDA: what fails in a capture makes it invalid, so that nobody launches a graph which lacks something.
TEST_CASE("graph: work that is refused in a capture makes it invalid, and no other capture") {
  const std::vector<std::string> program = {built("tests/graph_job"), "1", "refused"};
  const DeviceRun plain = run_on_device({}, {}, program);
  INFO(plain.outcome.err);
  CHECK(plain.outcome.out ==
        "call 0 status 1 end 0 graph yes beside 1\ncall 0 status 1 end 0 graph yes beside 1\n");
  const DeviceRun got = run_on_device({}, {"--device-budget", "16MiB"}, program);
  INFO(got.outcome.err);
  CHECK(got.outcome.out ==
        "call 2 status 2 end 901 graph no beside 1\ncall 2 status 2 end 901 graph no beside 1\n");
}

TEST_CASE("graph: a question about its nodes that fails once is asked again") {
  const DeviceRun plain = run_job(1, "");
  for (const char* question : {"cuGraphGetNodes nth=1", "cuGraphGetNodes nth=2", "cuGraphNodeGetType nth=1",
                               "cuGraphKernelNodeGetParams nth=1", "cuGraphMemcpyNodeGetParams nth=1"}) {
    INFO(question);
    const ScratchFolder folder;
    write_file(folder / "plan", std::string(question) + " return=CUDA_ERROR_UNKNOWN\n");
    const DeviceRun got = run_on_device({"--faults", folder / "plan"}, {"--device-budget", "32MiB"},
                                        {built("tests/graph_job"), "3"});
    INFO(got.outcome.err);
    CHECK(got.outcome.err.find("fault plan, line 1") != std::string::npos);
    CHECK(got.outcome.err.find("TP21") == std::string::npos);
    CHECK(got.outcome.code() == 0);
    CHECK(got.outcome.out == plain.outcome.out);
  }
}

TEST_CASE("graph: a capture that does not fit is refused with a budget that is enough at once") {
  const auto with_budget = [](const char* budget) {
    return run_on_device({}, {"--device-budget", budget}, {built("tests/graph_job"), "1", "captures"});
  };
  const DeviceRun refused = with_budget("16MiB");
  INFO(refused.outcome.err);
  CHECK(refused.outcome.code() == 1);
  // Its launches need their memory one after the other; what is made of it needs all of it.
  CHECK(refused.outcome.err.find("E TP2001 cuGraphInstantiateWithFlags needs 32.0 MiB at once") !=
        std::string::npos);
  CHECK(refused.outcome.err.find("Raise --device-budget to 32.0 MiB or more.") != std::string::npos);
  const DeviceRun enough = with_budget("32MiB");
  INFO(enough.outcome.err);
  CHECK(enough.outcome.code() == 0);
}

}  // namespace tidepool::test
