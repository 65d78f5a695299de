// Memory pools. Documentation: CUDA Driver API, page "Stream Ordered Memory Allocator", and CUDA C++
// Programming Guide, "Stream Ordered Memory Allocator".

#include <catch2/catch.hpp>
#include <cstdint>

#include "tests/simgpu/graph_tools.h"

namespace {

using namespace simgpu_test;

CUmemoryPool new_pool(CUmemAllocationHandleType handles = CU_MEM_HANDLE_TYPE_NONE) {
  CUmemPoolProps props{};
  props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  props.handleTypes = handles;
  props.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  CUmemoryPool pool = nullptr;
  OK(cuMemPoolCreate(&pool, &props));
  return pool;
}

CUdeviceptr from_pool(CUmemoryPool pool, std::size_t bytes, CUstream stream) {
  CUdeviceptr memory = 0;
  OK(cuMemAllocFromPoolAsync(&memory, bytes, pool, stream));
  return memory;
}

}  // namespace

TEST_CASE("pool: a destroyed pool stays while an allocation that was freed too early is queued") {
  // Needs valgrind or a sanitizer to fail every time.
  const int wrong = count_over_seeds(60, [] {
    const CUmemoryPool pool = new_pool();
    const CUstream a = new_stream();
    const CUstream b = new_stream();
    const CUdeviceptr memory = from_pool(pool, 4096, a);
    OK(cuMemFreeAsync(memory, b));
    OK(cuMemPoolDestroy(pool));
    OK(cuStreamSynchronize(b));
    for (int i = 0; i < 64; ++i) new_pool();
    OK(cuCtxSynchronize());
    return 0;
  });
  REQUIRE(wrong == 0);
}

TEST_CASE("pool: memory that was freed before its allocation came is not usable afterwards") {
  const int usable = count_over_seeds(40, [] {
    const CUmemoryPool pool = new_pool();
    const CUdeviceptr kept = from_pool(pool, 4096, nullptr);  // so that the pool keeps its frames
    const CUstream a = new_stream();
    const CUstream b = new_stream();
    const CUdeviceptr memory = from_pool(pool, 4096, a);
    OK(cuMemFreeAsync(memory, b));
    OK(cuStreamSynchronize(b));
    OK(cuCtxSynchronize());
    // To the call it is an address of the device; a kernel is where it shows.
    const CUfunction step = step_kernel();
    CUdeviceptr out = memory;
    int factor = 0;
    int value = 1;
    void* params[] = {&out, &factor, &value};
    OK(cuLaunchKernel(step, 1, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr));
    const CUresult ran = cuCtxSynchronize();
    EXPECT(kept != 0);
    return ran == CUDA_ERROR_ILLEGAL_ADDRESS ? 0 : 1;
  });
  REQUIRE(usable == 0);
}

TEST_CASE("pool: its memory tells the handle types of the pool") {
  on_device({}, [] {
    unsigned long long types = 0;
    const CUmemoryPool pool = new_pool(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    OK(cuPointerGetAttribute(&types, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES,
                             from_pool(pool, 64, nullptr)));
    EXPECT(types == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    OK(cuPointerGetAttribute(&types, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES,
                             from_pool(new_pool(), 64, nullptr)));
    EXPECT(types == CU_MEM_HANDLE_TYPE_NONE);
    return 0;
  });
}

TEST_CASE("pool: that memory is short orders nothing, so a race shows all the same") {
  // Without internal dependencies the device lets all work run before there is no memory.
  for (const bool is_short : {false, true}) {
    DeviceSetup setup;
    std::uint64_t races = 0;
    setup.afterwards = [&](const simgpu::Machine& m) { races = m.processes[0].report.races_total.load(); };
    on_device(setup, [is_short] {
      CUmemPoolProps props{};
      props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
      props.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
      props.maxSize = (is_short ? 4 : 8) * kFrame;
      CUmemoryPool pool = nullptr;
      OK(cuMemPoolCreate(&pool, &props));
      int off = 0;
      OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, &off));
      const CUdeviceptr word = new_ints(1);
      const CUstream one = new_stream();
      const CUstream two = new_stream();
      const CUdeviceptr memory = from_pool(pool, 4 * kFrame, one);
      OK(cuMemsetD32Async(word, 1, 1, one));
      OK(cuMemFreeAsync(memory, one));
      OK(cuMemsetD32Async(from_pool(pool, 4 * kFrame, two), 1, 16, two));
      OK(cuMemsetD32Async(word, 2, 1, two));
      OK(cuCtxSynchronize());
      return 0;
    });
    INFO("short " << is_short);
    CHECK(races == 1);
  }
}
