#pragma once

#include <cstddef>

namespace tidepool::shim {

/// Memory for the library's own records: malloc's, or a reserve of 4 MiB when malloc refuses. Waits, with a
/// message, when both are used up; never null. Thread-safe. operator new and delete of the library are these
/// (the nothrow forms of new ask malloc only).
void* take_own_memory(std::size_t size) noexcept;
void give_own_memory(void* memory) noexcept;

}  // namespace tidepool::shim
