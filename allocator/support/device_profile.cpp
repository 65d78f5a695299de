#include "allocator/support/device_profile.h"

#include <algorithm>
#include <charconv>
#include <exception>
#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>
#include <utility>

#include "allocator/support/edit_distance.h"
#include "allocator/support/guarded_toml.inc"

namespace tidepool {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLargestFile = std::size_t{64} << 10;
constexpr std::size_t kLongestText = 4096;  // of name and source

/// Every key that a profile may have, as "table.key".
constexpr std::string_view kKeys[] = {
    "name",
    "source",
    "compute.capability",
#define TP_PROFILE_FIELD(table, key, type, low, high, want) #table "." #key,
#include "allocator/support/device_profile.def"
#undef TP_PROFILE_FIELD
};

/// Ends the reading; what() is the error's text without the file.
struct Refusal : std::runtime_error {
  using std::runtime_error::runtime_error;
};

[[noreturn]] void refuse_at(const toml::node& node, const std::string& what) {
  throw Refusal("line " + std::to_string(node.source().begin.line) + ": " + what);
}

/// Names come from files: what cannot be printed on one line is replaced.
std::string printable(std::string_view text) {
  constexpr std::size_t kShown = 60;
  std::string out(text.substr(0, kShown));
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return out;
}

std::string suggestion(std::string_view word) {
  const auto* const meant = nearest_item(word, kKeys, [](std::string_view key) { return key; });
  return meant == nullptr ? "" : " (did you mean '" + std::string(*meant) + "'?)";
}

void refuse_unless_known(const toml::node& node, const std::string& path) {
  if (std::find(std::begin(kKeys), std::end(kKeys), path) != std::end(kKeys)) return;
  const std::string shown = printable(path);
  refuse_at(node, "unknown key " + shown + suggestion(shown));
}

void refuse_unknown_keys(const toml::table& root) {
  for (const auto& [key, node] : root) {
    const std::string name(key.str());
    if (!node.is_table()) {
      refuse_unless_known(node, name);
      continue;
    }
    for (const auto& [inner, value] : *node.as_table()) {
      refuse_unless_known(value, name + "." + std::string(inner.str()));
    }
  }
}

/// The value of "table.key"; null if it is missing. A dot inside a quoted key does not count as one between.
const toml::node* find(const toml::table& root, std::string_view path) {
  const std::size_t dot = path.find('.');
  if (dot == std::string_view::npos) return root.get(path);
  const toml::node* const table = root.get(path.substr(0, dot));
  return table == nullptr || !table->is_table() ? nullptr : table->as_table()->get(path.substr(dot + 1));
}

void refuse_missing_keys(const toml::table& root) {
  std::string missing;
  for (const std::string_view key : kKeys) {
    if (key == "source" || find(root, key) != nullptr) continue;
    missing += missing.empty() ? " " : ", ";
    missing += key;
  }
  if (!missing.empty()) throw Refusal("these are missing:" + missing);
}

struct Range {
  const char* path;
  double low, high;
  const char* want;
};

/// Takes integers and floats for a rate, integers alone for a whole number; nan is in no range.
template <class T>
T read_number(const toml::table& root, const Range& range) {
  const toml::node& node = *find(root, range.path);
  if (!node.is_integer() && !(std::is_same_v<T, double> && node.is_floating_point())) {
    refuse_at(node, std::string(range.path) + " has the wrong type: want " + range.want);
  }
  const std::optional<T> value = node.value<T>();
  if (!value || !(static_cast<double>(*value) >= range.low && static_cast<double>(*value) <= range.high)) {
    refuse_at(node, std::string(range.path) + " is out of range: want " + range.want);
  }
  return *value;
}

std::string read_text(const toml::table& root, const char* key) {
  const toml::node& node = *find(root, key);
  const std::optional<std::string> text = node.value_exact<std::string>();
  if (!text || text->empty() || text->size() > kLongestText) {
    refuse_at(node, std::string(key) + " wants a text of 1 to 4096 characters in quotes");
  }
  return *text;
}

void read_capability(const toml::table& root, DeviceProfile* out) {
  const toml::node& node = *find(root, "compute.capability");
  const std::string text = node.value_exact<std::string>().value_or("");
  const char* const end = text.data() + text.size();
  unsigned major = 0, minor = 0;  // so that "9.-0" is none
  const auto [dot, error] = std::from_chars(text.data(), end, major);
  if (error == std::errc{} && dot != end && *dot == '.') {
    const auto [rest, minor_error] = std::from_chars(dot + 1, end, minor);
    if (minor_error == std::errc{} && rest == end && major >= 5 && major <= 99 && minor <= 99) {
      out->compute_major = static_cast<int>(major);
      out->compute_minor = static_cast<int>(minor);
      return;
    }
  }
  refuse_at(node, "compute.capability wants a text like \"9.0\", from \"5.0\" to \"99.99\"");
}

DeviceProfile read_profile(const toml::table& root) {
  refuse_unknown_keys(root);
  refuse_missing_keys(root);
  DeviceProfile profile;
  profile.name = read_text(root, "name");
  if (root.contains("source")) profile.source = read_text(root, "source");
  read_capability(root, &profile);
#define TP_PROFILE_FIELD(table, key, type, low, high, want) \
  profile.table##_##key = read_number<DeviceProfile::type>(root, Range{#table "." #key, low, high, want});
#include "allocator/support/device_profile.def"
#undef TP_PROFILE_FIELD
  return profile;
}

Err<ProfileError> refused(std::string_view file, const std::string& what) {
  return Err{ProfileError{std::string(file) + ": " + what}};
}

Result<DeviceProfile, ProfileError> parse(std::string_view text, std::string_view file) {
  if (text.size() > kLargestFile) return refused(file, "is no device profile: larger than 64 KiB");
  const Result<toml::table, TomlProblem> table = parse_toml(text);
  if (!table)
    return refused(file, "line " + std::to_string(table.error().line) + ": " + printable(table.error().what));
  try {
    return read_profile(*table);
  } catch (const Refusal& refusal) {
    return refused(file, refusal.what());
  }
}

/// "known: h100 t4, or …".
std::string known_names(std::string_view folder) {
  std::string text = "known:";
  const std::vector<std::string> names = device_profile_names(folder);
  for (const std::string& known : names) text += " " + known;
  if (names.empty()) text += " none in " + std::string(folder);
  return text + ", or a file of your own (name.toml)";
}

Result<DeviceProfile, ProfileError> unknown_name(std::string_view name, std::string_view folder) {
  const std::vector<std::string> names = device_profile_names(folder);
  std::string lower(name);  // as all names are
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  const std::string* const meant =
      nearest_item(lower, names, [](const std::string& known) -> std::string_view { return known; });
  std::string text = "unknown device " + (name.empty() ? "''" : printable(name));
  if (meant != nullptr) text += " (did you mean '" + *meant + "'?)";
  return Err{ProfileError{text + "; " + known_names(folder)}};
}

Result<DeviceProfile, ProfileError> load(std::string_view name_or_file, std::string_view folder) {
  const bool is_file = name_or_file.find('/') != std::string_view::npos || name_or_file.ends_with(".toml");
  std::string path(name_or_file);
  if (!is_file) path = std::string(folder) + "/" + path + ".toml";
  std::error_code error;
  if (!fs::exists(path, error)) {
    return is_file ? refused(path, "no such device profile; " + known_names(folder))
                   : unknown_name(name_or_file, folder);
  }
  if (fs::is_directory(path, error)) return refused(path, "is a folder; name a device profile in it");
  std::ifstream in(path, std::ios::binary);
  std::string text(kLargestFile + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (in.bad() || !in.eof()) {
    if (in.gcount() == 0) return refused(path, "cannot be read; may this user read it?");
  }
  text.resize(static_cast<std::size_t>(in.gcount()));
  return parse(text, path);
}

/// Nothing that is thrown leaves: what is left is memory that ran out.
template <class Work>
Result<DeviceProfile, ProfileError> guarded(std::string_view file, const Work& work) noexcept {
  try {
    return work();
  } catch (const std::exception& error) {
    return refused(file, error.what());
  }
}

}  // namespace

Result<DeviceProfile, ProfileError> parse_device_profile(std::string_view text,
                                                         std::string_view file) noexcept {
  return guarded(file, [&] { return parse(text, file); });
}

Result<DeviceProfile, ProfileError> load_device_profile(std::string_view name_or_file,
                                                        std::string_view folder) noexcept {
  return guarded(name_or_file, [&] { return load(name_or_file, folder); });
}

std::vector<std::string> device_profile_names(std::string_view folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(fs::path(folder), error)) {
    if (entry.path().extension() == ".toml") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace tidepool
