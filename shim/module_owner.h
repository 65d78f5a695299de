#pragma once

#include <cstdint>

namespace tidepool::shim {

/// Whose code calls, and so whose memory it asks for; see library_names.def.
enum class Owner : std::uint8_t {
  kProgram,  ///< everything that is none of the others, also code without a file (compiled at run time)
  kLibrary,  ///< a CUDA library: what it allocates stays on the device
  kCudart,   ///< a CUDA runtime of its own file: it asks for whoever called it
  kDriver,
};

struct Module {
  Owner owner;
  const char* name;  ///< the row's name, static; "" for the program
};

/// By the path of a file. A function of the name and of nothing else, so there is no answer to keep and none
/// that an unloaded library could leave behind. Hook-safe.
Module module_of_file(const char* path) noexcept;

/// By an address in its code, for example a return address. Hook-safe, takes no lock.
Module module_of(const void* code) noexcept;

}  // namespace tidepool::shim
