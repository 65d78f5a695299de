#pragma once

#include <string>
#include <string_view>

namespace tidepool::tools {

/// The text as a JSON string with its quotes. Bytes that are no UTF-8 become U+FFFD, so that what is printed
/// is always JSON.
std::string json_quoted(std::string_view text);

}  // namespace tidepool::tools
