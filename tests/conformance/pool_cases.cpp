// Stream-ordered allocation and memory pools.

#include <cstdint>

#include "tests/conformance/device.h"

#define POOL "CUDA Driver API, Stream Ordered Memory Allocator: "
#define GUIDE "CUDA C++ Programming Guide, Stream Ordered Memory Allocator, "

namespace conformance {
namespace {

void prepare() {
  use_device();
  need(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, "memory pools");
}

CUmemoryPool default_pool() {
  CUmemoryPool pool = nullptr;
  OK(CU(cuDeviceGetDefaultMemPool)(&pool, 0));
  return pool;
}

CUmemoryPool current_pool() {
  CUmemoryPool pool = nullptr;
  OK(CU(cuDeviceGetMemPool)(&pool, 0));
  return pool;
}

CUmemPoolProps pool_props() {
  CUmemPoolProps props{};
  props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  props.handleTypes = CU_MEM_HANDLE_TYPE_NONE;
  props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  return props;
}

CUmemoryPool make_pool(std::size_t most = 0) {
  CUmemPoolProps props = pool_props();
  props.maxSize = most;
  CUmemoryPool pool = nullptr;
  OK(CU(cuMemPoolCreate)(&pool, &props));
  return pool;
}

cuuint64_t get(CUmemoryPool pool, CUmemPool_attribute attr) {
  cuuint64_t value = ~cuuint64_t{0};
  OK(CU(cuMemPoolGetAttribute)(pool, attr, &value));
  return value;
}

void set(CUmemoryPool pool, CUmemPool_attribute attr, cuuint64_t value) {
  OK(CU(cuMemPoolSetAttribute)(pool, attr, &value));
}

/// The reuse flags are ints.
int get_flag(CUmemoryPool pool, CUmemPool_attribute attr) {
  int value = -1;
  OK(CU(cuMemPoolGetAttribute)(pool, attr, &value));
  return value;
}

CUdeviceptr from_pool(CUmemoryPool pool, std::size_t bytes, CUstream stream) {
  CUdeviceptr memory = 0;
  OK(CU(cuMemAllocFromPoolAsync)(&memory, bytes, pool, stream));
  return memory;
}

CUdeviceptr allocate_async(std::size_t bytes, CUstream stream) {
  CUdeviceptr memory = 0;
  OK(CU(cuMemAllocAsync)(&memory, bytes, stream));
  return memory;
}

constexpr CUmemPool_attribute kReuseFlags[] = {CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES,
                                               CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC,
                                               CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES};

}  // namespace

CASE_ORDER("pool.memory_can_be_used_in_its_stream_at_once", POOL "cuMemAllocAsync") {
  prepare();
  const CUstream stream = make_stream();
  const CUdeviceptr memory = allocate_async(kMiB, stream);
  EXPECT(memory != 0);
  fill(memory, static_cast<unsigned>(kMiB / 4), 5, stream);
  EXPECT_WORDS(memory, kMiB / 4, 5);
  OK(CU(cuMemFreeAsync)(memory, stream));
  OK(CU(cuStreamSynchronize)(stream));
}

CASE_ORDER("pool.another_stream_uses_it_after_an_event", POOL "cuMemAllocAsync, note on stream ordering") {
  prepare();
  const CUstream one = make_stream(CU_STREAM_NON_BLOCKING);
  const CUstream two = make_stream(CU_STREAM_NON_BLOCKING);
  const CUevent event = make_event();
  const CUdeviceptr memory = allocate_async(4 * kKiB, one);
  slow_fill(memory, 1024, 7, one);
  OK(CU(cuEventRecord)(event, one));
  OK(CU(cuStreamWaitEvent)(two, event, 0));
  affine(memory, 1024, 1, 10, two);
  EXPECT_WORDS(memory, 1024, 17);
}

CASE_ORDER("pool.freed_on_another_stream_after_an_event", POOL "cuMemFreeAsync") {
  prepare();
  const CUstream one = make_stream(CU_STREAM_NON_BLOCKING);
  const CUstream two = make_stream(CU_STREAM_NON_BLOCKING);
  const CUevent event = make_event();
  const CUdeviceptr out = allocate(4 * kKiB);
  for (unsigned round = 0; round < 8; ++round) {
    const CUdeviceptr memory = allocate_async(4 * kKiB, one);
    slow_fill(memory, 1024, round, one);
    copy_words(memory, out, 1024, one);
    OK(CU(cuEventRecord)(event, one));
    OK(CU(cuStreamWaitEvent)(two, event, 0));
    OK(CU(cuMemFreeAsync)(memory, two));
    const CUdeviceptr next = allocate_async(4 * kKiB, two);
    fill(next, 1024, 1000, two);
    OK(CU(cuMemFreeAsync)(next, two));
    EXPECT_WORDS(out, 1024, round);
  }
}

CASE_ORDER("pool.reuse_in_one_stream_keeps_the_order", POOL "cuMemFreeAsync") {
  prepare();
  const CUstream stream = make_stream(CU_STREAM_NON_BLOCKING);
  const CUdeviceptr out = allocate(64 * 4 * kKiB);
  for (unsigned i = 0; i < 64; ++i) {
    const CUdeviceptr memory = allocate_async(4 * kKiB, stream);
    fill(memory, 1024, 10 * i, stream);
    copy_words(memory, out + i * 4 * kKiB, 1024, stream);
    OK(CU(cuMemFreeAsync)(memory, stream));
  }
  for (unsigned i = 0; i < 64; ++i) EXPECT_WORDS(out + i * 4 * kKiB, 1024, 10 * i);
}

CASE_ORDER("pool.memory_freed_in_another_stream_is_waited_for",
           POOL "cuMemPoolSetAttribute, internal dependencies") {
  prepare();
  constexpr std::size_t kMost = 12 * kMiB;  // so that a second allocation has no other place
  const CUmemoryPool pool = make_pool(16 * kMiB);
  const CUstream one = make_stream(CU_STREAM_NON_BLOCKING);
  const CUstream two = make_stream(CU_STREAM_NON_BLOCKING);
  const CUdeviceptr out = allocate(4 * kKiB);
  OK(CU(cuMemsetD8)(out, 0, 4 * kKiB));
  OK(CU(cuCtxSynchronize)());
  const CUdeviceptr memory = from_pool(pool, kMost, one);
  slow_fill(memory, 1024, 3, one);
  copy_words(memory, out, 1024, one);
  OK(CU(cuMemFreeAsync)(memory, one));
  for (int i = 0; i < 4; ++i) {
    const CUdeviceptr other = from_pool(pool, kMost, two);
    fill(other, 1024, 5000, two);
    OK(CU(cuMemFreeAsync)(other, two));
  }
  EXPECT_WORDS(out, 1024, 3);
}

CASE("pool.allocations_do_not_overlap", POOL "cuMemAllocAsync") {
  prepare();
  const CUstream stream = make_stream();
  std::vector<CUdeviceptr> all;
  for (unsigned i = 0; i < 16; ++i) {
    all.push_back(allocate_async(1000, stream));
    EXPECT_EQ(all.back() % 256, 0u);
    fill(all.back(), 250, 1000 * i, stream);
  }
  for (unsigned i = 0; i < 16; ++i) EXPECT_WORDS(all[i], 250, 1000 * i);
}

CASE("pool.too_much_is_out_of_memory", POOL "cuMemAllocAsync") {
  prepare();
  CUdeviceptr memory = 0;
  REFUSES(CU(cuMemAllocAsync)(&memory, std::size_t{1} << 50, make_stream()), CUDA_ERROR_OUT_OF_MEMORY);
  OK(CU(cuCtxSynchronize)());
  allocate_async(kMiB, nullptr);
}

CASE("pool.what_is_no_memory_is_not_freed", POOL "cuMemFreeAsync") {
  prepare();
  FAILS(CU(cuMemFreeAsync)(allocate(kMiB) + 4 * kKiB, make_stream()));
}

CASE("pool.plain_free_takes_its_memory", GUIDE "Query and Synchronization; cuMemFree") {
  prepare();
  const CUstream stream = make_stream();
  const CUdeviceptr memory = allocate_async(kMiB, stream);
  OK(CU(cuStreamSynchronize)(stream));
  OK(CU(cuMemFree)(memory));
  FAILS(CU(cuMemFree)(memory));
}

CASE("pool.the_default_pool_is_current_at_first", POOL "cuDeviceSetMemPool, cuDeviceGetDefaultMemPool") {
  prepare();
  EXPECT(default_pool() != nullptr);
  EXPECT(current_pool() == default_pool());
}

CASE("pool.the_current_pool_gives_the_memory", POOL "cuDeviceSetMemPool") {
  prepare();
  const CUmemoryPool pool = make_pool();
  OK(CU(cuDeviceSetMemPool)(0, pool));
  EXPECT(current_pool() == pool);
  const cuuint64_t of_default = get(default_pool(), CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
  allocate_async(kMiB, make_stream());
  EXPECT(get(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) >= kMiB);
  EXPECT_EQ(get(default_pool(), CU_MEMPOOL_ATTR_USED_MEM_CURRENT), of_default);
}

CASE("pool.a_named_pool_gives_the_memory", POOL "cuMemAllocFromPoolAsync") {
  prepare();
  const CUmemoryPool pool = make_pool();
  const CUstream stream = make_stream();
  const CUdeviceptr memory = from_pool(pool, 3 * kMiB, stream);
  EXPECT(get(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) >= 3 * kMiB);
  CUmemoryPool told = nullptr;
  OK(CU(cuPointerGetAttribute)(&told, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, memory));
  EXPECT(told == pool);
  fill(memory, 1024, 3, stream);
  EXPECT_WORDS(memory, 1024, 3);
}

CASE("pool.destroying_the_current_pool_brings_back_the_default", POOL "cuMemPoolDestroy") {
  prepare();
  const CUmemoryPool pool = make_pool();
  OK(CU(cuDeviceSetMemPool)(0, pool));
  OK(CU(cuMemPoolDestroy)(pool));
  EXPECT(current_pool() == default_pool());
}

CASE("pool.the_default_pool_is_not_destroyed", POOL "cuMemPoolDestroy, note") {
  prepare();
  REFUSES(CU(cuMemPoolDestroy)(default_pool()), CUDA_ERROR_INVALID_VALUE);
  allocate_async(kMiB, nullptr);
}

CASE("pool.memory_outlives_its_destroyed_pool", POOL "cuMemPoolDestroy") {
  prepare();
  const CUmemoryPool pool = make_pool();
  const CUstream stream = make_stream();
  const CUdeviceptr memory = from_pool(pool, kMiB, stream);
  OK(CU(cuMemPoolDestroy)(pool));
  fill(memory, 1024, 9, stream);
  EXPECT_WORDS(memory, 1024, 9);
  OK(CU(cuMemFreeAsync)(memory, stream));
  OK(CU(cuStreamSynchronize)(stream));
}

CASE("pool.attributes_have_their_defaults", POOL "cuMemPoolSetAttribute") {
  prepare();
  const CUmemoryPool pool = make_pool();
  EXPECT_EQ(get(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD), 0u);
  for (const CUmemPool_attribute flag : kReuseFlags) EXPECT_EQ(get_flag(pool, flag), 1);
  EXPECT_EQ(get(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 0u);
}

CASE("pool.attributes_are_told_as_set", POOL "cuMemPoolSetAttribute, cuMemPoolGetAttribute") {
  prepare();
  const CUmemoryPool pool = make_pool();
  set(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, ~cuuint64_t{0});
  EXPECT_EQ(get(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD), ~cuuint64_t{0});
  for (const CUmemPool_attribute flag : kReuseFlags) {
    int off = 0;
    OK(CU(cuMemPoolSetAttribute)(pool, flag, &off));
    EXPECT_EQ(get_flag(pool, flag), 0);
  }
}

CASE("pool.counters_follow_allocations", POOL "cuMemPoolGetAttribute") {
  prepare();
  const CUmemoryPool pool = make_pool();
  const CUstream stream = make_stream();
  set(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, ~cuuint64_t{0});
  const CUdeviceptr one = from_pool(pool, 4 * kMiB, stream);
  const CUdeviceptr two = from_pool(pool, 8 * kMiB, stream);
  EXPECT(get(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) >= 12 * kMiB);
  EXPECT(get(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) >= get(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
  OK(CU(cuMemFreeAsync)(two, stream));
  OK(CU(cuStreamSynchronize)(stream));
  const cuuint64_t used = get(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
  EXPECT(used >= 4 * kMiB && used < 12 * kMiB);
  EXPECT(get(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH) >= 12 * kMiB);
  OK(CU(cuMemFreeAsync)(one, stream));
  OK(CU(cuStreamSynchronize)(stream));
  EXPECT_EQ(get(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 0u);
}

CASE("pool.high_watermarks_are_reset_by_zero_only", POOL "cuMemPoolSetAttribute") {
  prepare();
  const CUmemoryPool pool = make_pool();
  const CUstream stream = make_stream();
  const CUdeviceptr memory = from_pool(pool, 8 * kMiB, stream);
  OK(CU(cuMemFreeAsync)(memory, stream));
  OK(CU(cuStreamSynchronize)(stream));
  EXPECT(get(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH) >= 8 * kMiB);
  cuuint64_t one = 1;
  REFUSES(CU(cuMemPoolSetAttribute)(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &one), CUDA_ERROR_INVALID_VALUE);
  set(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, 0);
  EXPECT_EQ(get(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH), 0u);
}

CASE("pool.current_counters_cannot_be_set", POOL "cuMemPoolSetAttribute") {
  prepare();
  const CUmemoryPool pool = make_pool();
  cuuint64_t zero = 0;
  REFUSES(CU(cuMemPoolSetAttribute)(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &zero), CUDA_ERROR_INVALID_VALUE);
  REFUSES(CU(cuMemPoolSetAttribute)(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &zero),
          CUDA_ERROR_INVALID_VALUE);
}

CASE("pool.memory_under_the_threshold_is_kept", GUIDE "Physical Page Caching Behavior") {
  prepare();
  const CUmemoryPool pool = make_pool();
  const CUstream stream = make_stream();
  set(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, ~cuuint64_t{0});
  const CUdeviceptr memory = from_pool(pool, 8 * kMiB, stream);
  OK(CU(cuMemFreeAsync)(memory, stream));
  OK(CU(cuStreamSynchronize)(stream));
  EXPECT(get(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) >= 8 * kMiB);
}

CASE("pool.trim_releases_what_is_free", POOL "cuMemPoolTrimTo") {
  prepare();
  const CUmemoryPool pool = make_pool();
  const CUstream stream = make_stream();
  set(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, ~cuuint64_t{0});
  const CUdeviceptr memory = from_pool(pool, 64 * kMiB, stream);
  OK(CU(cuMemFreeAsync)(memory, stream));
  OK(CU(cuStreamSynchronize)(stream));
  OK(CU(cuMemPoolTrimTo)(pool, 32 * kMiB));
  EXPECT(get(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) >= 32 * kMiB);
  OK(CU(cuMemPoolTrimTo)(pool, 0));
  EXPECT_EQ(get(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0u);
}

CASE("pool.trim_keeps_what_is_in_use", POOL "cuMemPoolTrimTo") {
  prepare();
  const CUmemoryPool pool = make_pool();
  const CUstream stream = make_stream();
  const CUdeviceptr memory = from_pool(pool, kMiB, stream);
  fill(memory, 1024, 77, stream);
  OK(CU(cuStreamSynchronize)(stream));
  OK(CU(cuMemPoolTrimTo)(pool, 0));
  EXPECT(get(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) >= kMiB);
  EXPECT_WORDS(memory, 1024, 77);
}

CASE("pool.its_device_may_read_and_write", POOL "cuMemPoolCreate, cuMemPoolGetAccess") {
  prepare();
  CUmemAccess_flags access = CU_MEM_ACCESS_FLAGS_PROT_NONE;
  CUmemLocation here{CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  OK(CU(cuMemPoolGetAccess)(&access, make_pool(), &here));
  EXPECT_EQ(access, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
}

CASE("pool.a_maximum_size_is_kept", POOL "cuMemPoolCreate, maxSize") {
  prepare();
  const CUmemoryPool pool = make_pool(64 * kMiB);
  CUdeviceptr memory = 0;
  const CUstream stream = make_stream();
  OK(CU(cuMemAllocFromPoolAsync)(&memory, 16 * kMiB, pool, stream));
  REFUSES(CU(cuMemAllocFromPoolAsync)(&memory, 512 * kMiB, pool, stream), CUDA_ERROR_OUT_OF_MEMORY);
}

CASE("pool.a_pool_on_no_device_is_refused", POOL "cuMemPoolCreate") {
  prepare();
  CUmemPoolProps props = pool_props();
  props.location.id = 1000;
  CUmemoryPool pool = nullptr;
  FAILS(CU(cuMemPoolCreate)(&pool, &props));
}

CASE("pool.the_runtime_speaks_of_the_same_pool", "CUDA Runtime API, Stream Ordered Memory Allocator") {
  prepare();
  cudaMemPool_t pool = nullptr;
  void* memory = nullptr;
  cuuint64_t used = 0;
  OK(RT(cudaDeviceGetDefaultMemPool)(&pool, 0));
  EXPECT(pool == default_pool());
  OK(RT(cudaMallocAsync)(&memory, kMiB, nullptr));
  OK(RT(cudaMemPoolGetAttribute)(pool, cudaMemPoolAttrUsedMemCurrent, &used));
  EXPECT(used >= kMiB);
  OK(RT(cudaFreeAsync)(memory, nullptr));
  OK(RT(cudaDeviceSynchronize)());
  OK(RT(cudaMemPoolTrimTo)(pool, 0));
  OK(RT(cudaMemPoolGetAttribute)(pool, cudaMemPoolAttrUsedMemCurrent, &used));
  EXPECT_EQ(used, 0u);
}

}  // namespace conformance
