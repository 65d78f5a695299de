// TIDEPOOL_CHECK=unmap: programs whose kernels name what they use run as without it; one whose kernel finds a
// pointer elsewhere meets an illegal address, also where all memory would fit, and is told which kernel it
// is.

#include <catch2/catch.hpp>

#include "tests/process/child_process.h"
#include "tests/sim/device_run.h"

namespace tidepool::test {
namespace {

const std::string kSimgpu = built("bin/simgpu");
const std::string kTidepool = built("bin/tidepool");

DeviceRun on_device(const std::vector<std::string>& program, const std::vector<std::string>& tidepool = {}) {
  return run_on_device({"--device", "h100"}, tidepool, program);
}

void expect_same(const std::string& workload, const std::string& alloc) {
  const std::vector<std::string> program = {built("bin/" + workload), "--steps", "1", "--alloc", alloc};
  const DeviceRun plain = on_device(program);
  REQUIRE(plain.outcome.code() == 0);
  const std::uint64_t peak = plain.number("memory", "physical_peak_bytes");
  for (const std::uint64_t percent : {100, 50}) {
    INFO(workload << ", " << alloc << ", " << percent << " per cent");
    const std::uint64_t budget = peak * percent / 100;
    const DeviceRun got = on_device(program, {"--device-budget", std::to_string(budget), "--check", "unmap"});
    INFO(got.outcome.err);
    CHECK(got.outcome.code() == 0);
    CHECK(got.outcome.out == plain.outcome.out);
    CHECK(got.outcome.err.find(" TP") == std::string::npos);
    CHECK(got.number("memory", "physical_peak_bytes") <= budget);
    CHECK(got.number("errors_total", "errors_total") == 0);
    CHECK(got.number("races", "total") == 0);
    // More than ever were mapped at once had to be unmapped: about one for each launch.
    CHECK(got.number("calls", "cuMemUnmap") > got.number("calls", "cuLaunchKernel") / 4);
  }
}

}  // namespace

// All of them in the nightly sweep.
TEST_CASE("unmap: a perceptron trains the same, with every idle block unmapped") {
  for (const char* alloc : {"plain", "async", "pool"}) expect_same("train_mlp", alloc);
}

TEST_CASE("unmap: the other jobs train the same, with every idle block unmapped", "[plain]") {
  const std::pair<const char*, const char*> jobs[] = {
      {"train_cnn", "plain"}, {"train_lstm", "async"}, {"train_transformer", "pool"}};
  for (const auto& [job, usual] : jobs) {
    for (const std::string alloc : {"plain", "async", "pool"}) {
      if (alloc == usual || is_sweep()) expect_same(job, alloc);
    }
  }
}

TEST_CASE("unmap: a pointer that no argument shows ends in an illegal address, and the kernel is named") {
  const std::vector<std::string> program = {built("tests/hidden_job")};
  const DeviceRun plain = on_device(program);
  REQUIRE(plain.outcome.code() == 0);

  // Where everything fits it passes by luck.
  const DeviceRun lucky = on_device(program, {"--device-budget", "64MiB", "--check", "full"});
  CHECK(lucky.outcome.code() == 0);
  CHECK(lucky.outcome.out == plain.outcome.out);

  const DeviceRun got = on_device(program, {"--device-budget", "64MiB", "--check", "unmap"});
  INFO(got.outcome.err);
  CHECK(got.outcome.code() == 1);
  CHECK(got.outcome.out.empty());
  CHECK(got.outcome.err.find("illegal memory access") != std::string::npos);
  CHECK(got.outcome.err.find(" E TP2020 kernel (anonymous namespace)::follow(") != std::string::npos);
  CHECK(got.outcome.err.find("TP3006") == std::string::npos);  // its advice is this run

  // What its explanation advises: above the size that the program asks for, which is 7422 KiB.
  for (const char* above : {"7423KiB", "8MiB"}) {
    const DeviceRun kept =
        on_device(program, {"--device-budget", "64MiB", "--check", "unmap", "--min-block", above});
    INFO(above << ": " << kept.outcome.err);
    CHECK(kept.outcome.code() == 0);
    CHECK(kept.outcome.out == plain.outcome.out);
  }
  const DeviceRun equal =
      on_device(program, {"--device-budget", "64MiB", "--check", "unmap", "--min-block", "7422KiB"});
  CHECK(equal.outcome.code() == 1);
}

TEST_CASE("unmap: a pointer in a packed struct that nothing betrays is found") {
  const std::vector<std::string> program = {built("tests/odd_places_job"), "unseen"};
  const DeviceRun plain = on_device(program);
  REQUIRE(plain.outcome.code() == 0);
  const DeviceRun got = on_device(program, {"--device-budget", "64MiB", "--check", "unmap"});
  INFO(got.outcome.err);
  CHECK(got.outcome.code() == 1);
  CHECK(got.outcome.out.empty());
  CHECK(got.outcome.err.find(" E TP2020 kernel (anonymous namespace)::add_unseen(") != std::string::npos);
}

TEST_CASE("unmap: a kernel that names no memory of the device at all is named as well") {
  const std::vector<std::string> program = {built("tests/hidden_job"), "on_host"};
  const DeviceRun plain = on_device(program);
  REQUIRE(plain.outcome.code() == 0);

  const DeviceRun got = on_device(program, {"--device-budget", "64MiB", "--check", "unmap"});
  INFO(got.outcome.err);
  CHECK(got.outcome.code() == 1);
  CHECK(got.outcome.out.empty());
  CHECK(got.outcome.err.find(" E TP2020 kernel (anonymous namespace)::follow(") != std::string::npos);
  CHECK(got.outcome.err.find("TP300") == std::string::npos);
}

TEST_CASE("unmap: a graph is waited for, and named where a kernel of it finds a pointer elsewhere") {
  const std::vector<std::string> program = {built("tests/hidden_job"), "graph"};
  const DeviceRun plain = on_device(program);
  REQUIRE(plain.outcome.code() == 0);

  const DeviceRun got = on_device(program, {"--device-budget", "64MiB", "--check", "unmap"});
  INFO(got.outcome.err);
  CHECK(got.outcome.code() == 1);
  CHECK(got.outcome.out.empty());
  // Where nobody waits what comes next is blamed.
  CHECK(got.outcome.err.find(" E TP2020 cuGraphLaunch, ") != std::string::npos);
  CHECK(got.outcome.err.find("TP2020 kernel") == std::string::npos);
}

TEST_CASE("unmap: a graph behind a wait that the program ends later is launched all the same") {
  const std::vector<std::string> program = {built("tests/hidden_job"), "late"};
  const DeviceRun plain = on_device(program);
  REQUIRE(plain.outcome.code() == 0);
  REQUIRE(plain.outcome.out == "last 950016\nlast 950016\nlast 950016\n");

  const DeviceRun got = on_device(program, {"--device-budget", "64MiB", "--check", "unmap"});
  INFO(got.outcome.err);
  CHECK(got.outcome.code() == 0);
  CHECK(got.outcome.out == plain.outcome.out);
  CHECK(got.outcome.err.find(" TP") == std::string::npos);
  CHECK(got.number("errors_total", "errors_total") == 0);
}

TEST_CASE("unmap: graphs whose memory is freed and allocated again do the same") {
  for (const std::vector<std::string>& program :
       {std::vector{built("tests/graph_job"), std::string("3")}, {built("tests/graph_job"), "6", "again"}}) {
    const DeviceRun plain = on_device(program);
    REQUIRE(plain.outcome.code() == 0);
    const DeviceRun got = on_device(program, {"--device-budget", "32MiB", "--check", "unmap"});
    INFO(program.back() << "\n" << got.outcome.err);
    CHECK(got.outcome.code() == 0);
    CHECK(got.outcome.out == plain.outcome.out);
    CHECK(got.outcome.err.find(" TP") == std::string::npos);
    CHECK(got.number("errors_total", "errors_total") == 0);
    CHECK(got.number("calls", "cuMemUnmap") > got.number("calls", "cuGraphLaunch"));
  }
}

}  // namespace tidepool::test
