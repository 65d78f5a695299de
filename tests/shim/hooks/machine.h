#pragma once

#include <cstdint>
#include <string_view>

namespace tidepool::test {

/// Answers that the recording driver, which has one device and knows no other objects, would not give: those
/// of a machine with two devices. Each has a context and a pool; a stream belongs to the context that was
/// current when it was made; a graph has one memset, whose parameters lie where the graph's handle points.
/// The result of the call, or a negative number: the driver shall answer as ever.
int answer_of_machine(std::string_view entry, const std::uint64_t* arguments);

}  // namespace tidepool::test
