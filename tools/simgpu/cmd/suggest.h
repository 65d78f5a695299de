#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace simgpu::cmd {

/// " (did you mean 'x'?)" for the candidate that is at most three edits away from the word, or "".
std::string suggestion(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace simgpu::cmd
