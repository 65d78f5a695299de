#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "allocator/support/options.h"
#include "tools/tidepool/command_table.h"

namespace tidepool::tools {

/// The flag of an option: "--device-budget".
std::string flag_of(const OptionRow& row);

/// The flag as help shows it: with "=off" for a switch that is on.
std::string shown_flag(const OptionRow& row);

/// What an option takes: "16MiB..100%", "off, cheap, full", "yes or no", "a path".
std::string range_of(const OptionRow& row);

/// The option lines of a help text, in groups.
std::string options_help();

/// `tidepool run`'s arguments, taken apart.
struct RunArguments {
  std::vector<std::pair<const OptionRow*, std::string>> options;  ///< in the order given
  CommandWords flags;                                             ///< those of commands.def
  std::vector<char*> command;  ///< the program and its arguments; ends with a null pointer
};

/// Reads everything up to "--" or the first word that is no option; the rest is the program's and is not
/// looked at. Values are checked against the option table. On a mistake `error` is one line that says what
/// and the result is not to be used.
RunArguments parse_run_arguments(std::span<char*> words, std::string* error);

}  // namespace tidepool::tools
