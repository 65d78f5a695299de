#include "tools/simgpu/driver/launch_request.h"

#include <algorithm>
#include <cstring>

#include "tools/simgpu/driver/capability_limits.h"
#include "tools/simgpu/driver/digest_launch.h"
#include "tools/simgpu/driver/kernel_attributes.h"
#include "tools/simgpu/driver/library.h"

namespace simgpu {
namespace {

constexpr unsigned kMaxBlockZ = 64;
constexpr unsigned kMaxGridX = 0x7fffffff;
constexpr unsigned kMaxGridYz = 65535;

bool shape_ok(const CUlaunchConfig& c) {
  if (c.gridDimX == 0 || c.gridDimY == 0 || c.gridDimZ == 0) return false;
  if (c.blockDimX == 0 || c.blockDimY == 0 || c.blockDimZ == 0) return false;
  if (c.gridDimX > kMaxGridX || c.gridDimY > kMaxGridYz || c.gridDimZ > kMaxGridYz) return false;
  if (c.blockDimX > kMaxBlockThreads || c.blockDimY > kMaxBlockThreads || c.blockDimZ > kMaxBlockZ)
    return false;
  return std::uint64_t{c.blockDimX} * c.blockDimY * c.blockDimZ <= kMaxBlockThreads;
}

/// Copies the parameters, given one by one or packed in `extra`.
CUresult take_params(const Kernel& kernel, void** params, void** extra, std::vector<unsigned char>* out) {
  const std::uint32_t bytes = kernel.param_bytes();
  if (params != nullptr && extra != nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (bytes == 0) return CUDA_SUCCESS;
  out->resize(bytes);
  if (params != nullptr) {
    for (std::size_t i = 0; i < kernel.params.size(); ++i) {
      const SimgpuParam& param = kernel.params[i];
      if (params[i] == nullptr) return CUDA_ERROR_INVALID_VALUE;
      std::memcpy(out->data() + param.offset, params[i], param.size);
    }
    return CUDA_SUCCESS;
  }
  if (extra == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const void* buffer = nullptr;
  std::size_t size = 0;
  for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
    if (extra[0] == CU_LAUNCH_PARAM_BUFFER_POINTER) {
      buffer = extra[1];
    } else if (extra[0] == CU_LAUNCH_PARAM_BUFFER_SIZE) {
      size = *static_cast<const std::size_t*>(extra[1]);
    } else {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  if (buffer == nullptr || size < bytes) return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(out->data(), buffer, bytes);
  return CUDA_SUCCESS;
}

}  // namespace

int active_blocks(const Gpu& gpu, int block_threads, std::size_t dynamic_shared) {
  const CapabilityLimits& c = limits_of(gpu.config);
  const std::size_t of_block = dynamic_shared + static_cast<std::size_t>(c.reserved_per_block);
  const auto shared = static_cast<std::size_t>(c.shared_per_sm);
  const int by_shared = of_block == 0 ? c.blocks_per_sm : static_cast<int>(shared / of_block);
  return std::min({c.threads_per_sm / block_threads, c.blocks_per_sm, by_shared});
}

CUresult make_launch(Driver& d, Context& context, CUfunction handle, const CUlaunchConfig& c, void** params,
                     void** extra, bool cooperative, Launch* out) {
  Kernel* kernel = find_kernel(d, handle);
  if (kernel == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (!shape_ok(c) || c.sharedMemBytes > static_cast<unsigned>(kernel->max_dynamic_shared)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const auto threads = static_cast<int>(c.blockDimX * c.blockDimY * c.blockDimZ);
  if (threads > max_block_threads(*kernel, *context.gpu)) return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
  if (const CUresult loaded = load_into(d, context, *kernel->library); loaded != CUDA_SUCCESS) return loaded;
  kernel->loaded = true;
  if (kernel->body == nullptr) {
    if (const CUresult prepared = prepare_digest(d, *kernel); prepared != CUDA_SUCCESS) return prepared;
  }
  if (cooperative) {
    const auto fits = static_cast<std::uint64_t>(active_blocks(*context.gpu, threads, c.sharedMemBytes)) *
                      static_cast<std::uint64_t>(context.gpu->config.compute_multiprocessors);
    if (std::uint64_t{c.gridDimX} * c.gridDimY * c.gridDimZ > fits)
      return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
  }
  Launch work;
  work.kernel = keep(*kernel);
  work.grid = {c.gridDimX, c.gridDimY, c.gridDimZ};
  work.block = {c.blockDimX, c.blockDimY, c.blockDimZ};
  work.dynamic_shared = c.sharedMemBytes;
  work.cooperative = cooperative;
  const CUresult taken = take_params(*kernel, params, extra, &work.params);
  if (taken != CUDA_SUCCESS) return taken;
  *out = std::move(work);
  return CUDA_SUCCESS;
}

}  // namespace simgpu
