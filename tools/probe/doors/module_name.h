#pragma once

#include <cstddef>

namespace tidepool::doors {

/// File name of the module that holds an address, without its folder; "" if none does. Takes the loader's
/// lock: not from signal handlers.
void put_module_name(const void* address, char* buffer, std::size_t size) noexcept;

}  // namespace tidepool::doors
