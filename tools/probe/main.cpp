#include <algorithm>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tools/probe/child.h"
#include "tools/probe/options.h"
#include "tools/probe/run.h"

namespace tidepool::probe {
namespace {

constexpr int kExitRefused = 125;  // as env(1) and timeout(1) have it

constexpr Section kSections[] = {
    {"vmm", "what mapping calls cost, idle and beside running kernels", &run_vmm},
    {"aliasing", "one handle at several addresses: limits, contents, speed", &run_aliasing},
    {"sharing", "exported handles, a killed exporter, and what new memory holds", &run_sharing},
    {"rates", "pinning, copies and hashing", &run_rates},
    {"launch", "what launches and events cost the calling thread", &run_launch},
    {"link", "what planning needs of the device and its link, and the profile made of it", &run_link},
    {"faults", "what follows when a kernel touches an unmapped address", &run_faults},
};

void print_list() {
  for (const Section& section : kSections) {
    std::printf("%-9s %s\n", std::string(section.name).c_str(), std::string(section.help).c_str());
  }
}

void print_help() {
  std::printf(
      "usage: tidepool-probe SECTION [--device N] [--seconds S] [--quick]\n"
      "                      [--output FILE] [--table]\n\n"
      "Measures one GPU and its driver, and prints what it finds as JSON, one object a line.\n\nSections:\n");
  print_list();
  std::printf(
      "\n  --device N    the device to ask (default 0)\n"
      "  --seconds S   how long the section may take (default 20)\n"
      "  --quick       as few repetitions as show that everything works\n"
      "  --output FILE where the section link writes its device profile\n"
      "                (default $XDG_STATE_HOME/tidepool/profiles/DEVICE.toml)\n"
      "  --table       the section link: a table instead of JSON\n"
      "  --list        list the sections\n"
      "  --help        this text\n");
}

/// Under the name by which it was called: only `tidepool bench` asks for a table.
int refuse(std::span<char* const> words, const std::string& why) {
  const bool is_bench =
      std::any_of(words.begin(), words.end(), [](std::string_view word) { return word == "--table"; });
  std::fprintf(stderr, "%s: %s\n", is_bench ? "tidepool: bench" : "tidepool-probe: error", why.c_str());
  return kExitRefused;
}

int dispatch(std::span<char* const> words) {
  if (!words.empty() && words[0] == kChildWord) return run_child(words.subspan(1));
  std::vector<std::string_view> names;
  for (const Section& section : kSections) names.push_back(section.name);
  Options options;
  try {
    options = parse_options(words, names);
  } catch (const UsageError& wrong) {
    return refuse(words, wrong.what());
  }
  if (options.help || options.list) {
    (options.help ? print_help : print_list)();
    return std::fflush(stdout) == 0 ? 0 : refuse(words, "stdout cannot be written");
  }
  const Section* section = std::find_if(std::begin(kSections), std::end(kSections),
                                        [&](const Section& s) { return s.name == options.section; });
  return options.table ? print_link(options) : run_section(*section, options);
}

}  // namespace
}  // namespace tidepool::probe

int main(int argc, char** argv) {
  const std::span<char* const> words(argv, static_cast<std::size_t>(argc));
  return tidepool::probe::dispatch(words.empty() ? words : words.subspan(1));
}
