// What `tidepool bench link` measures on a simulated device is what that device was told to be.

#include <sys/stat.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "allocator/support/device_profile.h"
#include "tests/process/child_process.h"

namespace tidepool::test {
namespace {

const std::string kSimgpu = built("bin/simgpu");
const std::string kTidepool = built("bin/tidepool");
const std::string kProfiles = TP_PROFILE_FOLDER;

/// Not measured, or with a step that the device's own profile does not have (memory in steps of 2 MiB).
bool is_measured(std::string_view key) {
  return key != "compute_fp32_flops" && key != "compute_tensor_flops";
}

DeviceProfile read_profile(const std::string& name_or_file) {
  const auto loaded = load_device_profile(name_or_file, kProfiles);
  if (!loaded.ok()) FAIL(loaded.error().text);
  return *loaded;
}

/// Measures a device and holds every number to its profile.
void judge(const std::string& device) {
  const ScratchFolder folder;
  const std::string file = folder / "measured.toml";
  const Outcome got =
      run({{kSimgpu, "--device", device, "--", kTidepool, "bench", "link", "--quick", "--output", file},
           "",
           {},
           false,
           false});
  INFO(got.err);
  REQUIRE(got.code() == 0);
  CHECK(got.out.find("SIMULATED") != std::string::npos);
  CHECK(got.out.find("  to device, pieces of 8 MiB ") != std::string::npos);
  CHECK(got.out.find("  both, pieces of 32 MiB ") != std::string::npos);
  CHECK(got.out.find("copy, pageable") != std::string::npos);
  CHECK(got.out.find("  hashing, 128 bits ") != std::string::npos);
  CHECK(got.out.find("  handles of 32 MiB: unmap ") != std::string::npos);
  CHECK(got.out.find("\nProfile: " + file + "\n") != std::string::npos);

  const DeviceProfile measured = read_profile(file);
  const DeviceProfile told = read_profile(device);
  CHECK(measured.name == told.name);
  CHECK(measured.source.starts_with("SIMULATED"));
  CHECK(measured.compute_major == told.compute_major);
  CHECK(measured.compute_minor == told.compute_minor);
  const auto compare = [&](std::string_view key, double is, double should) {
    INFO(device << ' ' << key << ": " << is << ", profile " << should);
    if (is_measured(key)) CHECK(std::abs(is - should) <= 0.05 * should);
  };
#define TP_PROFILE_FIELD(table, key, type, low, high, want)             \
  compare(#table "_" #key, static_cast<double>(measured.table##_##key), \
          static_cast<double>(told.table##_##key));
#include "allocator/support/device_profile.def"
#undef TP_PROFILE_FIELD
}

}  // namespace

TEST_CASE("bench link: on a simulated H100 it measures that device's profile, within 5 %") {
  judge("h100");
}

TEST_CASE("bench link: on a simulated RTX 4090 it measures that device's profile, within 5 %") {
  judge("rtx4090");
}

TEST_CASE("bench link: what is no file is not replaced by the profile, and a full stdout is said") {
  const ScratchFolder folder;
  REQUIRE(mkfifo((folder / "pipe").c_str(), 0600) == 0);
  const std::string bench = kSimgpu + " --device h100 -- " + kTidepool + " bench link --quick --output ";
  const Outcome pipe = run({{"/bin/sh", "-c", bench + (folder / "pipe")}, "", {}, false, false});
  CHECK(pipe.code() == 125);
  CHECK(pipe.err == "tidepool: bench: nothing was measured: the profile " + (folder / "pipe") +
                        " cannot be written: that is no file\n");
  CHECK(std::filesystem::is_fifo(folder / "pipe"));
  const Outcome full =
      run({{"/bin/sh", "-c", bench + (folder / "p.toml") + " >/dev/full"}, "", {}, false, false});
  CHECK(full.code() == 125);
  CHECK(full.err == "tidepool: bench: stdout cannot be written\n");
}

TEST_CASE("bench link: a part that grows with the size is found") {
  const ScratchFolder folder;
  DeviceProfile slow = read_profile("h100");
  slow.vmm_create_ns_per_mib = 4000;
  slow.vmm_set_access_ns_per_mib = 700;
  slow.vmm_unmap_ns_per_mib = 300;
  slow.link_copy_engines = 1;
  const std::string told = folder / "told.toml";
  std::ofstream(told) << device_profile_text(slow);
  const std::string file = folder / "measured.toml";
  const Outcome got =
      run({{kSimgpu, "--device", told, "--", kTidepool, "bench", "link", "--quick", "--output", file},
           "",
           {},
           false,
           false});
  INFO(got.err);
  REQUIRE(got.code() == 0);
  const DeviceProfile measured = read_profile(file);
  CHECK(measured.vmm_create_ns_per_mib == slow.vmm_create_ns_per_mib);
  CHECK(measured.vmm_set_access_ns_per_mib == slow.vmm_set_access_ns_per_mib);
  CHECK(measured.vmm_unmap_ns_per_mib == slow.vmm_unmap_ns_per_mib);
  CHECK(measured.vmm_create_ns == slow.vmm_create_ns);
  CHECK(measured.link_copy_engines == 1);
  CHECK(measured.link_duplex < 0.52);  // one engine: the directions take turns
}

TEST_CASE("bench link: the profile goes where XDG_STATE_HOME says, under the device's name") {
  const ScratchFolder folder;
  const Outcome got =
      run({{kSimgpu, "--device", "t4", "--", kTidepool, "bench", "link", "--quick", "--seconds", "1"},
           "",
           {{"XDG_STATE_HOME", folder / "state"}},
           false,
           false});
  INFO(got.err);
  REQUIRE(got.code() == 0);
  const std::string file = folder / "state/tidepool/profiles/tesla-t4.simulated.toml";
  CHECK(got.out.find("Profile: " + file) != std::string::npos);
  CHECK(read_profile(file).name == "Tesla T4");
  // Nothing else is left beside it.
  CHECK(std::distance(std::filesystem::directory_iterator(folder / "state/tidepool/profiles"), {}) == 1);
}

TEST_CASE("bench link: what cannot be done is one line, and exit code 125") {
  const ScratchFolder folder;
  std::ofstream(folder / "libcuda.so.1") << "no library";
  const auto without_device = run({{kTidepool, "bench", "link", "--output", folder / "p.toml"},
                                   "",
                                   {{"LD_LIBRARY_PATH", folder.path()}},
                                   false,
                                   false});
  CHECK(without_device.code() == 125);
  CHECK(without_device.out.empty());
  CHECK(without_device.err.starts_with("tidepool: bench: nothing was measured: "));
  CHECK(std::count(without_device.err.begin(), without_device.err.end(), '\n') == 1);
  CHECK_FALSE(std::filesystem::exists(folder / "p.toml"));

  const auto no_such_device =
      run({{kSimgpu, "--", kTidepool, "bench", "link", "--device", "3"}, "", {}, false, false});
  CHECK(no_such_device.code() == 125);
  CHECK(no_such_device.err.find(
            "tidepool: bench: nothing was measured: there is no device 3; the driver sees 1\n") !=
        std::string::npos);

  const auto nowhere =
      run({{kSimgpu, "--", kTidepool, "bench", "link", "--quick", "--output", "/nowhere/p.toml"},
           "",
           {},
           false,
           false});
  CHECK(nowhere.code() == 125);
  CHECK(nowhere.err.find("the profile /nowhere/p.toml cannot be written: No such file or directory\n") !=
        std::string::npos);
  CHECK(nowhere.out.empty());

  const auto what = run({{kTidepool, "bench", "disk"}, "", {}, false, false});
  CHECK(what.code() == 125);
  CHECK(what.err == "tidepool: bench: there is no bench 'disk'; want: tidepool bench link\n");
  const auto nothing = run({{kTidepool, "bench"}, "", {}, false, false});
  CHECK(nothing.code() == 125);
  CHECK(nothing.err == "tidepool: bench: what to measure is missing; want: tidepool bench link\n");
}

}  // namespace tidepool::test
