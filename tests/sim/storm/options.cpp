#include "tests/sim/storm/options.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string_view>
#include <vector>

namespace storm {
namespace {

struct Row {
  const char* name;
  bool on;
  const char* help;
};

constexpr Row kFeatures[] = {
#define STORM_FEATURE(name, on, help) {#name, on, help},
#include "tests/sim/storm/features.def"
#undef STORM_FEATURE
};

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "storm: %s\n", what.c_str());
  std::exit(2);
}

[[noreturn]] void help() {
  std::printf(
      "usage: storm [--seed N] [--steps N] [--threads N] [--streams N] [--devices N] [--live MIB]\n"
      "             [--largest KIB] [--features LIST] [--drop STEPS] [--list]\n"
      "A random CUDA program that checks what it reads. LIST is names with commas, 'default', 'all', or\n"
      "'default,-name'; STEPS are numbers and ranges: 3,7-12. --list prints the program and runs nothing.\n"
      "--forget-wait N leaves out one of the streams' waits: then the program is wrong, and the device must "
      "tell.\n"
      "Features:\n");
  for (const Row& row : kFeatures)
    std::printf("  %-10s %s%s\n", row.name, row.help, row.on ? "" : " (not by default)");
  std::exit(0);
}

std::uint64_t number(const char* option, const char* text, std::uint64_t low, std::uint64_t high) {
  char* end = nullptr;
  const std::uint64_t value = std::strtoull(text, &end, 10);
  if (*text == '\0' || *text == '-' || *end != '\0' || value < low || value > high) {
    fail(std::string(option) + " takes a number from " + std::to_string(low) + " to " + std::to_string(high));
  }
  return value;
}

void for_each_word(const std::string& list, const std::function<void(const std::string&)>& take) {
  for (std::size_t from = 0; from <= list.size();) {
    const std::size_t to = std::min(list.find(',', from), list.size());
    if (to > from) take(list.substr(from, to - from));
    from = to + 1;
  }
}

unsigned bits_where(bool all) {
  unsigned bits = 0;
  for (std::size_t i = 0; i < std::size(kFeatures); ++i) bits |= unsigned{all || kFeatures[i].on} << i;
  return bits;
}

unsigned features_of(const std::string& list) {
  unsigned bits = 0;
  for_each_word(list, [&](const std::string& word) {
    if (word == "default" || word == "all") {
      bits |= bits_where(word == "all");
      return;
    }
    const bool off = word[0] == '-';
    const std::string name = word.substr(off ? 1 : 0);
    const auto* row = std::find_if(std::begin(kFeatures), std::end(kFeatures),
                                   [&](const Row& r) { return r.name == name; });
    if (row == std::end(kFeatures)) fail("no feature '" + name + "'; see --help");
    const unsigned bit = 1u << (row - std::begin(kFeatures));
    bits = off ? bits & ~bit : bits | bit;
  });
  return bits;
}

std::set<unsigned> steps_of(const std::string& list) {
  std::set<unsigned> steps;
  for_each_word(list, [&](const std::string& word) {
    const std::size_t dash = word.find('-');
    const auto low = number("--drop", word.substr(0, dash).c_str(), 0, 1'000'000);
    const auto high =
        dash == std::string::npos ? low : number("--drop", word.substr(dash + 1).c_str(), low, 1'000'000);
    for (auto step = low; step <= high; ++step) steps.insert(static_cast<unsigned>(step));
  });
  return steps;
}

std::string text_of(const std::set<unsigned>& steps) {
  std::string text;
  for (auto it = steps.begin(); it != steps.end();) {
    const unsigned low = *it;
    unsigned high = low;
    while (++it != steps.end() && *it == high + 1) ++high;
    text += (text.empty() ? "" : ",") + std::to_string(low) + (high == low ? "" : "-" + std::to_string(high));
  }
  return text;
}

}  // namespace

Options parse_options(int argc, char** argv) {
  Options options;
  options.features = bits_where(false);
  for (int i = 1; i < argc; ++i) {
    const std::string_view option = argv[i];
    if (option == "--help") help();
    if (option == "--list") {
      options.list = true;
      continue;
    }
    if (i + 1 == argc) fail(std::string(option) + " is unknown or needs a value; see --help");
    const char* value = argv[++i];
    const auto in = [&](std::uint64_t low, std::uint64_t high) {
      return static_cast<unsigned>(number(argv[i - 1], value, low, high));
    };
    if (option == "--seed") {
      options.seed = number(argv[i - 1], value, 0, ~std::uint64_t{0});
    } else if (option == "--steps") {
      options.steps = in(0, 1'000'000);
    } else if (option == "--threads") {
      options.threads = in(1, 16);
    } else if (option == "--streams") {
      options.streams = in(1, 16);
    } else if (option == "--devices") {
      options.devices = in(1, 4);
    } else if (option == "--live") {
      options.live_bytes = std::size_t{in(1, 65536)} << 20;
    } else if (option == "--largest") {
      options.largest_bytes = std::size_t{in(4, 1 << 20)} << 10;
    } else if (option == "--features") {
      options.features = features_of(value);
    } else if (option == "--drop") {
      options.dropped = steps_of(value);
    } else if (option == "--forget-wait") {
      options.forgotten = in(0, 1'000'000);
    } else {
      fail(std::string(option) + " is unknown; see --help");
    }
  }
  options.set_bytes = std::max(options.set_bytes, 2 * options.largest_bytes);
  return options;
}

std::string arguments_of(const Options& options) {
  std::string names;
  for (std::size_t i = 0; i < std::size(kFeatures); ++i) {
    if ((options.features >> i & 1) != 0)
      names += (names.empty() ? "" : ",") + std::string(kFeatures[i].name);
  }
  std::string text = "--seed " + std::to_string(options.seed) + " --steps " + std::to_string(options.steps) +
                     " --threads " + std::to_string(options.threads) + " --streams " +
                     std::to_string(options.streams) + " --devices " + std::to_string(options.devices) +
                     " --live " + std::to_string(options.live_bytes >> 20) + " --largest " +
                     std::to_string(options.largest_bytes >> 10) + " --features " +
                     (names.empty() ? "," : names);
  if (!options.dropped.empty()) text += " --drop " + text_of(options.dropped);
  return text;
}

}  // namespace storm
