#include "tools/tidepool/option_flags.h"

#include <algorithm>
#include <memory>

#include "tools/tidepool/command_table.h"

namespace tidepool::tools {
namespace {

/// Every flag of `tidepool run`.
std::vector<std::string> run_flags() {
  std::vector<std::string> flags;
  for (const FlagRow& row : flags_of("run")) flags.emplace_back(row.flag);
  for (const OptionRow& row : option_rows()) flags.push_back(flag_of(row));
  return flags;
}

/// The switches of `tidepool run` that have a letter, those of options.def with them.
std::vector<FlagRow> lettered(std::vector<FlagRow> flags) {
  flags.push_back({"run", "--quiet", "-q", "", ""});
  return flags;
}

/// The row that a flag names exactly as flag_of() spells it, or null.
const OptionRow* row_of_flag(std::string_view flag) {
  const auto rows = option_rows();
  const auto row =
      std::find_if(rows.begin(), rows.end(), [&](const OptionRow& r) { return flag_of(r) == flag; });
  return row == rows.end() ? nullptr : &*row;
}

/// "-q, " before the one option that has a letter.
const char* letter_of(const OptionRow& row) {
  return std::string_view(row.name) == "quiet" ? "-q, " : "";
}

}  // namespace

std::string flag_of(const OptionRow& row) {
  std::string flag = std::string("--") + row.name;
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}

std::string shown_flag(const OptionRow& row) {
  const bool is_on = row.kind == OptionKind::kBool && std::string_view(row.default_text) == "on";
  return flag_of(row) + (is_on ? "=off" : "");
}

std::string range_of(const OptionRow& row) {
  if (is_word(row.kind)) {
    std::string words;
    for (const char c : std::string_view(row.low)) words += c == '|' ? std::string(", ") : std::string(1, c);
    return words;
  }
  if (row.kind == OptionKind::kBool) return "yes or no";
  if (row.kind == OptionKind::kPath) return "a path";
  if (row.kind == OptionKind::kLogLevels) return "levels, as in warn,swap=debug";
  if (row.kind == OptionKind::kDeviceReserve) return std::string("auto, ") + row.low + ".." + row.high;
  return std::string(row.low) + ".." + row.high;
}

std::string options_help() {
  std::string text;
  std::string group;
  for (const OptionRow& row : option_rows()) {
    if (group != row.group) text += std::string("\n  ") + row.group + "\n";
    group = row.group;
    const bool is_switch = row.kind == OptionKind::kBool;
    text += std::string("    ") + letter_of(row) + shown_flag(row) + (is_switch ? "" : " VALUE") + "\n";
    std::string about = row.help;
    if (!is_switch) {
      about += " (" + range_of(row);
      if (row.default_text[0] != '\0') about += std::string("; default ") + row.default_text;
      about += ")";
    }
    text += wrapped(about, 8);
  }
  return text;
}

RunArguments parse_run_arguments(std::span<char*> words, std::string* error) {
  RunArguments got;
  const auto scratch = std::make_unique<Options>(default_options());
  const std::vector<FlagRow> flags = flags_of("run");
  const std::vector<FlagRow> letters = lettered(flags);
  std::size_t i = 0;
  for (; i < words.size(); ++i) {
    const std::string_view word = words[i];
    if (word == "--") {
      ++i;
      break;
    }
    if (word.size() < 2 || word[0] != '-') break;
    if (const std::vector<FlagRow> switches = bundled(word, letters); !switches.empty()) {
      for (const FlagRow& each : switches) {
        if (each.flag == "--help") return got.flags.help = true, got;
        if (const OptionRow* const option = row_of_flag(each.flag)) {
          got.options.emplace_back(option, "1");
        } else {
          got.flags.flags.emplace_back(each.flag, "");
        }
      }
      continue;
    }
    const std::size_t equals = word.find('=');
    const std::string_view name = word == "-q" ? "--quiet" : word.substr(0, equals);
    const auto flag = std::find_if(flags.begin(), flags.end(),
                                   [&](const FlagRow& f) { return name == f.flag || name == f.letter; });
    const OptionRow* const row = flag == flags.end() ? row_of_flag(name) : nullptr;
    if (flag == flags.end() && row == nullptr) return *error = unknown_flag(name, run_flags()), got;
    const bool is_switch = row == nullptr ? flag->value.empty() : row->kind == OptionKind::kBool;
    if (row == nullptr && is_switch) {
      if (equals != word.npos) return *error = std::string(name) + " takes no value", got;
      got.flags.flags.emplace_back(flag->flag, "");
      if (flag->flag == "--help") return got.flags.help = true, got;
      continue;
    }
    std::string_view value = "1";
    if (equals != word.npos) {
      value = word.substr(equals + 1);
    } else if (!is_switch) {
      if (i + 1 == words.size() || is_flag_word(words[i + 1]))
        return *error = needs_value(name, row == nullptr ? std::string(flag->value) : range_of(*row)), got;
      value = words[++i];
    }
    if (row == nullptr) {
      if (flag->value == kFileValue && value.empty()) return *error = needs_value(name, flag->value), got;
      got.flags.flags.emplace_back(flag->flag, value);
      continue;
    }
    const OptionVerdict verdict = set_option(*scratch, *row, value);
    if (!verdict.ok()) {
      const std::string shown = std::string(name) + (equals != word.npos ? "=" : " ") + std::string(value);
      char text[1024];
      describe_refusal(text, sizeof text, *row, shown.c_str(), verdict);
      return *error = text, got;
    }
    got.options.emplace_back(row, value);
  }
  got.command.assign(words.begin() + static_cast<std::ptrdiff_t>(i), words.end());
  if (got.command.empty()) *error = "there is no program to run; see tidepool run --help";
  got.command.push_back(nullptr);
  return got;
}

}  // namespace tidepool::tools
