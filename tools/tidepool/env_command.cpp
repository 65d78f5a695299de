#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "allocator/support/options.h"
#include "tools/tidepool/command_table.h"
#include "tools/tidepool/commands.h"
#include "tools/tidepool/config_file.h"
#include "tools/tidepool/console.h"
#include "tools/tidepool/json_text.h"
#include "tools/tidepool/option_flags.h"

namespace tidepool::tools {
namespace {

/// One option with the value in force.
struct Shown {
  const OptionRow* row;
  std::string value;
  std::string source;
};

Shown show(const OptionRow& row, const ConfigFile& config) {
  const char* const set = std::getenv(row.variable);
  const auto scratch = std::make_unique<Options>(default_options());
  if (set == nullptr) {
    const std::string* const written = config.value_of(row);
    if (written != nullptr) return {&row, *written, config.path};
    return {&row, row.default_text, "default"};
  }
  if (!set_option(*scratch, row, set).ok())
    return {&row, row.default_text, "default; the variable is refused"};
  return {&row, set, "environment"};
}

void print_text(const Shown& shown) {
  const OptionRow& row = *shown.row;
  const auto or_nothing = [](const std::string& text) { return text.empty() ? std::string("(none)") : text; };
  std::printf("%s=%s\n    %s\n    from: %s · default: %s · range: %s · flag: %s\n", row.variable,
              shown.value.c_str(), row.help, shown.source.c_str(), or_nothing(row.default_text).c_str(),
              range_of(row).c_str(), flag_of(row).c_str());
}

void print_json(const Shown& shown, bool is_last) {
  const OptionRow& row = *shown.row;
  std::printf(
      "  {\"variable\": %s, \"flag\": %s, \"value\": %s, \"source\": %s, \"default\": %s, \"range\": %s,\n"
      "   \"live\": %s, \"group\": %s, \"help\": %s}%s\n",
      json_quoted(row.variable).c_str(), json_quoted(flag_of(row)).c_str(), json_quoted(shown.value).c_str(),
      json_quoted(shown.source).c_str(), json_quoted(row.default_text).c_str(),
      json_quoted(range_of(row)).c_str(), row.scope == OptionScope::kLive ? "true" : "false",
      json_quoted(row.group).c_str(), json_quoted(row.help).c_str(), is_last ? "" : ",");
}

}  // namespace

int env_command(std::span<char*> words) {
  CommandWords got;
  if (const auto code = begin_command("env", words, 0, got)) return *code;
  const bool json = got.has("--json");
  const ConfigFile config = read_config(got.value_of("--config"));
  if (!config.error.empty()) {
    say("env: %s", config.error.c_str());
    return kExitRefused;
  }
  const auto rows = option_rows();
  if (json) std::puts("[");
  for (const OptionRow& row : rows) {
    if (json) {
      print_json(show(row, config), &row == &rows.back());
    } else {
      print_text(show(row, config));
    }
  }
  if (json) std::puts("]");
  const auto issues = std::make_unique<OptionIssues>();
  const auto options = std::make_unique<Options>(load_options(environ, issues.get()));
  for (const OptionIssue& issue : issues->kept()) {
    say("%s%s", issue.is_unknown ? "warning: " : "env: ", issue.text);
  }
  return issues->any_error() ? 1 : 0;
}

}  // namespace tidepool::tools
