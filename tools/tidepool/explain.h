#pragma once

#include <span>
#include <string>
#include <string_view>

#include "allocator/support/message.h"

namespace tidepool::tools {

/// "error", "warning", "information".
const char* severity_word(Severity severity);

/// A message's format with "…" where a value will stand.
std::string message_pattern(std::string_view format);

/// Variables that are no options of Tidepool, and matter.
struct OtherVariable {
  const char* names;  ///< one, or some with ", " between them
  const char* help;   ///< names of variables and commands between '`'
};
std::span<const OtherVariable> other_variables();

}  // namespace tidepool::tools
