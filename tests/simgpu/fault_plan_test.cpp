// Fault plans from outside: programs under simgpu --faults.

#include <signal.h>

#include <catch2/catch.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/process/child_process.h"

namespace {

using tidepool::test::built;
using tidepool::test::Outcome;
using tidepool::test::ScratchFolder;
using tidepool::test::write_file;

const std::string kSimgpu = built("bin/simgpu");
const std::string kCopies = built("tests/simgpu_copies");

/// Sixteen pages of one letter, as the program prints them.
std::string round_of(char letter, const std::string& first = "") {
  std::string pages(16, letter);
  return "round " + pages.replace(0, first.size(), first) + "\n";
}
const std::string kGood = round_of('a') + round_of('b') + round_of('c') + "done\n";

/// The program under a plan. The order of work must not matter.
Outcome under(const std::string& plan, const std::string& seed = "1",
              const std::vector<std::string>& words = {}) {
  const ScratchFolder folder;
  write_file(folder / "plan", plan);
  tidepool::test::Job job;
  job.words = {kSimgpu,     "--memory", "32MiB",         "--seed", seed,
               "--summary", "--faults", folder / "plan", "--",     kCopies};
  job.words.insert(job.words.end(), words.begin(), words.end());
  job.variables = {{"LD_PRELOAD", ""}};
  return tidepool::test::run(job);
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("fault plan: a plan that hits nothing changes nothing") {
  for (const char* plan : {"", "# nothing\n", "cuMemAlloc nth=3 return=2\n", "copy h2d nth=4 drop",
                           "device lost at=call:100000", "cuMemAlloc size>=1MiB return=2"}) {
    const Outcome o = under(plan);
    INFO(plan << o.err);
    REQUIRE(o.code() == 0);
    REQUIRE(o.out == kGood);
    REQUIRE_FALSE(contains(o.err, "faults"));
  }
}

TEST_CASE("fault plan: the Nth call of a function fails with its code, by either name and by size") {
  for (const char* plan : {"cuMemAlloc nth=2 return=CUDA_ERROR_OUT_OF_MEMORY",
                           "cuMemAlloc_v2 after=1 return=2", "cuMemAlloc size>=64KiB after=1 return=2"}) {
    const Outcome o = under(plan);
    INFO(plan << o.err);
    REQUIRE(o.code() == 3);
    REQUIRE(o.out == "cudaMalloc(&b, kBytes): cudaErrorMemoryAllocation\n");
    REQUIRE(contains(o.err, "faults         1 put in by the plan"));
  }
}

TEST_CASE("fault plan: a dropped piece keeps what the destination held") {
  for (const char* seed : {"1", "2", "3"}) {
    REQUIRE(under("copy h2d nth=1 drop offset=4KiB bytes=4KiB", seed).out ==
            round_of('a', "az") + round_of('b') + round_of('c') + "done\n");
    REQUIRE(under("copy d2d nth=2 drop bytes=8KiB", seed).out ==
            round_of('a') + round_of('b', "aa") + round_of('c') + "done\n");
    REQUIRE(under("copy d2h nth=3 drop", seed).out ==
            round_of('a') + round_of('b') + round_of('x') + "done\n");
  }
}

TEST_CASE("fault plan: a corrupt piece is inverted, across rows and only as far as the copy goes") {
  REQUIRE(under("copy h2d nth=2 corrupt offset=60KiB bytes=1GiB").out ==
          round_of('a') + "round bbbbbbbbbbbbbbbB\n" + round_of('c') + "done\n");
  REQUIRE(under("copy d2d nth=1 corrupt offset=2KiB bytes=4KiB").out ==
          round_of('a', "??") + round_of('b') + round_of('c') + "done\n");
  REQUIRE(under("copy h2d nth=1 corrupt offset=1MiB").out == kGood);
  REQUIRE(under("copy any every=3 corrupt").out == round_of('A') + round_of('B') + round_of('C') + "done\n");
}

TEST_CASE("fault plan: a stale piece has the bytes of the copy before, zeros before the first") {
  for (const char* seed : {"1", "2", "3"}) {
    REQUIRE(under("copy h2d nth=2 stale bytes=4KiB", seed).out ==
            round_of('a') + round_of('b', "a") + round_of('c') + "done\n");
    REQUIRE(under("copy d2h nth=1 stale bytes=4KiB", seed).out ==
            round_of('a', "0") + round_of('b') + round_of('c') + "done\n");
    // What was stale is not what the next one is: that is the true copy before.
    REQUIRE(under("copy h2d after=1 count=2 stale bytes=4KiB", seed).out ==
            round_of('a') + round_of('b', "a") + round_of('c', "b") + "done\n");
  }
}

TEST_CASE("fault plan: a slow link takes longer, in its direction and from its moment on") {
  const auto times = [](const std::string& plan) {
    const Outcome o = under(plan, "1", {"times"});
    INFO(plan << o.err);
    REQUIRE(o.code() == 0);
    std::istringstream in(o.out);
    std::pair<double, double> us;
    in >> us.first >> us.second;
    REQUIRE(us.second > 0);
    return us;
  };
  const auto [in, out] = times("");
  const auto slow_in = times("link h2d factor=0.25");
  REQUIRE(slow_in.first > 3.8 * in);
  REQUIRE(slow_in.first < 4.1 * in);
  REQUIRE(slow_in.second == Approx(out).margin(1));
  const auto slow_from = times("link any factor=0.5 from=cuMemcpyDtoHAsync:1");
  REQUIRE(slow_from.first == Approx(in).margin(1));
  REQUIRE(slow_from.second > 1.9 * out);
}

TEST_CASE("fault plan: a lost device answers every later call with its error") {
  const Outcome o = under("device lost at=cuMemcpyDtoH:2");
  INFO(o.err);
  REQUIRE(o.code() == 3);
  REQUIRE(o.out ==
          round_of('a') +
              "cudaMemcpy(bytes.data(), b, kBytes, cudaMemcpyDeviceToHost): cudaErrorLaunchFailure\n");
  REQUIRE(
      contains(o.err,
               "simgpu: error: fault plan, line 1: the device is lost in cuMemcpyDtoH_v2; from now on every "
               "call returns CUDA_ERROR_LAUNCH_FAILED\n"));
  const Outcome other = under("device lost at=cuMemAlloc:2 return=CUDA_ERROR_ECC_UNCORRECTABLE");
  REQUIRE(other.out == "cudaMalloc(&b, kBytes): cudaErrorECCUncorrectable\n");
}

TEST_CASE("fault plan: the first time that a rule has an effect one line says which, and what it did") {
  const auto lines = [](const std::string& plan, const std::vector<std::string>& words = {}) {
    const ScratchFolder folder;
    write_file(folder / "plan", plan);
    tidepool::test::Job job;
    job.words = {kSimgpu, "--memory", "32MiB", "--faults", folder / "plan", "--", kCopies};
    job.words.insert(job.words.end(), words.begin(), words.end());
    job.variables = {{"LD_PRELOAD", ""}};
    return tidepool::test::run(job).err;
  };
  REQUIRE(
      lines("cuMemAlloc nth=9 return=2\ncopy h2d nth=9 drop\nlink h2d factor=0.5 from=call:9999").empty());
  REQUIRE(lines("# the second\n\ncuMemAlloc nth=2 return=2") ==
          "simgpu: fault plan, line 3: cuMemAlloc_v2 returns CUDA_ERROR_OUT_OF_MEMORY\n");
  REQUIRE(lines("cuMemAlloc return=12345") ==
          "simgpu: fault plan, line 1: cuMemAlloc_v2 returns error 12345\n");
  REQUIRE(
      lines("copy h2d count=all drop offset=4KiB bytes=4KiB\ncopy d2d nth=1 corrupt\n"
            "copy d2h nth=2 stale bytes=1") ==
      "simgpu: fault plan, line 1: a copy of 65536 bytes to the device: 4096 bytes, from byte 4096 on, do "
      "not arrive\n"
      "simgpu: fault plan, line 2: a copy of 65536 bytes between places of devices: 65536 bytes, from byte 0 "
      "on, arrive inverted\n"
      "simgpu: fault plan, line 3: a copy of 65536 bytes from the device: 1 bytes, from byte 0 on, arrive as "
      "those of the copy before\n");
  REQUIRE(
      lines("copy h2d nth=1 corrupt offset=1MiB") ==
      "simgpu: fault plan, line 1: a copy of 65536 bytes to the device ends before the piece starts; nothing "
      "of it is changed\n");
  REQUIRE(lines("link d2h factor=0.25\nlink any factor=0.5", {"times"}) ==
          "simgpu: fault plan, line 2: copies to the device have 0.5 of the link's rate\n"
          "simgpu: fault plan, line 1: copies from the device have 0.25 of the link's rate\n");
  REQUIRE(lines("process kill at=cuMemAlloc:2") ==
          "simgpu: fault plan, line 1: the process is killed in cuMemAlloc_v2\n");
}

TEST_CASE("fault plan: cuInit fails, and the process is as before it; later ones count on") {
  const Outcome o = under("cuInit nth=1 return=CUDA_ERROR_SYSTEM_NOT_READY");
  INFO(o.err);
  REQUIRE(o.code() == 3);
  REQUIRE(o.out == "cudaMalloc(&a, kBytes): cudaErrorSystemNotReady\n");
  REQUIRE(contains(o.err, "simgpu: fault plan, line 1: cuInit returns CUDA_ERROR_SYSTEM_NOT_READY\n"));
  REQUIRE(contains(o.err, "faults         1 put in by the plan"));
  REQUIRE(under("cuInit nth=2 return=2").out == kGood);
  REQUIRE(under("process kill at=cuInit:1").code() == -SIGKILL);
  const Outcome lost = under("device lost at=cuInit:1");
  REQUIRE(lost.out == "cudaMalloc(&a, kBytes): cudaErrorLaunchFailure\n");
  REQUIRE(contains(lost.err, "the device is lost in cuInit;"));
}

TEST_CASE("fault plan: a killed process leaves its report") {
  const Outcome o = under("process kill at=cuMemAlloc:2");
  INFO(o.err);
  REQUIRE(o.code() == -SIGKILL);
  REQUIRE(o.out.empty());
  REQUIRE(contains(o.err, "cuMemAlloc_v2 2"));
  REQUIRE(contains(o.err, "faults         1 put in by the plan"));
}

TEST_CASE("fault plan: one that cannot be read is refused before the program starts") {
  const Outcome o = under("\ncuMemAloc return=2");
  REQUIRE(o.code() == 125);
  REQUIRE(o.out.empty());
  REQUIRE(contains(o.err, "/plan: line 2: unknown function 'cuMemAloc' (did you mean 'cuMemAlloc'?)"));
  REQUIRE(contains(under("cudaMalloc return=2").err,
                   "line 1: unknown function 'cudaMalloc'; want a function of the CUDA driver API, as "
                   "cuMemAlloc, or copy, link, device or process; nothing was run\n"));
  REQUIRE(
      contains(under("cuGetProcAddress return=2").err,
               "line 1: 'cuGetProcAddress' answers without the device and never fails by a plan; no rule can "
               "be about it; nothing was run\n"));
  REQUIRE(contains(
      under("process kill at=cuArrayCreate:1").err,
      "line 1: 'cuArrayCreate' is not supported here and always answers CUDA_ERROR_NOT_SUPPORTED; no "
      "rule can be about it; nothing was run\n"));
  REQUIRE(contains(under(std::string("# a\0b", 5)).err, "has a zero byte"));
}
