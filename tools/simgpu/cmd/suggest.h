#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace simgpu::cmd {

/// " (did you mean 'x'?)" for the candidate that the word was most likely meant to be, or "".
std::string suggestion(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace simgpu::cmd
