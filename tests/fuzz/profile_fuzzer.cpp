// libraries: tp_profile
#include <cstdio>
#include <string>
#include <string_view>

#include "allocator/support/device_profile.h"
#include "tests/fuzz/fuzzer.h"

/// Device profiles. What is refused says where; what is taken keeps to the ranges of
/// docs/reference/device-profiles.md and survives being written and read.
namespace {

using tidepool::DeviceProfile;
using tidepool::parse_device_profile;

constexpr std::string_view kFile = "card.toml";

void check_error(std::string_view text) {
  fuzz_require(text.find('\n') == std::string_view::npos && text.starts_with(kFile));
  text.remove_prefix(kFile.size());
  const bool has_line = text.starts_with(": line ") && text.size() > 7 && text[7] >= '1' && text[7] <= '9';
  fuzz_require(has_line || text.starts_with(": these are missing: ") ||
               text == ": is no device profile: larger than 64 KiB");
}

void check_ranges(const DeviceProfile& profile) {
  fuzz_require(!profile.name.empty() && profile.name.size() <= 4096 && profile.source.size() <= 4096);
  fuzz_require(profile.compute_major >= 5 && profile.compute_major <= 99);
  fuzz_require(profile.compute_minor >= 0 && profile.compute_minor <= 99);
#define TP_PROFILE_FIELD(table, key, type, low, high, want) \
  fuzz_require(profile.table##_##key >= (low) && profile.table##_##key <= (high));
#include "allocator/support/device_profile.def"
#undef TP_PROFILE_FIELD
}

/// With every character that TOML or a terminal may take otherwise by its number.
std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const bool plain = c >= ' ' && c < 0x7f && c != '"' && c != '\\';
    char escape[8];
    std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(c));
    out += plain ? std::string(1, c) : escape;
  }
  return out + "\"";
}

std::string written(DeviceProfile::Whole value) {
  return std::to_string(value);
}
std::string written(DeviceProfile::Real value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.17e", value);
  return text;
}

std::string written(const DeviceProfile& profile) {
  std::string out = "name = " + quoted(profile.name) + "\n";
  if (!profile.source.empty()) out += "source = " + quoted(profile.source) + "\n";
  out += "compute.capability = \"" + std::to_string(profile.compute_major) + "." +
         std::to_string(profile.compute_minor) + "\"\n";
#define TP_PROFILE_FIELD(table, key, type, low, high, want) \
  out += #table "." #key " = " + written(profile.table##_##key) + "\n";
#include "allocator/support/device_profile.def"
#undef TP_PROFILE_FIELD
  return out;
}

bool same(const DeviceProfile& a, const DeviceProfile& b) {
  bool equal = a.name == b.name && a.source == b.source && a.compute_major == b.compute_major &&
               a.compute_minor == b.compute_minor;
#define TP_PROFILE_FIELD(table, key, type, low, high, want) \
  equal = equal && a.table##_##key == b.table##_##key;
#include "allocator/support/device_profile.def"
#undef TP_PROFILE_FIELD
  return equal;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto profile = parse_device_profile({reinterpret_cast<const char*>(data), size}, kFile);
  if (!profile) {
    check_error(profile.error().text);
    return 0;
  }
  check_ranges(*profile);
  const auto again = parse_device_profile(written(*profile), kFile);
  fuzz_require(again.ok() && same(*profile, *again));
  return 0;
}
