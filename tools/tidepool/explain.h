#pragma once

#include <string>
#include <string_view>

#include "allocator/support/message.h"

namespace tidepool::tools {

/// "error", "warning", "information".
const char* severity_word(Severity severity);

/// A message's format with "…" where a value will stand.
std::string message_pattern(std::string_view format);

}  // namespace tidepool::tools
