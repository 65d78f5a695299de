#include "tools/tidepool/config_file.h"

#include <toml++/toml.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <system_error>

#include "allocator/support/edit_distance.h"

namespace tidepool::tools {
namespace {

constexpr std::string_view kUsual = "tidepool.toml";

std::string where(const std::string& path, const toml::source_region& region) {
  return path + ":" + std::to_string(region.begin.line) + ": ";
}

const OptionRow* row_of_key(std::string key) {
  std::replace(key.begin(), key.end(), '-', '_');
  for (const OptionRow& row : option_rows()) {
    if (key == row.name) return &row;
  }
  return nullptr;
}

/// The value as a variable would have it; false for what no option takes.
bool value_text(const toml::node& node, std::string* text) {
  if (const auto* const words = node.as_string()) return *text = words->get(), true;
  if (const auto* const number = node.as_integer()) return *text = std::to_string(number->get()), true;
  if (const auto* const truth = node.as_boolean()) return *text = truth->get() ? "1" : "0", true;
  return false;
}

/// Takes one key into `config`; what is wrong with it, or nothing.
std::string take(ConfigFile& config, Options& scratch, const std::string& key, const toml::node& node) {
  const OptionRow* const row = row_of_key(key);
  if (row == nullptr) {
    const auto rows = option_rows();
    const OptionRow* const meant = nearest_item(key, rows, [](const OptionRow& r) { return r.name; });
    return "there is no option " + key +
           (meant != nullptr ? std::string(" (did you mean ") + meant->name + "?)" : "");
  }
  std::string text;
  if (!value_text(node, &text))
    return key + " is not valid: its value is neither text, a whole number, true nor false";
  if (config.value_of(*row) != nullptr) return key + " is there twice ('-' and '_' are the same)";
  const OptionVerdict verdict = set_option(scratch, *row, text);
  if (!verdict.ok()) {
    char why[1024];
    describe_refusal(why, sizeof why, *row, (key + " = " + text).c_str(), verdict);
    return why;
  }
  config.values.emplace_back(row, text);
  return "";
}

}  // namespace

const std::string* ConfigFile::value_of(const OptionRow& row) const {
  for (const auto& [each, text] : values) {
    if (each == &row) return &text;
  }
  return nullptr;
}

ConfigFile read_config(std::string_view named) {
  ConfigFile config;
  const std::string path(named.empty() ? kUsual : named);
  std::ifstream file(path, std::ios::binary);
  const int problem = errno;
  if (!file.is_open()) {
    if (named.empty() && problem == ENOENT) return config;
    config.error = "the file " + path + " cannot be read: " + std::strerror(problem);
    return config;
  }
  config.path = path;
  std::error_code ignored;
  std::ostringstream text;
  if (std::filesystem::is_directory(path, ignored) || (text << file.rdbuf(), file.bad())) {
    return config.error = "the file " + path + " cannot be read", config;
  }
  const auto scratch = std::make_unique<Options>(default_options());
  try {
    const toml::table table = toml::parse(text.str());
    for (const auto& [key, node] : table) {
      const std::string wrong = take(config, *scratch, std::string(key.str()), node);
      if (!wrong.empty()) return config.error = where(path, key.source()) + wrong, config;
    }
  } catch (const toml::parse_error& error) {
    config.error = where(path, error.source()) + std::string(error.description());
  }
  return config;
}

}  // namespace tidepool::tools
