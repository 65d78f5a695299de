#include "tools/probe/options.h"

#include <charconv>

#include "allocator/support/edit_distance.h"

namespace tidepool::probe {
namespace {

constexpr std::string_view kOptionNames[] = {"--device", "--seconds", "--quick", "--output",
                                             "--table",  "--list",    "--help"};
constexpr std::string_view kLinkSection = "link";
constexpr double kMostSeconds = 3600;
constexpr int kMostDevice = 1023;

std::string quoted(std::string_view word) {
  return "'" + std::string(word) + "'";
}

/// " (did you mean '…'?)", or nothing.
template <class Items>
std::string suggestion(std::string_view word, const Items& items) {
  const auto* meant = nearest_item(word, items, [](std::string_view item) { return item; });
  return meant == nullptr ? "" : " (did you mean " + quoted(*meant) + "?)";
}

template <class Number>
Number parse_number(std::string_view option, std::string_view text, Number least, Number most,
                    const std::string& wanted) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !(value >= least && value <= most)) {
    throw UsageError(std::string(option) + " " + std::string(text) + ": want " + wanted);
  }
  return value;
}

}  // namespace

Options parse_options(std::span<char* const> words, std::span<const std::string_view> sections) {
  Options options;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string_view word = words[i];
    if (word == "--help" || word == "-h") {
      options.help = true;
      return options;
    }
    if (word == "--list") {
      options.list = true;
      return options;
    }
    if (word == "--quick") {
      options.quick = true;
    } else if (word == "--table") {
      options.table = true;
    } else if (word == "--device" || word == "--seconds" || word == "--output") {
      if (++i == words.size()) throw UsageError("option " + std::string(word) + " needs a value");
      if (word == "--output") {
        options.output = words[i];
        if (options.output.empty()) throw UsageError("--output: want a file's name");
      } else if (word == "--device") {
        options.device = parse_number(word, words[i], 0, kMostDevice, "a number from 0 to 1023");
      } else {
        options.seconds = parse_number(word, words[i], 0.1, kMostSeconds, "seconds from 0.1 to 3600");
      }
    } else if (word.starts_with("-")) {
      throw UsageError("unknown option " + std::string(word) + suggestion(word, kOptionNames));
    } else if (!options.section.empty()) {
      throw UsageError("one section at a time: " + quoted(options.section) + " or " + quoted(word));
    } else {
      options.section = word;
    }
  }
  if (options.section.empty()) throw UsageError("a section is missing; see tidepool-probe --list");
  if (options.section != kLinkSection && (options.table || !options.output.empty())) {
    throw UsageError("--table and --output are for the section " + std::string(kLinkSection) + " only");
  }
  for (const std::string_view section : sections) {
    if (section == options.section) return options;
  }
  const std::string meant = suggestion(options.section, sections);
  throw UsageError("unknown section " + quoted(options.section) +
                   (meant.empty() ? "; see tidepool-probe --list" : meant));
}

}  // namespace tidepool::probe
