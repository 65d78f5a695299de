#include "tools/simgpu/driver/kernel_attributes.h"

#include <algorithm>

#include "tools/simgpu/driver/capability_limits.h"
#include "tools/simgpu/driver/library.h"

namespace simgpu {
namespace {

constexpr int kThreadsOfLargestBlock = 1024;
constexpr int kRegistersOfSmallKernel = 32;

/// CUDA C++ programming guide, "Compute Capabilities": registers of a block, and how they are given out.
constexpr int kRegistersPerBlock = 64 << 10;
constexpr int kRegisterUnit = 256;
constexpr int kWarp = 32;
constexpr int kWarpUnit = 4;

int threads_by_registers(int registers) {
  if (registers <= 0) return kThreadsOfLargestBlock;
  const int of_warp = (registers * kWarp + kRegisterUnit - 1) / kRegisterUnit * kRegisterUnit;
  const int warps = kRegistersPerBlock / of_warp / kWarpUnit * kWarpUnit;
  return std::min(kThreadsOfLargestBlock, warps * kWarp);
}

int registers_of(const fatbin::KernelFacts* facts) {
  return facts == nullptr || facts->registers < 0 ? kRegistersOfSmallKernel : facts->registers;
}

/// The architecture of the code, or of the device that PTX is compiled for.
int binary_version(const DeviceImage* image, const Gpu& gpu) {
  if (image != nullptr && !image->facts.from_ptx && image->facts.arch.number != 0)
    return image->facts.arch.number;
  return gpu.config.compute_major * 10 + gpu.config.compute_minor;
}

}  // namespace

int max_block_threads(const Kernel& kernel, const Gpu& gpu) {
  const fatbin::KernelFacts* facts = facts_of(kernel, gpu);
  const int threads = threads_by_registers(registers_of(facts));
  return facts == nullptr || facts->max_threads == 0 ? threads : std::min(threads, facts->max_threads);
}

CUresult kernel_attribute(int* value, CUfunction_attribute attribute, const Kernel& kernel, const Gpu& gpu) {
  if (attribute < 0 || attribute >= CU_FUNC_ATTRIBUTE_MAX) return CUDA_ERROR_INVALID_VALUE;
  const DeviceImage* image = image_for(*kernel.library, gpu);
  const fatbin::KernelFacts* facts = facts_of(kernel, gpu);
  if (image != nullptr && facts == nullptr) return CUDA_ERROR_NO_BINARY_FOR_GPU;
  *value = 0;
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *value = max_block_threads(kernel, gpu);
      break;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
      if (facts != nullptr) *value = facts->static_shared_bytes;
      break;
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
      if (image != nullptr) *value = static_cast<int>(image->facts.constant_bytes());
      break;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
      if (facts != nullptr) *value = std::max(facts->local_bytes, 0);
      break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      *value = registers_of(facts);
      break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
      *value = image != nullptr && image->facts.arch.number != 0 ? image->facts.arch.number
                                                                 : binary_version(image, gpu);
      break;
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
      *value = binary_version(image, gpu);
      break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      *value = kernel.max_dynamic_shared;
      break;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      *value = kernel.carveout;
      break;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
      *value = kernel.non_portable_cluster;
      break;
    default:
      break;
  }
  return CUDA_SUCCESS;
}

CUresult set_kernel_attribute(CUfunction_attribute attribute, int value, const Gpu& gpu, Kernel& kernel) {
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      if (value < 0 || value > limits_of(gpu.config).shared_per_block) return CUDA_ERROR_INVALID_VALUE;
      kernel.max_dynamic_shared = value;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      if (value < -1 || value > 100) return CUDA_ERROR_INVALID_VALUE;
      kernel.carveout = value;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
      kernel.non_portable_cluster = value;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult param_info(const Kernel& kernel, std::size_t index, std::size_t* offset, std::size_t* size) {
  if (offset == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!kernel.params_known) return CUDA_ERROR_NOT_SUPPORTED;
  if (index >= kernel.params.size()) return CUDA_ERROR_INVALID_VALUE;
  *offset = kernel.params[index].offset;
  if (size != nullptr) *size = kernel.params[index].size;
  return CUDA_SUCCESS;
}

}  // namespace simgpu
