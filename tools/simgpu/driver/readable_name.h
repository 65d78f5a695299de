#pragma once

#include <string>

namespace simgpu {

/// A function's name as its source has it, where it can be told from the symbol.
std::string readable_name(const std::string& symbol);

}  // namespace simgpu
