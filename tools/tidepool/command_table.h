#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tidepool::tools {

/// One command of `tidepool`: a row of commands.def.
struct CommandRow {
  std::string_view name;
  std::string_view arguments;  ///< what follows the name in a usage line
  std::string_view summary;
  std::string_view about;
};

/// One option of a command.
struct FlagRow {
  std::string_view command;
  std::string_view flag;    ///< "--json"
  std::string_view letter;  ///< "-j", or empty
  std::string_view value;   ///< what its argument is called; empty: it takes none
  std::string_view help;
};

/// In the order of the table.
std::span<const CommandRow> command_rows();
/// The row of this command, or null.
const CommandRow* find_command(std::string_view name);
/// The options of this command, in the order of the table.
std::vector<FlagRow> flags_of(std::string_view command);

/// The text of `tidepool COMMAND --help`. For `run` the options of options.def follow.
std::string usage_text(const CommandRow& command);
/// The text of `tidepool --help`.
std::string overview_text();

/// Breaks text into lines of at most `width` columns, each behind `indent` spaces.
std::string wrapped(std::string_view text, std::size_t indent, std::size_t width = 80);

/// What a command was given. Words that are no option come to `words`.
struct CommandWords {
  bool help = false;
  std::string error;  ///< not empty: one clause that says what is wrong
  std::vector<std::string_view> words;
  std::vector<std::pair<std::string_view, std::string_view>>
      flags;  ///< in the order given, with their values

  [[nodiscard]] bool has(std::string_view flag) const;
  /// The argument of the flag, the last if it was given twice; empty if it was not.
  [[nodiscard]] std::string_view value_of(std::string_view flag) const;
};

/// Reads the options of a command up to "--" (everything behind it is words). Takes "--flag=value" and
/// "--flag value"; a slip of the pen gets a suggestion. More than `most_words` words are an error.
CommandWords read_words(std::string_view command, std::span<char*> words, std::size_t most_words);

/// read_words(), then what every command does first: prints its help, or what is wrong. Empty: the command
/// goes on with `got`; else the exit code.
std::optional<int> begin_command(std::string_view name, std::span<char*> words, std::size_t most_words,
                                 CommandWords& got);

/// What the argument of a flag that names a file is called; an empty one is none.
inline constexpr std::string_view kFileValue = "FILE";

/// The switches of a word such as "-vq", in its order; empty if it is no such word.
std::vector<FlagRow> bundled(std::string_view word, std::span<const FlagRow> flags);

/// Can a word be no value, but the next flag (or "--")? A value that begins so is given as --flag=VALUE.
bool is_flag_word(std::string_view word);

/// "--config needs a value (FILE)".
std::string needs_value(std::string_view name, std::string_view wanted);

/// "unknown option --verbos (did you mean --verbose?)", where one of `known` is near.
std::string unknown_flag(std::string_view word, const std::vector<std::string>& known);

}  // namespace tidepool::tools
