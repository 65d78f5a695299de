#include "tools/simgpu/cmd/profile.h"

#include <toml++/toml.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <string_view>
#include <vector>

#include "tools/simgpu/cmd/options.h"
#include "tools/simgpu/cmd/suggest.h"

namespace simgpu::cmd {
namespace {

namespace fs = std::filesystem;

/// Reads keys of a file and keeps count of them, so that one nobody asked for can be named.
class Reader {
 public:
  Reader(const toml::table& root, std::string file) : root_(root), file_(std::move(file)) {}

  template <class T>
  T get(const char* table, const char* key) {
    const std::string path = table[0] == '\0' ? key : std::string(table) + "." + key;
    asked_.insert(path);
    const auto node = root_.at_path(path);
    if (!node) throw UsageError(file_ + ": " + path + " is missing");
    const auto value = node.value<T>();
    if (!value) throw UsageError(file_ + ": " + path + " has the wrong type");
    return *value;
  }

  void refuse_others() const {
    for (const auto& [key, node] : root_) {
      if (!node.is_table()) {
        refuse_unless_asked(std::string(key.str()));
        continue;
      }
      for (const auto& [inner, unused] : *node.as_table()) {
        refuse_unless_asked(std::string(key.str()) + "." + std::string(inner.str()));
      }
    }
  }

  [[noreturn]] void refuse(const std::string& what) const { throw UsageError(file_ + ": " + what); }

 private:
  void refuse_unless_asked(const std::string& path) const {
    if (asked_.count(path) != 0) return;
    refuse("unknown key " + path + suggestion(path, {asked_.begin(), asked_.end()}));
  }

  const toml::table& root_;
  std::string file_;
  std::set<std::string> asked_;
};

void parse_capability(const Reader& reader, const std::string& text, Profile* out) {
  const char* end = text.data() + text.size();
  const auto [dot, error] = std::from_chars(text.data(), end, out->compute_major);
  if (error == std::errc{} && dot != end && *dot == '.') {
    const auto [rest, minor_error] = std::from_chars(dot + 1, end, out->compute_minor);
    if (minor_error == std::errc{} && rest == end) return;
  }
  reader.refuse("compute.capability: want a text like \"9.0\"");
}

Profile read(const toml::table& root, const std::string& file) {
  Reader reader(root, file);
  Profile p;
  p.name = reader.get<std::string>("", "name");
  const auto bytes = reader.get<std::int64_t>("memory", "bytes");
  p.memory_bytes_per_second = reader.get<double>("memory", "bytes_per_second");
  parse_capability(reader, reader.get<std::string>("compute", "capability"), &p);
  p.multiprocessors = reader.get<int>("compute", "multiprocessors");
  p.link_bytes_per_second = reader.get<double>("link", "bytes_per_second");
  p.launch_ns = reader.get<std::int64_t>("cost", "launch_ns");
  reader.refuse_others();
  if (bytes <= 0 || p.memory_bytes_per_second <= 0 || p.link_bytes_per_second <= 0 ||
      p.multiprocessors <= 0 || p.launch_ns < 0) {
    reader.refuse("sizes, rates and counts must be positive");
  }
  p.memory_bytes = static_cast<std::uint64_t>(bytes);
  return p;
}

std::vector<std::string> known_profiles(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".toml") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

[[noreturn]] void refuse_name(const std::string& name, const fs::path& folder) {
  const std::vector<std::string> names = known_profiles(folder);
  std::string text = "unknown device " + name + suggestion(name, names) + "; known:";
  for (const std::string& known : names) text += " " + known;
  if (names.empty()) text += " none in " + folder.string();
  throw UsageError(text);
}

}  // namespace

Profile load_profile(const std::string& name_or_file, const fs::path& folder) {
  const bool is_file = name_or_file.find('/') != std::string::npos || name_or_file.ends_with(".toml");
  const fs::path path = is_file ? fs::path(name_or_file) : folder / (name_or_file + ".toml");
  std::error_code error;
  if (!fs::exists(path, error)) {
    if (is_file) throw UsageError("--device " + name_or_file + ": no such file");
    refuse_name(name_or_file, folder);
  }
  try {
    const toml::table root = toml::parse_file(path.string());
    return read(root, path.string());
  } catch (const toml::parse_error& wrong) {
    throw UsageError(path.string() + ": line " + std::to_string(wrong.source().begin.line) + ": " +
                     std::string(wrong.description()));
  }
}

}  // namespace simgpu::cmd
