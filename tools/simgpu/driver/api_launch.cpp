#include <algorithm>
#include <cstring>

#include "tools/simgpu/driver/api.h"

/// "Execution Control" and "Occupancy" of the CUDA driver API.
namespace simgpu {
namespace {

constexpr unsigned kMaxBlockThreads = 1024;
constexpr unsigned kMaxBlockZ = 64;
constexpr unsigned kMaxGridX = 0x7fffffff;
constexpr unsigned kMaxGridYz = 65535;
constexpr int kThreadsPerMultiprocessor = 2048;
constexpr int kBlocksPerMultiprocessor = 32;
constexpr std::size_t kSharedPerMultiprocessor = std::size_t{228} << 10;
constexpr std::size_t kReservedShared = std::size_t{1} << 10;

/// Either kind of handle names a kernel at a launch.
Kernel* find_kernel(Driver& d, CUfunction handle) {
  const auto it = d.kernels.find(handle);
  return it == d.kernels.end() ? nullptr : it->second;
}

bool shape_ok(const CUlaunchConfig& c) {
  if (c.gridDimX == 0 || c.gridDimY == 0 || c.gridDimZ == 0) return false;
  if (c.blockDimX == 0 || c.blockDimY == 0 || c.blockDimZ == 0) return false;
  if (c.gridDimX > kMaxGridX || c.gridDimY > kMaxGridYz || c.gridDimZ > kMaxGridYz) return false;
  if (c.blockDimX > kMaxBlockThreads || c.blockDimY > kMaxBlockThreads || c.blockDimZ > kMaxBlockZ)
    return false;
  return std::uint64_t{c.blockDimX} * c.blockDimY * c.blockDimZ <= kMaxBlockThreads;
}

int active_blocks(int block_threads, std::size_t dynamic_shared) {
  const std::size_t by_shared = kSharedPerMultiprocessor / (dynamic_shared + kReservedShared);
  return std::min(
      {kThreadsPerMultiprocessor / block_threads, kBlocksPerMultiprocessor, static_cast<int>(by_shared)});
}

/// Copies the parameters, given one by one or packed in `extra`.
CUresult take_params(const Kernel& kernel, void** params, void** extra, std::vector<unsigned char>* out) {
  const std::uint32_t bytes = kernel.param_bytes();
  if (params != nullptr && extra != nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (bytes == 0) return CUDA_SUCCESS;
  out->resize(bytes);
  if (params != nullptr) {
    for (std::uint32_t i = 0; i < kernel.body->param_count; ++i) {
      const SimgpuParam& param = kernel.body->params[i];
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

struct Attributes {
  bool cooperative = false;
};

/// Attributes that only tune are accepted; those that order work in a way the scheduler has not are refused.
CUresult read_attributes(const CUlaunchConfig& c, Attributes* out) {
  if (c.numAttrs > 0 && c.attrs == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < c.numAttrs; ++i) {
    switch (c.attrs[i].id) {
      case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
        out->cooperative = c.attrs[i].value.cooperative != 0;
        break;
      case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
      case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
        return CUDA_ERROR_NOT_SUPPORTED;
      default:
        break;
    }
  }
  return CUDA_SUCCESS;
}

CUresult launch(Driver& d, Context& context, bool per_thread, CUfunction handle, const CUlaunchConfig& c,
                void** params, void** extra, bool cooperative) {
  const Kernel* kernel = find_kernel(d, handle);
  const std::shared_ptr<Stream> stream = d.find_stream(&context, c.hStream, per_thread);
  if (kernel == nullptr || stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (!shape_ok(c) || c.sharedMemBytes > static_cast<unsigned>(kernel->max_dynamic_shared)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (kernel->body == nullptr) {
    report_error("kernel '" + readable_name(kernel->name) +
                 "' has no CPU body (see simgpu/kernel.h); it was not launched");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  if (cooperative) {
    const int threads = static_cast<int>(c.blockDimX * c.blockDimY * c.blockDimZ);
    const auto fits = static_cast<std::uint64_t>(active_blocks(threads, c.sharedMemBytes)) *
                      static_cast<std::uint64_t>(context.gpu->config.compute_multiprocessors);
    if (std::uint64_t{c.gridDimX} * c.gridDimY * c.gridDimZ > fits)
      return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
  }
  Launch work;
  work.kernel = kernel;
  work.grid = {c.gridDimX, c.gridDimY, c.gridDimZ};
  work.block = {c.blockDimX, c.blockDimY, c.blockDimZ};
  work.dynamic_shared = c.sharedMemBytes;
  const CUresult taken = take_params(*kernel, params, extra, &work.params);
  if (taken != CUDA_SUCCESS) return taken;
  enqueue(d, stream, std::move(work));
  return CUDA_SUCCESS;
}

CUlaunchConfig shape(unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                     unsigned shared, CUstream stream) {
  return CUlaunchConfig{gx, gy, gz, bx, by, bz, shared, stream, nullptr, 0};
}

CUresult occupancy(Driver& d, int* blocks, CUfunction handle, int block_threads, std::size_t dynamic_shared) {
  const Kernel* kernel = find_kernel(d, handle);
  if (kernel == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (blocks == nullptr || block_threads <= 0 || block_threads > static_cast<int>(kMaxBlockThreads)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const bool fits = dynamic_shared <= static_cast<std::size_t>(kernel->max_dynamic_shared);
  *blocks = fits ? active_blocks(block_threads, dynamic_shared) : 0;
  return CUDA_SUCCESS;
}

CUresult best_block_size(Driver& d, const Context& context, int* grid, int* block, CUfunction handle,
                         CUoccupancyB2DSize shared_of, std::size_t dynamic_shared, int limit) {
  if (grid == nullptr || block == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const int threads =
      limit > 0 ? std::min(limit, static_cast<int>(kMaxBlockThreads)) : static_cast<int>(kMaxBlockThreads);
  const std::size_t shared = shared_of != nullptr ? shared_of(threads) : dynamic_shared;
  int blocks = 0;
  const CUresult result = occupancy(d, &blocks, handle, threads, shared);
  if (result != CUDA_SUCCESS) return result;
  *grid = blocks * context.gpu->config.compute_multiprocessors;
  *block = threads;
  return CUDA_SUCCESS;
}

}  // namespace

SIMGPU_API_TWINS(cuLaunchKernel, _ptsz,
                 (CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                  unsigned shared, CUstream stream, void** params, void** extra),
                 f, gx, gy, gz, bx, by, bz, shared, stream, params, extra) {
  return launch(d, context, per_thread, f, shape(gx, gy, gz, bx, by, bz, shared, stream), params, extra,
                false);
}

SIMGPU_API_TWINS(cuLaunchKernelEx, _ptsz,
                 (const CUlaunchConfig* config, CUfunction f, void** params, void** extra), config, f, params,
                 extra) {
  if (config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Attributes attributes;
  const CUresult read = read_attributes(*config, &attributes);
  if (read != CUDA_SUCCESS) return read;
  return launch(d, context, per_thread, f, *config, params, extra, attributes.cooperative);
}

SIMGPU_API_TWINS(cuLaunchCooperativeKernel, _ptsz,
                 (CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                  unsigned shared, CUstream stream, void** params),
                 f, gx, gy, gz, bx, by, bz, shared, stream, params) {
  return launch(d, context, per_thread, f, shape(gx, gy, gz, bx, by, bz, shared, stream), params, nullptr,
                true);
}

SIMGPU_API_CONTEXT(cuOccupancyMaxActiveBlocksPerMultiprocessor,
                   (int* blocks, CUfunction f, int threads, size_t shared), blocks, f, threads, shared) {
  return occupancy(d, blocks, f, threads, shared);
}

SIMGPU_API_CONTEXT(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
                   (int* blocks, CUfunction f, int threads, size_t shared, unsigned flags), blocks, f,
                   threads, shared, flags) {
  if (flags > CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE) return CUDA_ERROR_INVALID_VALUE;
  return occupancy(d, blocks, f, threads, shared);
}

SIMGPU_API_CONTEXT(cuOccupancyMaxPotentialBlockSize,
                   (int* grid, int* block, CUfunction f, CUoccupancyB2DSize shared_of, size_t shared,
                    int limit),
                   grid, block, f, shared_of, shared, limit) {
  return best_block_size(d, context, grid, block, f, shared_of, shared, limit);
}

SIMGPU_API_CONTEXT(cuOccupancyMaxPotentialBlockSizeWithFlags,
                   (int* grid, int* block, CUfunction f, CUoccupancyB2DSize shared_of, size_t shared,
                    int limit, unsigned flags),
                   grid, block, f, shared_of, shared, limit, flags) {
  if (flags > CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE) return CUDA_ERROR_INVALID_VALUE;
  return best_block_size(d, context, grid, block, f, shared_of, shared, limit);
}

SIMGPU_API_CONTEXT(cuOccupancyAvailableDynamicSMemPerBlock,
                   (size_t * bytes, CUfunction f, int blocks, int threads), bytes, f, blocks, threads) {
  if (find_kernel(d, f) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (bytes == nullptr || blocks <= 0 || threads <= 0) return CUDA_ERROR_INVALID_VALUE;
  *bytes = kSharedPerMultiprocessor / static_cast<std::size_t>(blocks) - kReservedShared;
  return CUDA_SUCCESS;
}

}  // namespace simgpu
