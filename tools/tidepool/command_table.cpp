#include "tools/tidepool/command_table.h"

#include <algorithm>
#include <cstdio>

#include "allocator/support/edit_distance.h"
#include "tools/tidepool/console.h"
#include "tools/tidepool/option_flags.h"

namespace tidepool::tools {
namespace {

constexpr CommandRow kCommands[] = {
#define TP_COMMAND(name, arguments, summary, about) {#name, arguments, summary, about},
#define TP_FLAG(...)
#include "tools/tidepool/commands.def"
#undef TP_COMMAND
#undef TP_FLAG
};

constexpr FlagRow kFlags[] = {
#define TP_COMMAND(...)
#define TP_FLAG(command, flag, letter, value, help) {#command, flag, letter, value, help},
#include "tools/tidepool/commands.def"
#undef TP_COMMAND
#undef TP_FLAG
};

constexpr std::string_view kHelp = "Show this text.";

std::string flag_lines(const FlagRow& flag) {
  std::string text = "    ";
  if (!flag.letter.empty()) text += std::string(flag.letter) + ", ";
  text += flag.flag;
  if (!flag.value.empty()) text += " " + std::string(flag.value);
  return text + "\n" + wrapped(flag.help, 8);
}

}  // namespace

std::span<const CommandRow> command_rows() {
  return kCommands;
}

const CommandRow* find_command(std::string_view name) {
  for (const CommandRow& row : kCommands) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

std::vector<FlagRow> flags_of(std::string_view command) {
  std::vector<FlagRow> flags;
  for (const FlagRow& row : kFlags) {
    if (row.command == command) flags.push_back(row);
  }
  flags.push_back({command, "--help", "-h", "", kHelp});
  return flags;
}

std::string wrapped(std::string_view text, std::size_t indent, std::size_t width) {
  std::string out;
  std::size_t column = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    if (column > 0 && column + 1 + end > width) {
      out += '\n';
      column = 0;
    }
    if (column == 0) {
      out.append(indent, ' ');
      column = indent;
    } else {
      out += ' ';
      ++column;
    }
    out += text.substr(0, end);
    column += end;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out.empty() ? out : out + '\n';
}

std::string usage_text(const CommandRow& command) {
  std::string text = "usage: tidepool " + std::string(command.name);
  if (!command.arguments.empty()) text += " " + std::string(command.arguments);
  text += "\n\n" + wrapped(command.about, 0) + "\n";
  const bool has_options = command.name == "run";
  text += has_options ? "Options (those in groups are also variables; see tidepool env):\n" : "Options:\n";
  for (const FlagRow& flag : flags_of(command.name)) text += flag_lines(flag);
  return has_options ? text + options_help() : text;
}

std::string overview_text() {
  std::string text =
      "usage: tidepool COMMAND [ARGUMENT...]\n\nRuns unmodified CUDA programs in less GPU memory than they "
      "ask for.\n\n";
  for (const CommandRow& row : kCommands) {
    std::string name(row.name);
    name.resize(11, ' ');
    text += "  " + name + std::string(row.summary) + "\n";
  }
  return text + "\ntidepool COMMAND --help tells more.\n";
}

bool CommandWords::has(std::string_view flag) const {
  return std::any_of(flags.begin(), flags.end(), [&](const auto& given) { return given.first == flag; });
}

std::string_view CommandWords::value_of(std::string_view flag) const {
  const auto given =
      std::find_if(flags.rbegin(), flags.rend(), [&](const auto& each) { return each.first == flag; });
  return given == flags.rend() ? "" : given->second;
}

std::string unknown_flag(std::string_view word, const std::vector<std::string>& known) {
  std::string text = "unknown option " + std::string(word);
  if (word.size() <= 2) return text;
  const std::string wanted = (word.starts_with("--") ? "" : "-") + std::string(word);
  const std::string_view stem = std::string_view(wanted).substr(2);
  const auto suggest = [&](const std::string& flag) { return text + " (did you mean " + flag + "?)"; };
  // "--budget" is a part of what was meant rather than three slips of the pen away from it.
  constexpr std::size_t kTelling = 4;
  for (const std::string& flag : known) {
    if (stem.size() >= kTelling && flag.find(stem) != flag.npos) return suggest(flag);
  }
  // Without the dashes, which would make a short flag near to everything.
  const auto* const meant = nearest_item(stem, known, [](const std::string& flag) -> std::string_view {
    return std::string_view(flag).substr(2);
  });
  return meant == nullptr ? text : suggest(*meant);
}

std::vector<FlagRow> bundled(std::string_view word, std::span<const FlagRow> flags) {
  std::vector<FlagRow> switches;
  if (word.size() < 3 || word[0] != '-' || word[1] == '-') return switches;
  for (const char letter : word.substr(1)) {
    const auto row = std::find_if(flags.begin(), flags.end(), [&](const FlagRow& f) {
      return f.value.empty() && f.letter.size() == 2 && f.letter[1] == letter;
    });
    if (row == flags.end()) return {};
    switches.push_back(*row);
  }
  return switches;
}

bool is_flag_word(std::string_view word) {
  return word.starts_with("--");
}

std::string needs_value(std::string_view name, std::string_view wanted) {
  return std::string(name) + " needs a value (" + std::string(wanted) + ")";
}

CommandWords read_words(std::string_view command, std::span<char*> words, std::size_t most_words) {
  CommandWords got;
  const std::vector<FlagRow> flags = flags_of(command);
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string_view word = words[i];
    if (word == "--") {
      got.words.insert(got.words.end(), words.begin() + static_cast<std::ptrdiff_t>(i) + 1, words.end());
      break;
    }
    if (word.size() < 2 || word[0] != '-') {
      got.words.push_back(word);
      continue;
    }
    if (const std::vector<FlagRow> switches = bundled(word, flags); !switches.empty()) {
      for (const FlagRow& each : switches) {
        if (each.flag == "--help") return got.help = true, got;
        got.flags.emplace_back(each.flag, "");
      }
      continue;
    }
    const std::size_t equals = word.find('=');
    const std::string_view name = word.substr(0, equals);
    const auto row = std::find_if(flags.begin(), flags.end(),
                                  [&](const FlagRow& f) { return name == f.flag || name == f.letter; });
    if (row == flags.end()) {
      std::vector<std::string> known(flags.size());
      std::transform(flags.begin(), flags.end(), known.begin(),
                     [](const FlagRow& f) { return std::string(f.flag); });
      return got.error = unknown_flag(name, known), got;
    }
    if (row->flag == "--help" && equals == word.npos) return got.help = true, got;
    std::string_view value;
    if (row->value.empty()) {
      if (equals != word.npos) return got.error = std::string(name) + " takes no value", got;
    } else if (equals != word.npos) {
      value = word.substr(equals + 1);
    } else if (i + 1 < words.size() && !is_flag_word(words[i + 1])) {
      value = words[++i];
    } else {
      return got.error = needs_value(name, row->value), got;
    }
    if (row->value == kFileValue && value.empty()) return got.error = needs_value(name, row->value), got;
    got.flags.emplace_back(row->flag, value);
  }
  if (got.words.size() > most_words) {
    got.error = most_words == 0
                    ? "takes no arguments"
                    : "there is one argument too many: '" + std::string(got.words[most_words]) + "'";
  }
  return got;
}

std::optional<int> begin_command(std::string_view name, std::span<char*> words, std::size_t most_words,
                                 CommandWords& got) {
  got = read_words(name, words, most_words);
  if (!got.error.empty()) {
    say("%s: %s", std::string(name).c_str(), got.error.c_str());
    return kExitRefused;
  }
  if (got.help) {
    std::fputs(usage_text(*find_command(name)).c_str(), stdout);
    return 0;
  }
  return std::nullopt;
}

}  // namespace tidepool::tools
