// A program whose kernels have no CPU bodies runs as digests: whatever the order of its work and wherever its
// memory is, it prints the same; and it does so in half of the memory it asks for.

#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>

#include "tests/process/child_process.h"
#include "tests/sim/device_run.h"

namespace tidepool::test {
namespace {

const std::string kSimgpu = built("bin/simgpu");
const std::string kTidepool = built("bin/tidepool");
const std::string kJob = built("tests/digest_job");
const int kSeeds = seeds_of_sweep();

/// With `table` one kernel gets its inputs by pointers in memory.
DeviceRun run_job(int seed, const std::vector<std::string>& front = {},
                  const std::vector<std::string>& options = {}, bool table = false) {
  const ScratchFolder folder;
  const std::string report = folder / "report.json";
  std::vector<std::string> words = {kSimgpu, "--seed", std::to_string(seed), "--report", report};
  words.insert(words.end(), options.begin(), options.end());
  words.emplace_back("--");
  words.insert(words.end(), front.begin(), front.end());
  words.insert(words.end(), {kJob, sanitized() ? "1" : "2"});
  if (table) words.emplace_back("table");
  DeviceRun result;
  result.outcome = run({words, "", {}, false, false});
  std::stringstream text;
  text << std::ifstream(report).rdbuf();
  result.report = text.str();
  INFO(result.outcome.err);
  REQUIRE(result.outcome.code() == 0);
  REQUIRE(result.outcome.out.starts_with("digest "));
  return result;
}

void expect_same_in_half(int first_seed, int count) {
  const DeviceRun plain = run_job(1);
  const std::uint64_t peak = plain.number("memory", "physical_peak_bytes");
  const std::vector<std::string> half = {kTidepool, "run", "--device-budget", std::to_string(peak / 2), "--"};
  for (int seed = first_seed; seed < first_seed + count; ++seed) {
    INFO("seed " << seed);
    const DeviceRun small = run_job(seed, half);
    REQUIRE(small.outcome.out == plain.outcome.out);
    REQUIRE(small.number("memory", "physical_peak_bytes") <= peak / 2);
    REQUIRE(small.number("h2d", "bytes") > plain.number("h2d", "bytes"));
    // Blocks are moved about behind the program's back, and none of its pointers is stale for that.
    REQUIRE(small.number("digests", "possible_illegal_addresses") == 0);
  }
}

}  // namespace

TEST_CASE("digests: a program prints the same for every seed") {
  const DeviceRun first = run_job(1, {}, {}, true);
  CHECK(first.report.find("forward(float const*, float const*, float*, int)") != std::string::npos);
  for (int seed = 2; seed <= kSeeds; ++seed) {
    INFO("seed " << seed);
    REQUIRE(run_job(seed, {}, {}, true).outcome.out == first.outcome.out);
  }
}

// In two cases, for two cores. PhOS#9, #17: kernels of other files were not found.
TEST_CASE("digests: half of the memory gives the same, lower half of the seeds") {
  expect_same_in_half(1, kSeeds / 2);
}

TEST_CASE("digests: half of the memory gives the same, upper half of the seeds") {
  expect_same_in_half(kSeeds / 2 + 1, kSeeds - kSeeds / 2);
}

TEST_CASE("digests: where roles are exact no pointer is taken for a stale one in half of the memory") {
  const ScratchFolder folder;
  const std::string roles = folder / "roles";
  std::ofstream(roles) << "simgpu-roles 1\nkernel forward*\n param 0 in\n param 1 in\n param 2 out\n"
                          "kernel backward*\n param 0 in\n param 1 in\n param 2 inout\n param 3 out\n";
  const std::vector<std::string> options = {"--roles", roles};
  const DeviceRun plain = run_job(1, {}, options);
  const std::uint64_t peak = plain.number("memory", "physical_peak_bytes");
  const std::vector<std::string> half = {kTidepool, "run", "--device-budget", std::to_string(peak / 2), "--"};
  for (int seed = 1; seed <= kSeeds / 2; ++seed) {
    INFO("seed " << seed);
    const DeviceRun small = run_job(seed, half, options);
    REQUIRE(small.number("errors_total", "errors_total") == 0);
  }
}

TEST_CASE("digests: a page that a copy lost shows in what the program prints", "[plain]") {
  const DeviceRun plain = run_job(1);
  const std::uint64_t peak = plain.number("memory", "physical_peak_bytes");
  const std::vector<std::string> half = {kTidepool, "run", "--device-budget", std::to_string(peak / 2), "--"};
  // The program's own copies to the device come first: one for each of its weights, and the table.
  const int own = 18;
  for (int i = 1; i <= 10; ++i) {
    const ScratchFolder folder;
    const std::string plan = folder / "plan";
    const char* const how = i % 2 == 0 ? "drop" : "corrupt";
    std::ofstream(plan) << "copy h2d nth=" << own + 3 * i << ' ' << how << " offset=" << 4096 * 31 * i
                        << " bytes=4096\n";
    INFO("copy " << own + 3 * i);
    const DeviceRun damaged = run_job(1, half, {"--faults", plan});
    REQUIRE(damaged.number("faults_injected", "faults_injected") == 1);
    CHECK(damaged.outcome.out != plain.outcome.out);
  }
}

TEST_CASE("digests: the report says so, and whose roles are known", "[plain]") {
  const ScratchFolder folder;
  const std::string roles = folder / "roles";
  std::ofstream(roles)
      << "simgpu-roles 1\nkernel forward*\n mutable out\nkernel gather*\n table 0 3 in\n param 1 inout\n";
  const DeviceRun known = run_job(1, {}, {"--roles", roles, "--digest", "full", "--summary"}, true);
  CHECK(known.number("roles_known", "forward(float const*, float const*, float*, int)") == 2 * 16);
  CHECK(known.number("roles_inferred", "backward(float const*, float const*, float*, float*, int)") == 32);
  CHECK(known.outcome.err.find("have no CPU body: their results are digests") != std::string::npos);
}

TEST_CASE("digests: a role file that cannot be used is one line, before the program starts", "[plain]") {
  const ScratchFolder folder;
  const std::string roles = folder / "roles";
  std::ofstream(roles) << "simgpu-roles 1\nkernel k\n param 0 inn\n";
  const Outcome bad = run({{kSimgpu, "--roles", roles, "--", kJob}, "", {}, false, false});
  CHECK(bad.code() == 125);
  CHECK(bad.err ==
        "simgpu: error: --roles: " + roles +
            ":3: 'inn' where one of in, out, inout, none is wanted (did you mean 'in'?); nothing was run\n");
  const Outcome missing =
      run({{kSimgpu, "--", kJob}, "", {{"SIMGPU_ROLES", "/nowhere/roles"}}, false, false});
  CHECK(missing.code() == 125);
  CHECK(missing.err ==
        "simgpu: error: SIMGPU_ROLES: role file /nowhere/roles: No such file or directory; name a file that "
        "can be read; nothing was run\n");
  CHECK(run({{kSimgpu, "--digest", "64k", "--", kJob}, "", {}, false, false}).code() == 125);
}

TEST_CASE("digests: a kernel that needs a body is refused", "[plain]") {
  const ScratchFolder folder;
  const std::string roles = folder / "roles";
  std::ofstream(roles) << "simgpu-roles 1\nkernel gather*\n needs-body\n";
  const Outcome got = run({{kSimgpu, "--roles", roles, "--", kJob, "1", "table"}, "", {}, false, false});
  CHECK(got.code() == 1);
  CHECK(
      got.err.find(
          "kernel 'gather(float const* const*, float*, int)' has no CPU body (see simgpu/kernel.h), and the "
          "role file says (line 2) that it needs one; it was not launched") != std::string::npos);
}

}  // namespace tidepool::test
