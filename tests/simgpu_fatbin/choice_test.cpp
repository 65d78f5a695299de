#include <catch2/catch.hpp>
#include <string>

#include "tools/simgpu/fatbin/entries.h"

/// Which image a device loads: CUDA C++ programming guide, "Application Compatibility", "Binary
/// Compatibility" and "PTX Compatibility"; nvcc, "GPU Feature List" for the suffixes.
namespace simgpu::fatbin::test {
namespace {

Entry cubin(int number, char suffix = 0) {
  Entry entry;
  entry.kind = Kind::kCubin;
  entry.arch = {number, suffix};
  return entry;
}

Entry ptx(int number, char suffix = 0) {
  Entry entry = cubin(number, suffix);
  entry.kind = Kind::kPtx;
  return entry;
}

/// "sm_80 compute_75": what a device may use, best first.
std::string usable(const std::vector<Entry>& entries, int major, int minor) {
  std::string text;
  for (const Entry& entry : usable_entries(entries, {major, minor})) {
    if (!text.empty()) text += ' ';
    text += (entry.kind == Kind::kPtx ? "compute_" : "sm_") + entry.arch.text();
  }
  return text;
}

}  // namespace

TEST_CASE("fatbin: binary code runs on its own major version from its minor version on") {
  const std::vector<Entry> all{cubin(75), cubin(80), cubin(86), cubin(90)};
  CHECK(usable(all, 7, 0).empty());
  CHECK(usable(all, 7, 5) == "sm_75");
  CHECK(usable(all, 8, 0) == "sm_80");
  CHECK(usable(all, 8, 6) == "sm_86 sm_80");
  CHECK(usable(all, 8, 9) == "sm_86 sm_80");
  CHECK(usable(all, 9, 0) == "sm_90");
  CHECK(usable(all, 10, 0).empty());
}

TEST_CASE("fatbin: PTX runs on every later device, and binary code comes first") {
  const std::vector<Entry> all{ptx(75), cubin(80), ptx(90)};
  CHECK(usable(all, 7, 5) == "compute_75");
  CHECK(usable(all, 8, 6) == "sm_80 compute_75");
  CHECK(usable(all, 9, 0) == "compute_90 compute_75");
  CHECK(usable(all, 12, 0) == "compute_90 compute_75");
}

TEST_CASE("fatbin: code with the suffix a runs on its own device alone") {
  const std::vector<Entry> all{cubin(90, 'a'), ptx(90, 'a'), cubin(100, 'a'), ptx(80)};
  CHECK(usable(all, 9, 0) == "sm_90a compute_90a compute_80");
  CHECK(usable(all, 10, 0) == "sm_100a compute_80");
  CHECK(usable(all, 10, 3) == "compute_80");
  CHECK(usable(all, 8, 9) == "compute_80");
}

TEST_CASE("fatbin: code with the suffix f runs on its family") {
  const std::vector<Entry> all{cubin(100, 'f'), ptx(100, 'f')};
  CHECK(usable(all, 10, 0) == "sm_100f compute_100f");
  CHECK(usable(all, 10, 3) == "sm_100f compute_100f");
  CHECK(usable(all, 12, 0).empty());
}

TEST_CASE("fatbin: of several that fit, the most specific is taken") {
  CHECK(usable({cubin(90), cubin(90, 'a')}, 9, 0) == "sm_90a sm_90");
  CHECK(usable({cubin(100), cubin(100, 'f'), cubin(100, 'a')}, 10, 0) == "sm_100a sm_100f sm_100");
  CHECK(usable({cubin(100, 'f'), cubin(103)}, 10, 3) == "sm_103 sm_100f");
  Entry other = cubin(90);
  other.kind = Kind::kOther;
  CHECK(usable({other}, 9, 0).empty());
}

}  // namespace simgpu::fatbin::test
