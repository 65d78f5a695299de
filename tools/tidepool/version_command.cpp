#include <build_commit.h>
#include <gnu/libc-version.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "allocator/support/stats_page.h"
#include "tools/tidepool/command_table.h"
#include "tools/tidepool/commands.h"
#include "tools/tidepool/json_text.h"
#include "tools/tidepool/library_path.h"

namespace tidepool::tools {
namespace {

/// A fact about this copy, its value as text and as JSON has it.
struct Fact {
  const char* key;
  std::string text;
  std::string json;

  Fact(const char* name, const std::string& value) : key(name), text(value), json(json_quoted(value)) {}
  Fact(const char* name, std::uint32_t value)
      : key(name), text(std::to_string(value)), json(std::to_string(value)) {}
  Fact(const char* name, bool value)
      : key(name), text(value ? "yes" : "no"), json(value ? "true" : "false") {}
};

std::vector<Fact> facts() {
  const std::string library = library_path();
  return {
      {"version", std::string(TP_VERSION)},
      {"commit", std::string(TP_COMMIT)},
      {"build", std::string(TP_BUILD_TYPE)},
      {"compiler", std::string(TP_COMPILER)},
      {"glibc_needed", std::string(TP_GLIBC_FLOOR)},
      {"glibc_here", std::string(gnu_get_libc_version())},
      {"driver_needed", std::string("CUDA 12.4")},
      {"library", library},
      {"library_readable", access(library.c_str(), R_OK) == 0},
      {"stats_page", kStatsPageVersion},
  };
}

}  // namespace

int version_command(std::span<char*> words) {
  CommandWords got;
  if (const auto code = begin_command("version", words, 0, got)) return *code;
  if (got.has("--json")) {
    std::string text = "{";
    for (const Fact& fact : facts()) {
      if (text.size() > 1) text += ", ";
      text += json_quoted(fact.key) + ": " + fact.json;
    }
    std::puts((text + "}").c_str());
    return 0;
  }
  std::puts("tidepool " TP_VERSION);
  if (got.has("--verbose")) {
    for (const Fact& fact : facts()) {
      if (fact.key != std::string_view("version")) std::printf("%s: %s\n", fact.key, fact.text.c_str());
    }
  }
  return 0;
}

}  // namespace tidepool::tools
