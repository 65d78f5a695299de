#include <cstdio>
#include <span>
#include <string>
#include <string_view>

#include "allocator/support/edit_distance.h"
#include "tools/tidepool/command_table.h"
#include "tools/tidepool/commands.h"
#include "tools/tidepool/console.h"

namespace tidepool::tools {
namespace {

/// The function of each command, in the order of command_rows().
constexpr int (*kFunctions[])(std::span<char*> words) = {
#define TP_COMMAND(name, ...) name##_command,
#define TP_FLAG(...)
#include "tools/tidepool/commands.def"
#undef TP_COMMAND
#undef TP_FLAG
};

int unknown(const std::string& word) {
  if (word.starts_with("--") || word.find('/') != word.npos) {
    say("unknown command '%s'; to run a program: tidepool run [options] -- PROGRAM", word.c_str());
    return kExitRefused;
  }
  const auto rows = command_rows();
  const CommandRow* const meant = nearest_item(word, rows, [](const CommandRow& c) { return c.name; });
  if (meant != nullptr) {
    say("unknown command '%s' (did you mean '%s'?)", word.c_str(), std::string(meant->name).c_str());
  } else {
    say("unknown command '%s'; see tidepool --help", word.c_str());
  }
  return kExitRefused;
}

int dispatch(std::span<char*> words) {
  if (words.empty()) {
    say("a command is missing; see tidepool --help");
    return kExitRefused;
  }
  const std::string_view word = words[0];
  if (word == "--help" || word == "-h" || word == "help") {
    if (words.size() == 1) return std::fputs(overview_text().c_str(), stdout), 0;
    const CommandRow* const row = find_command(words[1]);
    if (row == nullptr) return unknown(words[1]);
    return std::fputs(usage_text(*row).c_str(), stdout), 0;
  }
  if (word == "--version") return version_command({});
  if (const CommandRow* const row = find_command(word)) {
    return kFunctions[row - command_rows().data()](words.subspan(1));
  }
  return unknown(std::string(word));
}

}  // namespace

}  // namespace tidepool::tools

int main(int argc, char** argv) {
  tidepool::tools::open_console();
  const std::span<char*> words(argv, static_cast<std::size_t>(argc));
  const int code = tidepool::tools::dispatch(words.empty() ? words : words.subspan(1));
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    tidepool::tools::say("stdout cannot be written");
    return tidepool::tools::kExitRefused;
  }
  return code;
}
