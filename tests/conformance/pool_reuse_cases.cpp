// Which freed memory a pool may give out again, by its reuse attributes.

#include <chrono>
#include <cstdint>
#include <thread>

#include "tests/conformance/device.h"

#define GUIDE "CUDA C++ Programming Guide, Stream Ordered Memory Allocator, Memory Reuse Policies: "

namespace conformance {
namespace {

constexpr std::size_t kBytes = 32 * kMiB;
constexpr unsigned kWords = 1024;

/// A pool that may do just these of the three.
CUmemoryPool make_pool(bool follow_events, bool opportunistic, bool internal_dependencies,
                       std::size_t most = 0) {
  use_device();
  need(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, "memory pools");
  CUmemPoolProps props{};
  props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  props.maxSize = most;
  CUmemoryPool pool = nullptr;
  OK(CU(cuMemPoolCreate)(&pool, &props));
  const auto set = [&](CUmemPool_attribute flag, bool on) {
    int value = on ? 1 : 0;
    OK(CU(cuMemPoolSetAttribute)(pool, flag, &value));
  };
  set(CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, follow_events);
  set(CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, opportunistic);
  set(CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, internal_dependencies);
  return pool;
}

CUdeviceptr allocate_from(CUmemoryPool pool, CUstream stream, std::size_t bytes = kBytes) {
  CUdeviceptr memory = 0;
  OK(CU(cuMemAllocFromPoolAsync)(&memory, bytes, pool, stream));
  return memory;
}

cuuint64_t reserved(CUmemoryPool pool) {
  cuuint64_t bytes = 0;
  OK(CU(cuMemPoolGetAttribute)(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &bytes));
  return bytes;
}

/// Memory of one stream is used, copied to `out` and freed there, and an event makes the other stream wait
/// for that. How many bytes the pool grows by as the other stream then allocates as much and writes to it.
cuuint64_t growth_after_event(CUmemoryPool pool, CUdeviceptr out) {
  const CUstream one = make_stream(CU_STREAM_NON_BLOCKING);
  const CUstream two = make_stream(CU_STREAM_NON_BLOCKING);
  const CUevent freed = make_event();
  const CUdeviceptr memory = allocate_from(pool, one);
  slow_fill(memory, kWords, 3, one);
  copy_words(memory, out, kWords, one);
  OK(CU(cuMemFreeAsync)(memory, one));
  OK(CU(cuEventRecord)(freed, one));
  OK(CU(cuStreamWaitEvent)(two, freed, 0));
  const cuuint64_t before = reserved(pool);
  const CUdeviceptr other = allocate_from(pool, two);
  const cuuint64_t growth = reserved(pool) - before;
  fill(other, kWords, 5000, two);
  OK(CU(cuMemFreeAsync)(other, two));
  return growth;
}

}  // namespace

CASE_ORDER("pool_reuse.what_an_event_orders_is_reused", GUIDE "cudaMemPoolReuseFollowEventDependencies") {
  const CUmemoryPool pool = make_pool(true, false, false);
  const CUdeviceptr out = allocate(4 * kKiB);
  EXPECT_EQ(growth_after_event(pool, out), 0u);
  EXPECT_WORDS(out, kWords, 3);
}

CASE("pool_reuse.events_are_followed_by_permission_only", GUIDE "cudaMemPoolReuseFollowEventDependencies") {
  const CUmemoryPool pool = make_pool(false, false, false);
  const CUdeviceptr out = allocate(4 * kKiB);
  EXPECT(growth_after_event(pool, out) >= kBytes);
  EXPECT_WORDS(out, kWords, 3);
}

CASE_ORDER("pool_reuse.a_free_that_has_run_is_enough", GUIDE "cudaMemPoolReuseAllowOpportunistic") {
  const CUmemoryPool pool = make_pool(false, true, false, kBytes + kBytes / 4);
  const CUdeviceptr out = allocate(4 * kKiB);
  const CUstream one = make_stream(CU_STREAM_NON_BLOCKING);
  const CUstream two = make_stream(CU_STREAM_NON_BLOCKING);
  // Two halves of one piece, of which one stays: the pool has nothing to give back, and cannot grow so far.
  OK(CU(cuMemFreeAsync)(allocate_from(pool, one), one));
  allocate_from(pool, one, kBytes / 2);
  const CUdeviceptr memory = allocate_from(pool, one, kBytes / 2);
  fill(memory, kWords, 3, one);
  copy_words(memory, out, kWords, one);
  OK(CU(cuMemFreeAsync)(memory, one));
  std::this_thread::sleep_for(
      std::chrono::milliseconds(50));  // without a call that could tell that it has run
  const CUdeviceptr other = allocate_from(pool, two, kBytes / 2);
  fill(other, kWords, 5000, two);
  OK(CU(cuMemFreeAsync)(other, two));
  EXPECT_WORDS(out, kWords, 3);
}

CASE("pool_reuse.without_permission_no_other_stream_gets_the_memory", GUIDE "Disabling Reuse Policies") {
  const CUmemoryPool pool = make_pool(false, false, false, kBytes + kBytes / 4);
  const CUstream one = make_stream(CU_STREAM_NON_BLOCKING);
  const CUstream two = make_stream(CU_STREAM_NON_BLOCKING);
  const CUdeviceptr memory = allocate_from(pool, one);
  slow_fill(memory, kWords, 3, one);
  OK(CU(cuMemFreeAsync)(memory, one));
  // How a maximum is rounded is not said: a pool that may grow beyond it gives other memory, never this.
  CUdeviceptr other = 0;
  remark(std::to_string(reserved(pool)) + " bytes are reserved at first");
  const CUresult result = REMARK(CU(cuMemAllocFromPoolAsync)(&other, kBytes, pool, two));
  remark(std::to_string(reserved(pool)) + " bytes are reserved then");
  if (result == CUDA_SUCCESS) {
    EXPECT(other + kBytes <= memory || memory + kBytes <= other);
    EXPECT(reserved(pool) >= 2 * kBytes);
    OK(CU(cuMemFreeAsync)(other, two));
    OK(CU(cuStreamSynchronize)(two));
  } else {
    REFUSES(result, CUDA_ERROR_OUT_OF_MEMORY);
  }
  OK(CU(cuStreamSynchronize)(one));
  allocate_from(pool, two);
}

}  // namespace conformance
