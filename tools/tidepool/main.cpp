#include <cstdio>
#include <span>
#include <string>
#include <string_view>

#include "allocator/support/edit_distance.h"
#include "tools/tidepool/commands.h"
#include "tools/tidepool/console.h"

namespace tidepool::tools {
namespace {

struct Command {
  std::string_view name;
  std::string_view help;
  int (*execute)(std::span<char*> words);
};

constexpr Command kCommands[] = {
    {"run", "run a program with its GPU memory managed", run_command},
    {"env", "list every option with its value, source, default and range", env_command},
    {"version", "print the version", version_command},
};

int help() {
  std::printf(
      "usage: tidepool COMMAND [ARGUMENT...]\n\nRuns unmodified CUDA programs in less GPU memory than they "
      "ask for.\n\n");
  for (const Command& command : kCommands) {
    std::printf("  %-9s %s\n", std::string(command.name).c_str(), std::string(command.help).c_str());
  }
  std::printf("\ntidepool COMMAND --help tells more.\n");
  return 0;
}

int unknown(const std::string& word) {
  if (word.starts_with("--") || word.find('/') != word.npos) {
    say("unknown command '%s'; to run a program: tidepool run [options] -- PROGRAM", word.c_str());
    return kExitRefused;
  }
  const Command* const meant = nearest_item(word, kCommands, [](const Command& c) { return c.name; });
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
  if (word == "--help" || word == "-h" || word == "help") return help();
  if (word == "--version") return version_command({});
  for (const Command& command : kCommands) {
    if (word == command.name) return command.execute(words.subspan(1));
  }
  return unknown(std::string(word));
}

}  // namespace

int version_command(std::span<char*> words) {
  if (!words.empty()) {
    const std::string_view word = words[0];
    if (word == "--help" || word == "-h") {
      std::puts("usage: tidepool version\n\nPrints the version.");
      return 0;
    }
    say("version: takes no arguments");
    return kExitRefused;
  }
  std::puts("tidepool " TP_VERSION);
  return 0;
}

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
