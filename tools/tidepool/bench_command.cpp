#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "tools/tidepool/command_table.h"
#include "tools/tidepool/commands.h"
#include "tools/tidepool/console.h"

namespace tidepool::tools {
namespace {

namespace fs = std::filesystem;

/// The program that may ask a driver; it lies beside this one.
std::string probe_path() {
  std::error_code error;
  return (fs::read_symlink("/proc/self/exe", error).parent_path() / "tidepool-probe").string();
}

/// Becomes the program. Returns only if that fails.
int become(const std::string& program, const std::vector<std::string>& words) {
  std::vector<char*> argv;
  argv.push_back(const_cast<char*>(program.c_str()));
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  ::execv(program.c_str(), argv.data());
  const int why = errno;
  say("bench: %s cannot be run: %s; nothing was measured. Install it beside this command.", program.c_str(),
      std::strerror(why));
  return why == ENOENT ? kExitNotFound : kExitNotExecutable;
}

}  // namespace

int bench_command(std::span<char*> words) {
  CommandWords got;
  if (const auto code = begin_command("bench", words, 1, got)) return *code;
  if (got.words.empty() || got.words[0] != "link") {
    say("bench: %s; want: tidepool bench link",
        got.words.empty() ? "what to measure is missing"
                          : ("there is no bench '" + std::string(got.words[0]) + "'").c_str());
    return kExitRefused;
  }
  std::vector<std::string> passed = {"link", "--table"};
  for (const char* flag : {"--device", "--seconds", "--output"}) {
    if (!got.has(flag)) continue;
    passed.emplace_back(flag);
    passed.emplace_back(got.value_of(flag));
  }
  if (got.has("--quick")) passed.emplace_back("--quick");
  return become(probe_path(), passed);
}

}  // namespace tidepool::tools
