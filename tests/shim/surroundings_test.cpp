// Surroundings in which nothing can be managed: the program runs, and one line says why.

#include <catch2/catch.hpp>
#include <filesystem>

#include "tests/process/child_process.h"
#include "tests/process/pattern.h"

namespace tidepool::test {
namespace {

const std::string kSimgpu = built("bin/simgpu");
const std::string kTidepool = built("bin/tidepool");
const std::string kLibrary = built("lib/libtidepool.so");
const std::string kOldDriver = built("lib/newer_driver/libcuda.so.1");
const std::string kElfProbe = built("tests/elf_probe");

using Variables = std::vector<std::pair<std::string, std::string>>;

/// The library in LD_PRELOAD, with what follows it there.
Outcome bare(std::vector<std::string> words, const std::string& behind = "", Variables variables = {}) {
  variables.emplace_back("LD_PRELOAD",
                         (preload_first().empty() ? "" : preload_first() + ":") + kLibrary + behind);
  return run({std::move(words), "", variables, false, false});
}

const std::string kNoDriver =
    "tidepool #.#s I TP1001 no CUDA driver (libcuda.so.1: cannot open shared object file: No such file or "
    "directory). "
    "The program runs without Tidepool.\n";

/// Calls a driver function that the library exports, in a process without a driver.
const std::vector<std::string> kCallWithoutDriver = {
    "/usr/bin/python3", "-c",
    "import ctypes; print(ctypes.CDLL('" + kLibrary + "')['cuMemFree_v2'](ctypes.c_ulonglong(0)) != 0)"};

TEST_CASE("surroundings: without a driver the program runs, and one line says so", "[plain]") {
  const Outcome got = bare(kCallWithoutDriver);
  CHECK(got.code() == 0);
  CHECK(got.out == "True\n");
  CHECK(matches(got.err, kNoDriver));
  std::vector<std::string> words = {kTidepool, "run"};
  words.insert(words.end(), kCallWithoutDriver.begin(), kCallWithoutDriver.end());
  const Outcome run_so = run({words, "", {}, false, false});
  CHECK(run_so.code() == 0);
  CHECK(run_so.out == "True\n");
  CHECK(matches(run_so.err, kNoDriver));
  CHECK(bare(kCallWithoutDriver, "", {{"TIDEPOOL_QUIET", "1"}}).err.empty());
}

// Whoever links the vendor's runtime calls nothing of the driver's where there is none.
TEST_CASE("surroundings: a program of the CUDA runtime is told of the missing driver as well", "[plain]") {
  const std::string probe = built("tests/device_count_probe");
  if (!std::filesystem::exists(probe)) {
    WARN("not tested: the toolkit has no libcudart.so");
    return;
  }
  for (const Outcome& got : {bare({probe}), run({{kTidepool, "run", probe}, "", {}, false, false})}) {
    CHECK(got.code() == 0);
    CHECK(got.out == "cudaErrorInsufficientDriver\n");
    CHECK(matches(got.err, kNoDriver));
  }
}

// The driver tells the program so, and the program may say nothing or something else.
TEST_CASE("surroundings: where the driver has no device the program runs, and one line says so", "[plain]") {
  const ScratchFolder folder;
  const std::string plan = folder / "faults";
  write_file(plan, "cuInit count=all return=100\n");
  const auto on_device = [&](std::vector<std::string> words) {
    const std::vector<std::string> device = {kSimgpu, "--faults", plan, "--"};
    words.insert(words.begin(), device.begin(), device.end());
    return run({std::move(words), "", {}, false, false});
  };
  const std::string line =
      "tidepool #.#s I TP1021 no CUDA device (cuInit answers 100). The program runs without Tidepool.\n";
  const std::string program = built("bin/train_mlp");
  const std::string told = "simgpu: fault plan, line 1: cuInit returns CUDA_ERROR_NO_DEVICE\n";
  const Outcome plain = on_device({program, "--steps", "1"});
  REQUIRE(plain.code() == 1);
  REQUIRE(plain.err.starts_with(told));
  const Outcome got = on_device({kTidepool, "run", program, "--steps", "1"});
  CHECK(got.code() == plain.code());
  CHECK(got.out == plain.out);
  CHECK(matches(got.err, told + line + plain.err.substr(told.size())));
  CHECK(on_device({kTidepool, "run", "-q", program, "--steps", "1"}).err == plain.err);
  // Asked again, it is not said again.
  const std::string twice =
      "import ctypes; cuda = ctypes.CDLL('libcuda.so.1'); print(cuda.cuInit(0), cuda.cuInit(0))";
  const Outcome again = on_device({kTidepool, "run", "/usr/bin/python3", "-c", twice});
  CHECK(again.out == "100 100\n");
  CHECK(matches(again.err, told + line));
}

TEST_CASE("surroundings: where events find no room one line says that nothing is logged", "[plain]") {
  ScratchFolder folder;
  std::vector<std::string> words = {"/bin/sh", "-c", "ulimit -f 512; exec \"$@\"", "sh"};
  words.insert(words.end(), kCallWithoutDriver.begin(), kCallWithoutDriver.end());
  const Outcome got = bare(words, "", {{"TIDEPOOL_RUN_DIR", folder.path()}});
  CHECK(got.code() == 0);
  CHECK(got.out == "True\n");
  CHECK(matches(got.err.substr(got.err.find('\n') + 1),  // there is no driver either
                "tidepool #.#s W TP4005 nothing of this process is logged: its events cannot be kept in " +
                    folder.path() +
                    ": File too large. The job goes on without. See that it can be written, or name another "
                    "folder with "
                    "--run-dir.\n"));
  CHECK(bare(words, "", {{"TIDEPOOL_RUN_DIR", folder.path()}, {"TIDEPOOL_LOG", "off"}}).err.find("TP4005") ==
        std::string::npos);
}

TEST_CASE("surroundings: a driver that lacks what is needed is named with what to do", "[plain]") {
  // It lacks nearly everything, and asks for a hook while it is loaded.
  const Outcome got = bare({"/bin/echo", "x"}, ":" + kOldDriver);
  CHECK(got.code() == 0);
  CHECK(got.out == "x\n");
  CHECK(matches(
      got.err,
      "tidepool #.#s W TP1002 the driver has no entry cuCtxGetCurrent. The program runs without Tidepool. "
      "Install a newer driver to have its memory managed.\n"));
}

TEST_CASE("surroundings: refused options under bare LD_PRELOAD, line by line", "[plain]") {
  const auto said = [](Variables variables) {
    return bare({kSimgpu, "--memory", "1GiB", "--", kElfProbe, "1073741824"}, "", std::move(variables)).err;
  };
  const auto has = [](const std::string& text, const std::string& pattern) {
    std::string_view rest = text;
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find('\n') + 1, rest.size());
      if (matches(rest.substr(0, end), pattern + "\n")) return true;
      rest.remove_prefix(end == 0 ? rest.size() : end);
    }
    return false;
  };
  CHECK(has(said({{"TIDEPOOL_MIN_BLOCK", "3"}}),
            "tidepool #.#s E TP1003 TIDEPOOL_MIN_BLOCK=3 is out of range 1MiB..1GiB (without a unit it means "
            "bytes). The "
            "program runs without Tidepool. See `tidepool env`."));
  CHECK(has(said({{"TIDEPOOL_CHECK", "some"}}),
            "tidepool #.#s E TP1003 TIDEPOOL_CHECK=some is none of off, cheap, full, unmap. The program runs "
            "without Tidepool. "
            "See `tidepool env`."));
  CHECK(has(said({{"TIDEPOOL_LOG", "loud"}}),
            "tidepool #.#s E TP1003 TIDEPOOL_LOG=loud is not valid: a level is none of off, error, warn, "
            "info, debug, "
            "trace. The program runs without Tidepool. See `tidepool env`."));
  CHECK(has(said({{"TIDEPOOL_STRICT", "1"}, {"TIDEPOOL_BUDGET", "1"}}),
            "tidepool #.#s E TP1003 unknown variable TIDEPOOL_BUDGET (did you mean TIDEPOOL_DEVICE_BUDGET*). "
            "As TIDEPOOL_STRICT is set, the program "
            "runs without "
            "Tidepool. See `tidepool env`."));
  CHECK(has(said({{"TIDEPOOL_QIET", "1"}}),
            "tidepool #.#s W TP1004 unknown variable TIDEPOOL_QIET (did you mean TIDEPOOL_QUIET*). It has no "
            "effect. See "
            "`tidepool env`."));
}

}  // namespace
}  // namespace tidepool::test
