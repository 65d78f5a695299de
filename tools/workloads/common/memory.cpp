#include "tools/workloads/common/memory.h"

#include "tools/workloads/common/check.h"

namespace workload {
namespace {

class PlainMemory final : public Memory {
 public:
  void* allocate(std::size_t bytes) override {
    void* memory = nullptr;
    TP_CUDA(cudaMalloc(&memory, bytes));
    return memory;
  }
  void release(void* memory) override { TP_CUDA(cudaFree(memory)); }
};

class AsyncMemory final : public Memory {
 public:
  explicit AsyncMemory(cudaStream_t main) : main_(main) {}
  void* allocate(std::size_t bytes) override {
    void* memory = nullptr;
    TP_CUDA(cudaMallocAsync(&memory, bytes, main_));
    return memory;
  }
  void release(void* memory) override { TP_CUDA(cudaFreeAsync(memory, main_)); }

 private:
  cudaStream_t main_;
};

class PoolMemory final : public Memory {
 public:
  explicit PoolMemory(cudaStream_t main) : main_(main) {
    cudaMemPoolProps properties{};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location.type = cudaMemLocationTypeDevice;
    TP_CUDA(cudaGetDevice(&properties.location.id));
    TP_CUDA(cudaMemPoolCreate(&pool_, &properties));
    TP_CUDA(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &keep_bytes_));
  }
  ~PoolMemory() override { TP_CUDA(cudaMemPoolDestroy(pool_)); }

  void* allocate(std::size_t bytes) override {
    void* memory = nullptr;
    TP_CUDA(cudaMallocFromPoolAsync(&memory, bytes, pool_, main_));
    return memory;
  }
  void release(void* memory) override { TP_CUDA(cudaFreeAsync(memory, main_)); }

 private:
  cudaStream_t main_;
  cudaMemPool_t pool_ = nullptr;
  cuuint64_t keep_bytes_ = 8 << 20;  ///< what the pool may keep when a stream or the device is waited for
};

}  // namespace

std::unique_ptr<Memory> make_memory(Allocator kind, cudaStream_t main) {
  switch (kind) {
    case Allocator::kAsync:
      return std::make_unique<AsyncMemory>(main);
    case Allocator::kPool:
      return std::make_unique<PoolMemory>(main);
    case Allocator::kVmm:
      return make_vmm_memory(main);
    case Allocator::kPlain:
      break;
  }
  return std::make_unique<PlainMemory>();
}

}  // namespace workload
