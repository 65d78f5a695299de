#pragma once

#include <string>
#include <string_view>

namespace tidepool::tools {

/// The word as a shell has to be given it; unchanged where nothing in it means anything to a shell.
std::string shell_quoted(std::string_view word);

/// "NAME=value" with the value quoted.
std::string shell_assignment(std::string_view assignment);

}  // namespace tidepool::tools
