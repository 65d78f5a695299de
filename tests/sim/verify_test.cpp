// --check full looks at the bytes of what moves: a link that gives other bytes is told of, and jobs that have
// nothing wrong with them are not.

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/sim/device_run.h"

namespace tidepool::test {
namespace {

constexpr const char* kCodes[] = {"TP3002", "TP3004", "TP3008", "TP3009", "TP3010"};

bool tells(const DeviceRun& run, const std::string& code) {
  return run.outcome.err.find(" E " + code + " ") != std::string::npos;
}

/// Half of what it needs.
DeviceRun train_mlp(const std::vector<std::string>& simgpu) {
  return run_on_device(simgpu, {"--device-budget", "37MiB", "--check", "full"},
                       {built("bin/train_mlp"), "--streams", "1", "--steps", "2"});
}

/// The job, where one copy of a block in this direction has some wrong bytes.
DeviceRun train_mlp_with_wrong_copy(const std::string& direction, int nth) {
  const ScratchFolder folder;
  std::ofstream(folder / "plan") << "copy " << direction << " corrupt nth=" << nth
                                 << " offset=1048576 bytes=64\n";
  return train_mlp({"--faults", folder / "plan"});
}

bool hit_a_block(const DeviceRun& run) {
  return run.outcome.err.find("a copy of 4194304 bytes") != std::string::npos;
}

}  // namespace

TEST_CASE("verify: what moves in half of the memory is what it was, in every workload") {
  for (const std::string name : {"train_mlp", "train_cnn", "train_transformer", "train_lstm"}) {
    INFO(name);
    const std::vector<std::string> program = {built("bin/" + name), "--steps", "2"};
    const DeviceRun plain = run_on_device({}, {}, program);
    const std::string half = std::to_string(plain.number("memory", "physical_peak_bytes") / 2);
    const DeviceRun unlooked = run_on_device({}, {"--device-budget", half}, program);
    const DeviceRun got = run_on_device({}, {"--device-budget", half, "--check", "full"}, program);
    INFO(got.outcome.err);
    CHECK(got.outcome.code() == 0);
    CHECK(got.outcome.out == plain.outcome.out);
    for (const char* code : kCodes) CHECK_FALSE(tells(got, code));
    // Each block is copied once more when it leaves, and once more when it is back.
    CHECK(got.number("d2h", "bytes") > 2 * unlooked.number("d2h", "bytes"));
  }
}

TEST_CASE("verify: a copy out that is wrong is told of, and does no harm") {
  const DeviceRun plain = run_on_device({}, {}, {built("bin/train_mlp"), "--streams", "1", "--steps", "2"});
  int hit = 0;
  for (int nth = 7; nth <= 70; nth += 7) {
    const DeviceRun got = train_mlp_with_wrong_copy("d2h", nth);
    INFO("copy " << nth << ": " << got.outcome.err);
    CHECK(got.outcome.out == plain.outcome.out);
    CHECK(got.outcome.code() == 0);
    if (!hit_a_block(got)) continue;
    ++hit;
    CHECK((tells(got, "TP3008") || tells(got, "TP3004") || tells(got, "TP3010")));
    CHECK_FALSE(tells(got, "TP3009"));
  }
  CHECK(hit >= 4);
}

TEST_CASE("verify: a copy in that is wrong is told of") {
  int hit = 0;
  for (int nth = 15; nth <= 45; nth += 10) {
    const DeviceRun got = train_mlp_with_wrong_copy("h2d", nth);
    INFO("copy " << nth << ": " << got.outcome.err);
    CHECK(got.outcome.code() == 0);
    CHECK(tells(got, "TP3010") == hit_a_block(got));
    hit += hit_a_block(got);
  }
  CHECK(hit >= 2);
}

}  // namespace tidepool::test
