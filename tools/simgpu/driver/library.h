#pragma once

#include "tools/simgpu/driver/driver.h"
#include "tools/simgpu/fatbin/bytes.h"

/// Loading images. Every function is called under the driver's lock.
namespace simgpu {

/// Where an image comes from: memory of the program whose length its headers say, or bytes that were read
/// from a file.
struct ImageSource {
  const void* pointer = nullptr;  ///< used if `bytes` is empty
  fatbin::Bytes bytes;
  bool preserved =
      false;  ///< the memory stays until the library is unloaded (CU_LIBRARY_BINARY_IS_PRESERVED)
};

/// Chooses from the image for the owner's device, or for every device if `owner` is null. Modules are read at
/// once; libraries when a kernel or variable is asked for, unless CUDA_MODULE_LOADING is EAGER. On an error
/// one line says what, with which effect, and the remedy. CUDA_ERROR_INVALID_IMAGE, INVALID_PTX,
/// UNSUPPORTED_PTX_VERSION, or NO_BINARY_FOR_GPU if no device can run any of it.
CUresult load_library(Driver& d, const ImageSource& source, Context* owner, Library** out);

/// Says that an image of device code has none for devices of this capability.
void report_nothing_fits(fatbin::Capability capability);

/// Makes the library's kernels exist. Cheap when that has been done.
CUresult read_library(Driver& d, Library& library);

/// Drains, frees the variables and forgets the library.
void unload_library(Driver& d, Library& library);

/// The library's image for this device, or null for simgpu's own empty image.
const DeviceImage* image_for(const Library& library, const Gpu& gpu);

/// What the image for this device says of a kernel; null if it does not have it.
const fatbin::KernelFacts* facts_of(const Kernel& kernel, const Gpu& gpu);

/// Loads a library into a context: its variables get memory of the device, with their initial values, and its
/// managed variables managed memory if this is the first context. Cheap when that has been done.
/// CUDA_ERROR_NO_BINARY_FOR_GPU, CUDA_ERROR_OUT_OF_MEMORY.
CUresult load_into(Driver& d, Context& context, Library& library);

/// Address and size of a variable in a context. CUDA_ERROR_NOT_FOUND; CUDA_ERROR_NOT_SUPPORTED for one
/// whose initial value is PTX that simgpu does not understand.
CUresult find_variable(Driver& d, Context& context, Library& library, const char* name,
                       std::uint64_t* address, std::uint64_t* size);

/// True if the environment asks for everything to be loaded at once (CUDA_MODULE_LOADING=EAGER).
bool eager_loading();

}  // namespace simgpu
