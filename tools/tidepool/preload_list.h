#pragma once

#include <string>

namespace tidepool::tools {

/// LD_PRELOAD with `library` put in front of what is there (`before`; may be null). Run-time libraries of
/// sanitizers stay first, because they refuse to start otherwise; a list that has the library is unchanged.
std::string preload_list(const char* before, const std::string& library);

}  // namespace tidepool::tools
