#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "allocator/support/options.h"
#include "tools/tidepool/commands.h"
#include "tools/tidepool/console.h"
#include "tools/tidepool/option_flags.h"

namespace tidepool::tools {
namespace {

constexpr char kUsage[] =
    "usage: tidepool env [--json]\n"
    "\n"
    "Lists every option: its variable, the value that a run started here would have,\n"
    "where the value comes from, the default and the range. Exits with 1 if a variable\n"
    "has a value that is refused.\n";

/// One option with the value in force.
struct Shown {
  const OptionRow* row;
  std::string value;
  const char* source;
};

Shown show(const OptionRow& row) {
  const char* const set = std::getenv(row.variable);
  const auto scratch = std::make_unique<Options>(default_options());
  if (set == nullptr) return {&row, row.default_text, "default"};
  if (!set_option(*scratch, row, set).ok())
    return {&row, row.default_text, "default; the variable is refused"};
  return {&row, set, "environment"};
}

void print_text(const Shown& shown) {
  const OptionRow& row = *shown.row;
  const auto or_nothing = [](const std::string& text) { return text.empty() ? std::string("(none)") : text; };
  std::printf("%s=%s\n    %s\n    from: %s · default: %s · range: %s · flag: %s\n", row.variable,
              shown.value.c_str(), row.help, shown.source, or_nothing(row.default_text).c_str(),
              range_of(row).c_str(), flag_of(row).c_str());
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(c));
      out += escape;
    } else {
      out += c;
    }
  }
  return out + '"';
}

void print_json(const Shown& shown, bool is_last) {
  const OptionRow& row = *shown.row;
  std::printf(
      "  {\"variable\": %s, \"flag\": %s, \"value\": %s, \"source\": %s, \"default\": %s, \"range\": %s,\n"
      "   \"live\": %s, \"group\": %s, \"help\": %s}%s\n",
      quoted(row.variable).c_str(), quoted(flag_of(row)).c_str(), quoted(shown.value).c_str(),
      quoted(shown.source).c_str(), quoted(row.default_text).c_str(), quoted(range_of(row)).c_str(),
      row.scope == OptionScope::kLive ? "true" : "false", quoted(row.group).c_str(), quoted(row.help).c_str(),
      is_last ? "" : ",");
}

}  // namespace

int env_command(std::span<char*> words) {
  bool json = false;
  for (const std::string_view word : words) {
    if (word == "--help" || word == "-h") {
      std::fputs(kUsage, stdout);
      return 0;
    }
    if (word != "--json") {
      say("env: unknown option %s; there is --json", std::string(word).c_str());
      return kExitRefused;
    }
    json = true;
  }
  const auto rows = option_rows();
  if (json) std::puts("[");
  for (const OptionRow& row : rows) {
    if (json) {
      print_json(show(row), &row == &rows.back());
    } else {
      print_text(show(row));
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
