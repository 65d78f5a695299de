#pragma once

#include <string>

namespace tidepool::tools {

/// The libtidepool.so that belongs to this command: where both are installed, or in the build tree. Where
/// neither is, the installed place, so that a complaint names it.
std::string library_path();

}  // namespace tidepool::tools
