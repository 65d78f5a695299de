#pragma once

#include <string>
#include <string_view>

#include "tools/tidepool/event_reader.h"

namespace tidepool::tools {

/// An event as one line of the log, without the newline.
std::string event_json(const EventSeen& event);

/// The version of the driver's kernel module in what /proc/driver/nvidia/version tells; empty: none is told.
std::string kernel_driver_of(std::string_view told);

/// The first line of a log: whose it is. `run` is the name of the run folder, `options` a JSON object.
std::string log_header_json(const EventSource& source, const std::string& run, const std::string& options);

/// The options that are not at their default here and now, as a JSON object of texts.
std::string set_options_json();

}  // namespace tidepool::tools
