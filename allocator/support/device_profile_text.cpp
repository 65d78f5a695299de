#include <array>
#include <charconv>

#include "allocator/support/device_profile.h"

namespace tidepool {
namespace {

std::string number(std::int64_t value) {
  return std::to_string(value);
}

std::string number(double value) {
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  std::string text(digits.data(), end);
  // TOML takes a number without either for a whole one.
  if (text.find_first_of(".e") == text.npos) text += ".0";
  return text;
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c >= ' ' && c <= '~' ? c : '?';
  }
  return out + '"';
}

}  // namespace

std::string device_profile_text(const DeviceProfile& profile, ProfileRemark remark) {
  std::string text = "name = " + quoted(profile.name) + "\n";
  if (!profile.source.empty()) text += "source = " + quoted(profile.source) + "\n";
  std::string_view open;
  const auto add = [&](std::string_view table, std::string_view key, const std::string& value) {
    if (table != open) {
      text += "\n[" + std::string(table) + "]\n";
      open = table;
      if (table == "compute") {
        text += "capability = \"" + std::to_string(profile.compute_major) + "." +
                std::to_string(profile.compute_minor) + "\"\n";
      }
    }
    text += std::string(key) + " = " + value;
    const std::string_view said = remark == nullptr ? std::string_view() : remark(table, key);
    text += (said.empty() ? "" : "  # " + std::string(said)) + "\n";
  };
#define TP_PROFILE_FIELD(table, key, type, low, high, want) add(#table, #key, number(profile.table##_##key));
#include "allocator/support/device_profile.def"
#undef TP_PROFILE_FIELD
  return text;
}

}  // namespace tidepool
