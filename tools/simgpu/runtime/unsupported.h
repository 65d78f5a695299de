#pragma once

namespace simgpu::runtime {

/// Puts a function that this library does not have into simgpu's report; nothing in front of another driver.
void note_unsupported(const char* name) noexcept;

/// The same, and gives cudaErrorNotSupported, which becomes the thread's last error.
int refuse(const char* name) noexcept;

}  // namespace simgpu::runtime
