#pragma once

#include <cuda.h>

namespace tidepool::shim {

/// What a program gets when it asks dlsym(handle, name) for a function of the driver: our hook; a guarded
/// stand-in, where the table has the name but not this version; null, where the C library's answer stands.
/// `name` begins with "cu" and a capital letter. Hook-safe.
void* route_dlsym(void* handle, const char* name) noexcept;

/// The same for what cuGetProcAddress has put into `*out`. The driver has answered before, so that versions,
/// twins and symbolStatus are its own; the returned pointer, not the name, decides.
void reroute(const char* symbol, void** out, cuuint64_t flags) noexcept;

/// The handler of the dlsym door; each library that is built from the door has its own, beside the handlers
/// of cuGetProcAddress. Comes down to route_dlsym().
void* handle_dlsym(void* handle, const char* name) noexcept;

/// Also each library's own: the same where the global scope is searched (RTLD_DEFAULT, RTLD_NEXT, the
/// program's handle) by the code at `caller`. kNoSymbol: it would find our function, where without the
/// library there is none.
void* handle_global_dlsym(void* handle, const char* name, const void* caller) noexcept;

/// What dlsym shall return where it must be null.
inline void* const kNoSymbol = reinterpret_cast<void*>(-1);

/// Also each library's own: the same for functions of the CUDA runtime and of NCCL that it stands in front
/// of; `name` begins with "cuda" or "nccl". kNoSymbol: the code at `caller` would find the library's function
/// where without it there is none.
void* handle_library_dlsym(void* handle, const char* name, const void* caller) noexcept;

}  // namespace tidepool::shim
