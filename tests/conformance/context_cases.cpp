// Contexts: the stack of each thread, the primary one, and what goes with them.

#include <thread>

#include "tests/conformance/device.h"

#define CONTEXT "CUDA Driver API, Context Management: "
#define PRIMARY "CUDA Driver API, Primary Context Management: "

namespace conformance {
namespace {

CUcontext create_context() {
  CUcontext context = nullptr;
  OK(CU(cuInit)(0));
  OK(CU(cuCtxCreate)(&context, nullptr, 0, 0));
  return context;
}

CUcontext current() {
  CUcontext context = nullptr;
  OK(CU(cuCtxGetCurrent)(&context));
  return context;
}

CUcontext pop() {
  CUcontext context = nullptr;
  OK(CU(cuCtxPopCurrent)(&context));
  return context;
}

int primary_is_active() {
  unsigned flags = 0;
  int active = -1;
  OK(CU(cuDevicePrimaryCtxGetState)(0, &flags, &active));
  return active;
}

}  // namespace

CASE("context.a_new_one_is_current", CONTEXT "cuCtxCreate") {
  OK(CU(cuInit)(0));
  EXPECT(current() == nullptr);
  const CUcontext mine = create_context();
  EXPECT(current() == mine);
}

CASE("context.create_and_pop_go_by_a_stack", CONTEXT "cuCtxPopCurrent") {
  const CUcontext lower = create_context();
  const CUcontext upper = create_context();
  EXPECT(lower != upper);
  EXPECT(pop() == upper);
  EXPECT(current() == lower);
  OK(CU(cuCtxPushCurrent)(upper));
  EXPECT(current() == upper);
  EXPECT(pop() == upper);
  EXPECT(pop() == lower);
  EXPECT(current() == nullptr);
}

CASE("context.popping_an_empty_stack_fails", CONTEXT "cuCtxPopCurrent") {
  OK(CU(cuInit)(0));
  CUcontext context = nullptr;
  REFUSES(CU(cuCtxPopCurrent)(&context), CUDA_ERROR_INVALID_CONTEXT);
}

CASE("context.set_current_replaces_the_top", CONTEXT "cuCtxSetCurrent") {
  const CUcontext lower = create_context();
  const CUcontext upper = create_context();
  const CUcontext other = create_context();
  EXPECT(pop() == other);
  OK(CU(cuCtxSetCurrent)(other));
  EXPECT(current() == other);
  EXPECT(pop() == other);
  EXPECT(current() == lower);
  OK(CU(cuCtxSetCurrent)(nullptr));
  EXPECT(current() == nullptr);
  OK(CU(cuCtxSetCurrent)(nullptr));
  OK(CU(cuCtxSetCurrent)(upper));
  EXPECT(current() == upper);
}

CASE("context.each_thread_has_its_own_stack", CONTEXT "cuCtxGetCurrent") {
  const CUcontext mine = create_context();
  std::thread([&] {
    EXPECT(current() == nullptr);
    OK(CU(cuCtxPushCurrent)(mine));
    CUdeviceptr memory = 0;
    OK(CU(cuMemAlloc)(&memory, 64));
    OK(CU(cuMemFree)(memory));
    EXPECT(pop() == mine);
  }).join();
  EXPECT(current() == mine);
}

CASE("context.calls_without_one_are_refused",
     CONTEXT "cuCtxGetCurrent; CUDA C++ Programming Guide, Context") {
  OK(CU(cuInit)(0));
  CUdeviceptr memory = 0;
  CUstream stream = nullptr;
  CUevent event = nullptr;
  std::size_t free = 0;
  std::size_t total = 0;
  REFUSES(CU(cuMemAlloc)(&memory, 64), CUDA_ERROR_INVALID_CONTEXT);
  REFUSES(CU(cuStreamCreate)(&stream, 0), CUDA_ERROR_INVALID_CONTEXT);
  REFUSES(CU(cuEventCreate)(&event, 0), CUDA_ERROR_INVALID_CONTEXT);
  REFUSES(CU(cuMemGetInfo)(&free, &total), CUDA_ERROR_INVALID_CONTEXT);
  REFUSES(CU(cuCtxSynchronize)(), CUDA_ERROR_INVALID_CONTEXT);
}

CASE("context.destroying_the_current_one_pops_it", CONTEXT "cuCtxDestroy") {
  const CUcontext lower = create_context();
  const CUcontext upper = create_context();
  OK(CU(cuCtxDestroy)(upper));
  EXPECT(current() == lower);
  CUdeviceptr memory = 0;
  OK(CU(cuMemAlloc)(&memory, 64));
}

CASE("context.another_threads_destroyed_one_stays_current_and_says_so", CONTEXT "cuCtxDestroy") {
  const CUcontext mine = create_context();
  std::thread([&] { OK(CU(cuCtxDestroy)(mine)); }).join();
  CUdeviceptr memory = 0;
  REFUSES(CU(cuMemAlloc)(&memory, 64), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  REFUSES(CU(cuCtxSynchronize)(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

CASE_ALONE("context.its_memory_goes_with_it", CONTEXT "cuCtxDestroy") {
  use_device();
  const std::size_t before = free_bytes();
  const CUcontext mine = create_context();
  allocate(64 * kMiB);
  EXPECT(free_bytes() + 64 * kMiB <= before);
  OK(CU(cuCtxDestroy)(mine));
  EXPECT(free_bytes() + 32 * kMiB > before);
}

CASE("context.handles_of_memory_do_not_go_with_it", CONTEXT "cuCtxDestroy, note on cuMemCreate") {
  use_device();
  const std::size_t bytes = granularity();
  const CUcontext other = create_context();
  const CUmemGenericAllocationHandle handle = create_memory(bytes);
  OK(CU(cuCtxDestroy)(other));
  const CUdeviceptr base = reserve(bytes);
  map_memory(base, bytes, handle);
  fill(base, 64, 5);
  EXPECT_WORDS(base, 64, 5);
}

CASE("context.flags_are_told", CONTEXT "cuCtxGetFlags") {
  OK(CU(cuInit)(0));
  CUcontext context = nullptr;
  unsigned flags = 0;
  OK(CU(cuCtxCreate)(&context, nullptr, CU_CTX_SCHED_BLOCKING_SYNC, 0));
  OK(CU(cuCtxGetFlags)(&flags));
  EXPECT_EQ(flags & CU_CTX_SCHED_MASK, static_cast<unsigned>(CU_CTX_SCHED_BLOCKING_SYNC));
  REFUSES(CU(cuCtxCreate)(&context, nullptr, 1u << 30, 0), CUDA_ERROR_INVALID_VALUE);
}

CASE("context.ids_are_never_used_twice", CONTEXT "cuCtxGetId") {
  unsigned long long first = 0;
  unsigned long long second = 0;
  unsigned long long of_current = 0;
  const CUcontext one = create_context();
  OK(CU(cuCtxGetId)(one, &first));
  OK(CU(cuCtxGetId)(nullptr, &of_current));
  EXPECT_EQ(of_current, first);
  OK(CU(cuCtxDestroy)(one));
  OK(CU(cuCtxGetId)(create_context(), &second));
  EXPECT(first != second);
}

CASE("context.its_device_is_told", CONTEXT "cuCtxGetDevice") {
  create_context();
  CUdevice device = -1;
  OK(CU(cuCtxGetDevice)(&device));
  EXPECT_EQ(device, 0);
}

CASE("context.a_bad_device_is_refused", CONTEXT "cuCtxCreate") {
  OK(CU(cuInit)(0));
  CUcontext context = nullptr;
  REFUSES(CU(cuCtxCreate)(&context, nullptr, 0, 1000), CUDA_ERROR_INVALID_DEVICE);
}

CASE("context.priorities_range_from_least_to_greatest", CONTEXT "cuCtxGetStreamPriorityRange") {
  use_device();
  int least = -99;
  int greatest = -99;
  OK(CU(cuCtxGetStreamPriorityRange)(&least, &greatest));
  EXPECT(greatest <= least);
  EXPECT_EQ(least, 0);
}

CASE("context.limits_are_told_after_they_are_set", CONTEXT "cuCtxSetLimit, cuCtxGetLimit") {
  use_device();
  std::size_t value = 0;
  OK(CU(cuCtxGetLimit)(&value, CU_LIMIT_STACK_SIZE));
  EXPECT(value > 0);
  OK(CU(cuCtxSetLimit)(CU_LIMIT_STACK_SIZE, 8 * kKiB));
  OK(CU(cuCtxGetLimit)(&value, CU_LIMIT_STACK_SIZE));
  EXPECT(value >= 8 * kKiB);
  OK(CU(cuCtxGetLimit)(&value, CU_LIMIT_PRINTF_FIFO_SIZE));
  EXPECT(value > 0);
  OK(CU(cuCtxGetLimit)(&value, CU_LIMIT_MALLOC_HEAP_SIZE));
  EXPECT(value > 0);
  REFUSES(CU(cuCtxGetLimit)(&value, static_cast<CUlimit>(15)), CUDA_ERROR_UNSUPPORTED_LIMIT,
          CUDA_ERROR_INVALID_VALUE);
}

CASE_ORDER("context.synchronize_waits_for_every_stream", CONTEXT "cuCtxSynchronize") {
  use_device();
  const CUstream blocking = make_stream();
  const CUstream other = make_stream(CU_STREAM_NON_BLOCKING);
  unsigned* seen = pinned_words(2);
  const CUdeviceptr memory = allocate(8);
  seen[0] = seen[1] = 0;
  slow_fill(memory, 1, 7, blocking);
  OK(CU(cuMemcpyDtoHAsync)(seen, memory, 4, blocking));
  slow_fill(memory + 4, 1, 8, other);
  OK(CU(cuMemcpyDtoHAsync)(seen + 1, memory + 4, 4, other));
  OK(CU(cuCtxSynchronize)());
  EXPECT_EQ(seen[0], 7u);
  EXPECT_EQ(seen[1], 8u);
}

CASE("primary.retained_is_always_the_same", PRIMARY "cuDevicePrimaryCtxRetain") {
  OK(CU(cuInit)(0));
  CUcontext one = nullptr;
  CUcontext two = nullptr;
  OK(CU(cuDevicePrimaryCtxRetain)(&one, 0));
  OK(CU(cuDevicePrimaryCtxRetain)(&two, 0));
  EXPECT(one != nullptr && one == two);
  EXPECT(current() == nullptr);
}

CASE("primary.lives_until_the_last_release", PRIMARY "cuDevicePrimaryCtxRelease") {
  OK(CU(cuInit)(0));
  EXPECT_EQ(primary_is_active(), 0);
  const CUcontext context = use_device();
  EXPECT(current() == context);
  CUcontext again = nullptr;
  OK(CU(cuDevicePrimaryCtxRetain)(&again, 0));
  EXPECT_EQ(primary_is_active(), 1);
  OK(CU(cuDevicePrimaryCtxRelease)(0));
  EXPECT_EQ(primary_is_active(), 1);
  const CUdeviceptr memory = allocate(64);
  EXPECT(memory != 0);
  OK(CU(cuDevicePrimaryCtxRelease)(0));
  EXPECT_EQ(primary_is_active(), 0);
}

CASE("primary.release_does_not_pop_it", PRIMARY "cuDevicePrimaryCtxRelease") {
  const CUcontext context = use_device();
  OK(CU(cuDevicePrimaryCtxRelease)(0));
  EXPECT(current() == context);
  CUdeviceptr memory = 0;
  REFUSES(CU(cuMemAlloc)(&memory, 64), CUDA_ERROR_CONTEXT_IS_DESTROYED, CUDA_ERROR_INVALID_CONTEXT);
}

CASE("primary.release_of_what_was_not_retained_fails", PRIMARY "cuDevicePrimaryCtxRelease") {
  use_device();
  OK(CU(cuDevicePrimaryCtxRelease)(0));
  REFUSES(CU(cuDevicePrimaryCtxRelease)(0), CUDA_ERROR_INVALID_CONTEXT);
}

CASE("primary.starts_anew_after_the_last_release", PRIMARY "cuDevicePrimaryCtxRelease") {
  use_device();
  allocate(kMiB);
  OK(CU(cuDevicePrimaryCtxRelease)(0));
  use_device();
  const CUdeviceptr memory = allocate(4 * kKiB);
  fill(memory, 1024, 3);
  EXPECT_WORDS(memory, 1024, 3);
}

CASE("primary.flags_can_be_set_and_read", PRIMARY "cuDevicePrimaryCtxSetFlags, cuDevicePrimaryCtxGetState") {
  OK(CU(cuInit)(0));
  OK(CU(cuDevicePrimaryCtxSetFlags)(0, CU_CTX_SCHED_YIELD));
  unsigned flags = 0;
  int active = -1;
  OK(CU(cuDevicePrimaryCtxGetState)(0, &flags, &active));
  EXPECT_EQ(flags & CU_CTX_SCHED_MASK, static_cast<unsigned>(CU_CTX_SCHED_YIELD));
  REFUSES(CU(cuDevicePrimaryCtxSetFlags)(0, 1u << 30), CUDA_ERROR_INVALID_VALUE);
  REFUSES(CU(cuDevicePrimaryCtxSetFlags)(1000, 0), CUDA_ERROR_INVALID_DEVICE);
}

CASE_ALONE("primary.reset_frees_its_memory_and_keeps_it_retained", PRIMARY "cuDevicePrimaryCtxReset") {
  use_device();
  const CUcontext observer = create_context();
  const std::size_t before = free_bytes();
  use_device();
  allocate(64 * kMiB);
  OK(CU(cuCtxSetCurrent)(observer));
  EXPECT(free_bytes() + 64 * kMiB <= before);
  OK(CU(cuDevicePrimaryCtxReset)(0));
  EXPECT(free_bytes() + 32 * kMiB > before);
  OK(CU(cuDevicePrimaryCtxRelease)(0));
}

CASE("primary.reset_takes_and_gives_no_reference", PRIMARY "cuDevicePrimaryCtxReset") {
  for (const int references : {1, 2}) {
    use_device();
    CUcontext context = nullptr;
    for (int more = 1; more < references; ++more) OK(CU(cuDevicePrimaryCtxRetain)(&context, 0));
    allocate(kMiB);
    if (references == 1) {
      OK(CU(cuDevicePrimaryCtxReset)(0));
    } else {
      std::thread([] { OK(CU(cuDevicePrimaryCtxReset)(0)); }).join();
    }
    for (int left = references; left > 0; --left) {
      EXPECT_EQ(primary_is_active(), 1);
      OK(CU(cuDevicePrimaryCtxRelease)(0));
    }
    EXPECT_EQ(primary_is_active(), 0);
    CUdeviceptr memory = 0;
    REFUSES(CU(cuMemAlloc)(&memory, 64), CUDA_ERROR_CONTEXT_IS_DESTROYED, CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(primary_is_active(), 0);
  }
}

CASE("primary.is_what_the_runtime_uses", "CUDA Runtime API, Interactions with the CUDA Driver API") {
  OK(RT(cudaSetDevice)(0));
  OK(RT(cudaFree)(nullptr));
  CUcontext retained = nullptr;
  OK(CU(cuDevicePrimaryCtxRetain)(&retained, 0));
  EXPECT(current() == retained);
}

CASE("primary.the_runtime_works_in_the_current_context_instead",
     "CUDA Runtime API, Interactions with the CUDA Driver API") {
  const CUcontext mine = create_context();
  void* memory = nullptr;
  OK(RT(cudaMalloc)(&memory, 64));
  CUcontext owner = nullptr;
  OK(CU(cuPointerGetAttribute)(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, reinterpret_cast<CUdeviceptr>(memory)));
  EXPECT(owner == mine);
}

CASE("primary.the_runtime_can_reset_it", "CUDA Runtime API, Device Management: cudaDeviceReset") {
  void* memory = nullptr;
  OK(RT(cudaMalloc)(&memory, kMiB));
  OK(RT(cudaDeviceReset)());
  OK(RT(cudaMalloc)(&memory, kMiB));
  OK(RT(cudaMemset)(memory, 1, kMiB));
  OK(RT(cudaDeviceSynchronize)());
}

}  // namespace conformance
