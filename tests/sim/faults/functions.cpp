// What is asked of modules and of functions, for which a driver may load code.

#include "tests/sim/faults/device.h"

namespace tidepool::faults {
namespace {

std::size_t no_dynamic(int) {
  return 0;
}

void of_module(CUmodule module) {
  CUfunction function = nullptr;
  CALL(cuModuleEnumerateFunctions)(&function, 1u, module);
  EXPECT(function != nullptr);
}

void of_library(const Device& device, CUlibrary library) {
  CUmodule module = nullptr;
  CUkernel kernel = nullptr;
  CUfunction function = nullptr;
  int value = 0;
  CUdevice number = 0;
  CALL(cuLibraryGetModule)(&module, library);
  EXPECT(module != nullptr);
  CALL(cuLibraryGetKernel)(&kernel, library, "mark");
  CALL(cuKernelGetFunction)(&function, kernel);
  EXPECT(function != nullptr && function != device.mark);
  CALL(cuKernelGetAttribute)(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, kernel, number);
  EXPECT(value > 0);
  CALL(cuKernelSetAttribute)(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1024, kernel, number);
  CALL(cuKernelSetCacheConfig)(kernel, CU_FUNC_CACHE_PREFER_L1, number);
}

void of_function(CUfunction function) {
  int value = 0;
  int grid = 0;
  std::size_t bytes = 0;
  CALL(cuFuncLoad)(function);
  CALL(cuFuncGetAttribute)(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function);
  EXPECT(value > 0);
  CALL(cuFuncSetAttribute)(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1024);
  CALL(cuFuncSetCacheConfig)(function, CU_FUNC_CACHE_PREFER_L1);
  CALL(cuOccupancyMaxActiveBlocksPerMultiprocessor)(&value, function, 64, std::size_t{0});
  CALL(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags)(&grid, function, 64, std::size_t{0}, 0u);
  EXPECT(value > 0 && value == grid);
  CALL(cuOccupancyMaxPotentialBlockSize)(&grid, &value, function, &no_dynamic, std::size_t{0}, 0);
  EXPECT(grid > 0 && value > 0);
  CALL(cuOccupancyMaxPotentialBlockSizeWithFlags)
  (&grid, &value, function, &no_dynamic, std::size_t{0}, 0, 0u);
  EXPECT(grid > 0 && value > 0);
  CALL(cuOccupancyAvailableDynamicSMemPerBlock)(&bytes, function, 1, 64);
  EXPECT(bytes > 0);
}

}  // namespace

void questions(const Device& device, unsigned round) {
  const void* const image = kImage;
  CUmodule module = nullptr;
  CUlibrary library = nullptr;
  CALL(cuModuleLoadData)(&module, image);
  of_module(module);
  CALL(cuModuleUnload)(module);
  CALL(cuLibraryLoadData)
  (&library, image, static_cast<CUjit_option*>(nullptr), static_cast<void**>(nullptr), 0u,
   static_cast<CUlibraryOption*>(nullptr), static_cast<void**>(nullptr), 0u);
  of_library(device, library);
  CALL(cuLibraryUnload)(library);
  of_function(device.mark);
  CALL(cuCtxSetLimit)(CU_LIMIT_STACK_SIZE, std::size_t{1024} + 16 * (round % 4));
}

}  // namespace tidepool::faults
