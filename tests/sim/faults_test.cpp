// Faults of the driver below Tidepool, from outside: the job's output is the same, or it ends with an error.

#include <signal.h>

#include <catch2/catch.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/process/child_process.h"
#include "tests/process/pattern.h"

namespace tidepool::test {
namespace {

/// Half of what the job needs.
constexpr const char* kBudget = "37MiB";

std::vector<std::string> train_mlp() {
  return {built("bin/train_mlp"), "--streams", "1", "--steps", "2"};
}

Outcome plain() {
  std::vector<std::string> words = {built("bin/simgpu"), "--"};
  for (const std::string& word : train_mlp()) words.push_back(word);
  return run({words, "", {}, false, false});
}

/// The job in half of its memory, with this plan for the driver.
Outcome under(const std::string& plan) {
  const ScratchFolder folder;
  write_file(folder / "plan", plan);
  std::vector<std::string> words = {
      built("bin/simgpu"),   "--summary", "--faults",        folder / "plan", "--",
      built("bin/tidepool"), "run",       "--device-budget", kBudget,         "--"};
  for (const std::string& word : train_mlp()) words.push_back(word);
  return run({words, "", {}, false, false});
}

bool has_met_faults(const Outcome& outcome) {
  return outcome.err.find("put in by the plan") != std::string::npos;
}

/// The lines of the message, without what they begin with.
std::vector<std::string> said(const Outcome& outcome, const std::string& code) {
  std::vector<std::string> lines;
  std::istringstream text(outcome.err);
  for (std::string line; std::getline(text, line);) {
    const std::size_t at = line.find(" " + code + " ");
    if (line.starts_with("tidepool ") && at != line.npos) lines.push_back(line.substr(at + 1));
  }
  return lines;
}

}  // namespace

TEST_CASE("faults: one failed call below Tidepool leaves the output as it is") {
  const Outcome want = plain();
  REQUIRE(want.code() == 0);
  // Of events, the job makes calls of its own: these are two of Tidepool's.
  const std::vector<std::string> calls = {
      "cuMemAddressReserve nth=1", "cuMemCreate nth=3",        "cuMemCreate nth=8",
      "cuMemMap nth=40",           "cuMemSetAccess nth=30",    "cuMemUnmap nth=20",
      "cuMemcpyDtoHAsync nth=7",   "cuMemcpyHtoDAsync nth=20", "cuMemHostRegister nth=1",
      "cuEventRecord nth=17",      "cuStreamWaitEvent nth=6"};
  for (std::size_t i = 0; i < calls.size(); i += sanitized() ? 4 : 1) {
    const std::string& call = calls[i];
    const Outcome got = under(call + " return=CUDA_ERROR_OUT_OF_MEMORY");
    INFO(call << got.err);
    CHECK(has_met_faults(got));
    CHECK(got.code() == 0);
    CHECK(got.out == want.out);
  }
}

TEST_CASE("faults: a device that others have filled is told once, and the job goes on in what it has") {
  const Outcome got = under("cuMemCreate after=5 count=all return=2");
  INFO(got.err);
  CHECK(has_met_faults(got));
  CHECK(got.code() == 0);
  CHECK(got.out == plain().out);
  const auto lines = said(got, "TP2008");
  REQUIRE(lines.size() == 1);
  CHECK(matches(lines[0],
                "TP2008 the device is full: this process may hold 36.0 MiB and got * MiB, others hold the "
                "rest. The job goes on in what it has. Give each process of the device a "
                "--device-budget, so that together they fit."));
  CHECK(said(got, "TP3001").empty());
  CHECK(got.err.find(" 1 warning.") != std::string::npos);
}

TEST_CASE("faults: of memory that the driver refuses, on the device or pinned, the cause is named") {
  const Outcome full = under("cuMemCreate count=all return=2");
  INFO(full.err);
  CHECK(full.code() == 1);
  REQUIRE_FALSE(said(full, "TP2010").empty());
  CHECK(said(full, "TP2010")[0] ==
        "TP2010 out of memory: 2.0 MiB needed on the device, which is full: this process may hold 36.0 MiB "
        "and got 0 B, "
        "and nothing more can leave. The call fails with out of memory. End what else uses the device.");
  CHECK(said(full, "TP2005").empty());
  const Outcome unpinned = under("cuMemHostRegister count=all return=2");
  INFO(unpinned.err);
  CHECK(unpinned.code() == 1);
  REQUIRE_FALSE(said(unpinned, "TP2009").empty());
  CHECK(matches(said(unpinned, "TP2009")[0],
                "TP2009 out of memory: * MiB asked, and the driver pins no more host memory to move it to "
                "than 0 B. The call "
                "fails with out of memory. Raise `ulimit -l`, free host memory, or raise --device-budget."));
  CHECK(said(unpinned, "TP2005").empty());
}

TEST_CASE("faults: a mapping that the driver refuses for good is the call's error, said and counted") {
  const Outcome got = under("cuMemMap after=20 count=all return=2");
  INFO(got.err);
  CHECK(got.code() == 1);
  const auto tries = said(got, "TP3001");
  REQUIRE_FALSE(tries.empty());
  CHECK(
      tries[0] ==
      "TP3001 driver call cuMemMap failed with error 2 while memory moved. The move was undone and is tried "
      "again. If it repeats, look at the driver's log.");
  const auto lines = said(got, "TP3007");
  REQUIRE(lines.size() == 1);
  CHECK(
      matches(lines[0],
              "TP3007 a block of * MiB cannot be put on the device: the driver answered error 2 at each try. "
              "The call gets that error. Look at the driver's log."));
  CHECK(got.err.find("Out of memory once") != std::string::npos);
}

TEST_CASE(
    "faults: an answer that may mean a wrong address says no more than it tells, and whose call it was") {
  const std::pair<const char*, const char*> causes[] = {
      {"700", "work on the device used an address where nothing is"},
      {"717", "work on the device used an address that is not of the memory it was meant for"},
      {"719", "work on the device failed: a trap, a device that is lost, or an address where nothing is"}};
  const std::pair<const char*, const char*> calls[] = {
      {"cuMemMap after=20", "cuMemMap (a call of Tidepool's, which moves memory)"},
      {"cuStreamSynchronize", "cuStreamSynchronize"}};
  for (const auto& [code, cause] : causes) {
    for (const auto& [call, name] : calls) {
      const Outcome got = under(std::string(call) + " count=all return=" + code);
      INFO(got.err);
      CHECK(got.code() == 1);
      const auto lines = said(got, "TP3006");
      REQUIRE(lines.size() == 1);
      CHECK(lines[0] ==
            std::string("TP3006 ") + name + " answered error " + code + ": " + cause +
                ". The program gets the error. If it runs well with TIDEPOOL_DISABLE=1, a kernel "
                "may have found memory that its arguments do not name: --check unmap tells which.");
    }
  }
  const Outcome asserted = under("cuMemMap after=20 count=all return=710");
  INFO(asserted.err);
  REQUIRE(said(asserted, "TP3005").size() == 1);
  CHECK(said(asserted, "TP3005")[0].find("lost: cuMemMap (a call of Tidepool's, which moves memory) answered "
                                         "error 710. ") != std::string::npos);
}

TEST_CASE("faults: a slow link changes no byte") {
  const Outcome got = under("link any factor=0.05 from=call:500");
  INFO(got.err);
  REQUIRE(got.code() == 0);
  REQUIRE(got.out == plain().out);
}

TEST_CASE("faults: a device that is lost ends the job with an error, soon") {
  const Outcome got = under("device lost at=cuMemcpyDtoHAsync:20");
  INFO(got.err);
  REQUIRE(has_met_faults(got));
  REQUIRE(got.code() == 1);
  REQUIRE(got.err.find("unspecified launch failure") != std::string::npos);
}

TEST_CASE("faults: a job that is killed while memory moves is told as killed") {
  const Outcome got = under("process kill at=cuMemMap:40");
  INFO(got.err);
  REQUIRE(has_met_faults(got));
  REQUIRE(got.code() == -SIGKILL);
}

// What says that the equalities above are worth something.
TEST_CASE("faults: a page that does not arrive where Tidepool moves memory is seen in the output") {
  const Outcome want = plain();
  for (const char* fault : {"copy h2d every=5 drop offset=4KiB bytes=4KiB",
                            "copy d2h every=5 stale bytes=4KiB", "copy d2h every=5 corrupt bytes=4KiB"}) {
    const Outcome got = under(fault);
    INFO(fault << got.err);
    CHECK(has_met_faults(got));
    CHECK(got.out != want.out);
  }
}

}  // namespace tidepool::test
