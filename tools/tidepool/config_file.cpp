#include "tools/tidepool/config_file.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <system_error>

#include "allocator/support/edit_distance.h"
#include "allocator/support/guarded_toml.inc"

namespace tidepool::tools {
namespace {

constexpr std::string_view kUsual = "tidepool.toml";

constexpr std::size_t kLargestFile = std::size_t{64} << 10;

/// Text that comes from the file, fit for a line of ours.
std::string printable(std::string_view text) {
  std::string out(text.substr(0, 256));
  std::replace_if(
      out.begin(), out.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, '?');
  return out;
}

std::string where(const std::string& path, std::size_t line) {
  return path + ":" + std::to_string(line) + ": ";
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

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r");
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") + 1 - first);
}

/// The usual mistake, where line `number` of a text that is no TOML makes it: a value without quotes. Empty
/// if it does not.
std::string missing_quotes(std::string_view text, std::size_t number) {
  for (; number > 1; --number) text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
  const std::string_view line = text.substr(0, text.find_first_of("\n#"));
  const std::size_t equals = line.find('=');
  if (equals == line.npos) return "";
  const std::string key(trimmed(line.substr(0, equals)));
  const std::string value = printable(trimmed(line.substr(equals + 1)));
  const OptionRow* const row = row_of_key(key);
  if (row == nullptr || value.empty() || value.find_first_of("\"'[]{}") != value.npos) return "";
  if (row->kind == OptionKind::kBool) return key + " = " + value + " is not valid: write true or false";
  return key + " = " + value + " is not valid: write it in quotes, " + key + " = \"" + value + "\"";
}

/// Takes one key into `config`; what is wrong with it, or nothing.
std::string take(ConfigFile& config, Options& scratch, const std::string& key, const toml::node& node) {
  const OptionRow* const row = row_of_key(key);
  const std::string name = printable(key);
  if (row == nullptr) {
    const auto rows = option_rows();
    // Some write a key as the variable is called.
    std::string guess = key;
    std::transform(guess.begin(), guess.end(), guess.begin(),
                   [](unsigned char c) { return std::tolower(c); });
    if (guess.starts_with("tidepool_")) guess.erase(0, std::string_view("tidepool_").size());
    const OptionRow* const meant = nearest_item(guess, rows, [](const OptionRow& r) { return r.name; });
    return "there is no option " + name +
           (meant != nullptr ? std::string(" (did you mean ") + meant->name + "?)" : "");
  }
  std::string text;
  if (!value_text(node, &text))
    return name + " is not valid: its value is neither text, a whole number, true nor false";
  if (config.value_of(*row) != nullptr) return name + " is there twice ('-' and '_' are the same)";
  const OptionVerdict verdict = set_option(scratch, *row, text);
  if (!verdict.ok()) {
    char why[1024];
    describe_refusal(why, sizeof why, *row, (name + " = " + printable(text)).c_str(), verdict);
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

ConfigFile parse_config(std::string_view text, const std::string& path) {
  ConfigFile config;
  config.path = path;
  if (text.size() > kLargestFile) return config.error = path + " is larger than 64 KiB", config;
  const Result<toml::table, TomlProblem> table = parse_toml(text);
  if (!table) {
    const std::string quotes = missing_quotes(text, table.error().line);
    config.error =
        where(path, table.error().line) + (quotes.empty() ? printable(table.error().what) : quotes);
    return config;
  }
  const auto scratch = std::make_unique<Options>(default_options());
  for (const auto& [key, node] : *table) {
    const std::string wrong = take(config, *scratch, std::string(key.str()), node);
    if (!wrong.empty()) return config.error = where(path, key.source().begin.line) + wrong, config;
  }
  return config;
}

ConfigFile read_config(std::string_view named) {
  ConfigFile config;
  const std::string path(named.empty() ? kUsual : named);
  std::error_code ignored;
  const auto kind = std::filesystem::status(path, ignored).type();
  // What is named may be a pipe. What happens to lie here and is one would be waited for without end.
  const bool is_usual_kind = kind == std::filesystem::file_type::regular ||
                             kind == std::filesystem::file_type::not_found || !named.empty();
  if (kind == std::filesystem::file_type::directory || !is_usual_kind) {
    const bool is_folder = kind == std::filesystem::file_type::directory;
    config.error = "the file " + path + " cannot be read: it is " + (is_folder ? "a folder" : "no file");
    return config;
  }
  std::ifstream file(path, std::ios::binary);
  const int problem = errno;
  if (!file.is_open()) {
    if (named.empty() && problem == ENOENT) return config;
    config.error = "the file " + path + " cannot be read: " + std::strerror(problem);
    return config;
  }
  std::string text(kLargestFile + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) return config.error = "the file " + path + " cannot be read", config;
  text.resize(static_cast<std::size_t>(file.gcount()));
  return parse_config(text, path);
}

}  // namespace tidepool::tools
