// Launches of each kind, and code that is loaded and unloaded.

#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "tests/sim/faults/device.h"

namespace tidepool::faults {
namespace {

/// The image as a file.
struct ImageFile {
  ImageFile() {
    const int file = ::mkstemp(name);
    EXPECT(file >= 0);
    const std::size_t size = std::strlen(kImage);
    EXPECT(::write(file, kImage, size) == static_cast<ssize_t>(size));
    ::close(file);
  }
  ~ImageFile() { ::unlink(name); }
  ImageFile(const ImageFile&) = delete;
  ImageFile& operator=(const ImageFile&) = delete;
  char name[32] = "/tmp/fault_rounds_XXXXXX";
};

void launch(const Device& device, CUfunction function, CUdeviceptr at, unsigned value) {
  void* params[] = {&at, &value};
  CALL(cuLaunchKernel)
  (function, 1u, 1u, 1u, kWords, 1u, 1u, 0u, device.stream, static_cast<void**>(params),
   static_cast<void**>(nullptr));
  device.expect(at, value);
}

void use(const Device& device, CUmodule module, CUdeviceptr at, unsigned value) {
  give_body(module);
  CUfunction function = nullptr;
  CALL(cuModuleGetFunction)(&function, module, "mark");
  launch(device, function, at, value);
  CALL(cuModuleUnload)(module);
}

void use(const Device& device, CUlibrary library, CUdeviceptr at, unsigned value) {
  give_body(library);
  CUkernel kernel = nullptr;
  CALL(cuLibraryGetKernel)(&kernel, library, "mark");
  launch(device, reinterpret_cast<CUfunction>(kernel), at, value);
  CALL(cuLibraryUnload)(library);
}

}  // namespace

void launches(const Device& device, unsigned round) {
  const Memory memory(2 * kMiB);
  CUdeviceptr at = memory.at;
  unsigned value = round;
  void* params[] = {&at, &value};
  CUlaunchConfig config{};
  config.gridDimX = config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = kWords;
  config.blockDimY = config.blockDimZ = 1;
  config.hStream = device.stream;
  CALL(cuLaunchKernelEx)(&config, device.mark, static_cast<void**>(params), static_cast<void**>(nullptr));
  device.expect(at, value);
  ++value;
  CALL(cuLaunchCooperativeKernel)
  (device.mark, 1u, 1u, 1u, kWords, 1u, 1u, 0u, device.stream, static_cast<void**>(params));
  CUevent event = nullptr;
  CALL(cuEventCreate)(&event, unsigned{CU_EVENT_DISABLE_TIMING});
  CALL(cuEventRecord)(event, device.stream);
  CALL(cuEventSynchronize)(event);
  CALL(cuEventDestroy_v2)(event);
  device.expect(at, value);
}

void modules(const Device& device, unsigned round) {
  static const ImageFile file;
  const Memory memory(2 * kMiB);
  const void* const image = kImage;
  CUmodule module = nullptr;
  CALL(cuModuleLoad)(&module, file.name);
  use(device, module, memory.at, round);
  CALL(cuModuleLoadData)(&module, image);
  use(device, module, memory.at, round + 1);
  CALL(cuModuleLoadDataEx)
  (&module, image, 0u, static_cast<CUjit_option*>(nullptr), static_cast<void**>(nullptr));
  use(device, module, memory.at, round + 2);
  CALL(cuModuleLoadFatBinary)(&module, image);
  use(device, module, memory.at, round + 3);
  CUlibrary library = nullptr;
  CALL(cuLibraryLoadData)
  (&library, image, static_cast<CUjit_option*>(nullptr), static_cast<void**>(nullptr), 0u,
   static_cast<CUlibraryOption*>(nullptr), static_cast<void**>(nullptr), 0u);
  use(device, library, memory.at, round + 4);
  CALL(cuLibraryLoadFromFile)
  (&library, file.name, static_cast<CUjit_option*>(nullptr), static_cast<void**>(nullptr), 0u,
   static_cast<CUlibraryOption*>(nullptr), static_cast<void**>(nullptr), 0u);
  use(device, library, memory.at, round + 5);
}

}  // namespace tidepool::faults
