#pragma once

#include <cstdint>
#include <string_view>

namespace tidepool::test {

/// A number of metrics.def as the preloaded library keeps it for the calling process, from the page in
/// TIDEPOOL_RUN_DIR. Ends the program where there is none.
std::uint64_t own_page_value(std::string_view metric);

}  // namespace tidepool::test
