// The device side of content hashes. Built into a fat binary that the library carries
// (content_hash_image.cpp).

#include "allocator/cuda/content_hash.h"
#include "allocator/support/content_hash_kernel.h"

namespace tidepool::runtime {
namespace {

struct Index {
  unsigned x, y, z;
};

/// A block of threads, as content_hash_kernel.h asks for it.
class DeviceBlock {
 public:
  __device__ Index block() const { return {blockIdx.x, 0, 0}; }
  __device__ Index grid_dim() const { return {gridDim.x, 1, 1}; }
  __device__ unsigned block_threads() const { return blockDim.x; }
  __device__ std::uint64_t global_x(unsigned tid) const {
    return std::uint64_t{blockIdx.x} * blockDim.x + tid;
  }
  __device__ void reads(const void*, std::uint64_t) const {}
  __device__ void writes(const void*, std::uint64_t) const {}
  __device__ constexpr bool on_host() const { return false; }
  template <class F>
  __device__ void phase(F&& f) {
    f(threadIdx.x);
    __syncthreads();
  }
  __device__ unsigned long long atomic_add(unsigned long long* at, unsigned long long value) const {
    return atomicAdd(at, value);
  }
};

}  // namespace

// The name stands in content_hash.h.
extern "C" {

__global__ void __launch_bounds__(HashContent::kThreads)
    tidepool_content_hash(const unsigned char* from, unsigned long long size, HashSlot* slot,
                          HashControl* control, unsigned long long number) {
  DeviceBlock block;
  HashContent::run(block, from, size, slot, control, number);
}

}  // extern "C"

}  // namespace tidepool::runtime
