// Memory that two processes share by cudaIpc (torch_memory_saver#36, nixl#1754, cupy#9306).

#include <catch2/catch.hpp>

#include "tests/process/child_process.h"

namespace tidepool::test {
namespace {

Outcome probe(std::vector<std::string> options, const std::string& which) {
  std::vector<std::string> words = {built("bin/simgpu"),   "--device", "h100", "--",
                                    built("bin/tidepool"), "run"};
  words.insert(words.end(), options.begin(), options.end());
  words.insert(words.end(), {"--", built("tests/ipc_probe"), which});
  return run({words, "", {}, false, false});
}

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t times = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++times;
  return times;
}

}  // namespace

TEST_CASE(
    "ipc: managed memory has no handle for other processes: a clear error, once, and it goes on moving") {
  const Outcome got = probe({"--device-budget", "16MiB", "--check", "full"}, "refused");
  INFO(got.err);
  CHECK(got.code() == 0);
  CHECK(got.out == "as expected\n");
  CHECK(count(got.err, " W TP1018 ") == 1);
  CHECK(got.err.find("The call fails with invalid value.") != std::string::npos);
  CHECK(got.err.find("Swapped ") != std::string::npos);
}

TEST_CASE("ipc: what the message advises works") {
  const Outcome got = probe({"--mode", "observe"}, "shared");
  INFO(got.err);
  CHECK(got.code() == 0);
  CHECK(got.out == "as expected\n");
  CHECK(count(got.err, "TP1018") == 0);
}

TEST_CASE("ipc: switched off, memory is shared as without Tidepool") {
  const Outcome got = probe({"--disable"}, "shared");
  CHECK(got.code() == 0);
  CHECK(got.out == "as expected\n");
}

}  // namespace tidepool::test
