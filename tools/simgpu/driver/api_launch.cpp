#include <algorithm>

#include "tools/simgpu/driver/capability_limits.h"
#include "tools/simgpu/driver/launch_request.h"

/// "Execution Control" and "Occupancy" of the CUDA driver API.
namespace simgpu {
namespace {

struct Attributes {
  bool cooperative = false;
};

/// A cluster has no dimension of 0 and divides the grid; 8 blocks is the largest portable size, 16 the
/// largest of all. Bodies run block by block, so clusters change nothing else.
CUresult check_cluster(const Context& context, const Kernel* kernel, const CUlaunchConfig& c,
                       const CUlaunchAttributeValue& value) {
  constexpr int kClustersSince = 9;  // compute capability
  constexpr std::uint64_t kPortable = 8;
  constexpr std::uint64_t kLargest = 16;
  const auto& size = value.clusterDim;
  if (context.gpu->config.compute_major < kClustersSince) return CUDA_ERROR_NOT_SUPPORTED;
  if (size.x == 0 || size.y == 0 || size.z == 0) return CUDA_ERROR_INVALID_VALUE;
  const std::uint64_t most = kernel != nullptr && kernel->non_portable_cluster != 0 ? kLargest : kPortable;
  const bool divides = c.gridDimX % size.x == 0 && c.gridDimY % size.y == 0 && c.gridDimZ % size.z == 0;
  return divides && std::uint64_t{size.x} * size.y * size.z <= most ? CUDA_SUCCESS
                                                                    : CUDA_ERROR_INVALID_CLUSTER_SIZE;
}

/// Attributes that only tune, or allow what need not be done, are accepted; all others are refused.
CUresult read_attributes(const Context& context, const Kernel* kernel, const CUlaunchConfig& c,
                         Attributes* out) {
  if (c.numAttrs > 0 && c.attrs == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < c.numAttrs; ++i) {
    switch (c.attrs[i].id) {
      case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
        out->cooperative = c.attrs[i].value.cooperative != 0;
        break;
      case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
        if (const CUresult fits = check_cluster(context, kernel, c, c.attrs[i].value); fits != CUDA_SUCCESS)
          return fits;
        break;
      case CU_LAUNCH_ATTRIBUTE_IGNORE:
      case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
      case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
      case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
      case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:  // it may start early, and here it does not
      case CU_LAUNCH_ATTRIBUTE_PRIORITY:
      case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
      case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
      case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
      case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        break;
      default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
  }
  return CUDA_SUCCESS;
}

CUresult launch(Driver& d, Context& context, bool per_thread, CUfunction handle, const CUlaunchConfig& c,
                void** params, void** extra, bool cooperative) {
  const std::shared_ptr<Stream> stream = d.find_stream(&context, c.hStream, per_thread);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  Launch work;
  const CUresult result = make_launch(d, context, handle, c, params, extra, cooperative, &work);
  if (result != CUDA_SUCCESS) return result;
  return enqueue(d, stream, std::move(work));
}

CUlaunchConfig shape(unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                     unsigned shared, CUstream stream) {
  return CUlaunchConfig{gx, gy, gz, bx, by, bz, shared, stream, nullptr, 0};
}

CUresult occupancy(Driver& d, const Context& context, int* blocks, CUfunction handle, int block_threads,
                   std::size_t dynamic_shared) {
  const Kernel* kernel = find_kernel(d, handle);
  if (kernel == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (blocks == nullptr || block_threads <= 0 || block_threads > static_cast<int>(kMaxBlockThreads)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const bool fits = dynamic_shared <= static_cast<std::size_t>(kernel->max_dynamic_shared);
  *blocks = fits ? active_blocks(*context.gpu, block_threads, dynamic_shared) : 0;
  return CUDA_SUCCESS;
}

CUresult best_block_size(Driver& d, const Context& context, int* grid, int* block, CUfunction handle,
                         CUoccupancyB2DSize shared_of, std::size_t dynamic_shared, int limit) {
  if (grid == nullptr || block == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const int threads =
      limit > 0 ? std::min(limit, static_cast<int>(kMaxBlockThreads)) : static_cast<int>(kMaxBlockThreads);
  const std::size_t shared = shared_of != nullptr ? shared_of(threads) : dynamic_shared;
  int blocks = 0;
  const CUresult result = occupancy(d, context, &blocks, handle, threads, shared);
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
  const CUresult read = read_attributes(context, find_kernel(d, f), *config, &attributes);
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
  return occupancy(d, context, blocks, f, threads, shared);
}

SIMGPU_API_CONTEXT(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
                   (int* blocks, CUfunction f, int threads, size_t shared, unsigned flags), blocks, f,
                   threads, shared, flags) {
  if (flags > CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE) return CUDA_ERROR_INVALID_VALUE;
  return occupancy(d, context, blocks, f, threads, shared);
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
  const CapabilityLimits& c = limits_of(context.gpu->config);
  if (blocks > c.blocks_per_sm) return CUDA_ERROR_INVALID_VALUE;
  // As in cuda_occupancy.h: what the system takes of each block's is not taken off.
  *bytes = static_cast<std::size_t>(std::min(c.shared_per_sm / blocks, c.shared_per_block));
  return CUDA_SUCCESS;
}

}  // namespace simgpu
