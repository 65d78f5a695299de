#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "allocator/support/options.h"

namespace tidepool::tools {

/// Options from a TOML file: its keys are the options' names ('-' for '_' is taken too), its values text,
/// whole numbers, or true and false, in the grammar of the variables.
struct ConfigFile {
  std::string path;  ///< as it is to be named; empty: there was none
  std::vector<std::pair<const OptionRow*, std::string>> values;
  std::string error;  ///< not empty: "tidepool.toml:3: ...", and nothing else is to be used

  /// The value of this option; null if the file has none.
  [[nodiscard]] const std::string* value_of(const OptionRow& row) const;
};

/// Reads a text; `path` names it in errors.
ConfigFile parse_config(std::string_view text, const std::string& path);

/// Reads `named`, or ./tidepool.toml where that is empty; then it need not exist.
ConfigFile read_config(std::string_view named);

}  // namespace tidepool::tools
