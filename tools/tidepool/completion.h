#pragma once

#include <string>

namespace tidepool::tools {

/// Scripts that complete the words of `tidepool` in a shell; all from commands.def and options.def.
std::string bash_completion();
std::string zsh_completion();
std::string fish_completion();

}  // namespace tidepool::tools
