// The cases of door_probe about contexts: the program's own, the managed one, and what ends with them.

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <thread>
#include <utility>
#include <vector>

#include "tests/shim/context_blocks.h"

namespace tidepool::test {
namespace {

// Memory of the primary context, used in the streams of another one: pending work there must find it.
void foreign_context() {
  const CUcontext primary = start();
  const std::vector<CUdeviceptr> blocks = filled_blocks();
  const auto set = DRIVER(cuMemsetD8Async);
  CUstream stream = nullptr;
  CUcontext other = other_context(&stream);
  for (int i = 0; i < 20; ++i) {
    EXPECT(set(blocks[0], 77, kBlock, nullptr) == CUDA_SUCCESS);
    EXPECT(set(blocks[1], 78, kBlock, stream) == CUDA_SUCCESS);
  }
  EXPECT(DRIVER(cuCtxSetCurrent)(primary) == CUDA_SUCCESS);
  EXPECT(set(blocks[2], 79, kBlock, stream) == CUDA_SUCCESS);
  for (int round = 0; round < 2; ++round) {
    for (std::size_t i = 3; i < blocks.size(); ++i)
      EXPECT(set(blocks[i], static_cast<unsigned char>(i), kBlock, nullptr) == CUDA_SUCCESS);
  }
  EXPECT(DRIVER(cuCtxSetCurrent)(other) == CUDA_SUCCESS);
  EXPECT(DRIVER(cuCtxSynchronize)() == CUDA_SUCCESS);
  EXPECT(DRIVER(cuCtxSetCurrent)(primary) == CUDA_SUCCESS);
  for (std::size_t i = 0; i < blocks.size(); ++i)
    EXPECT(holds(blocks[i], static_cast<unsigned char>(i < 3 ? 77 + i : i)));
}

// A device that cannot be managed: its context ends with the program's own reference.
void unmanaged_context() {
  const CUcontext primary = start();
  CUdeviceptr block = 0;
  EXPECT(primary != nullptr);
  EXPECT(DRIVER(cuMemAlloc_v2)(&block, kBlock) == CUDA_SUCCESS);
  EXPECT(DRIVER(cuMemFree_v2)(block) == CUDA_SUCCESS);
  EXPECT(DRIVER(cuDevicePrimaryCtxRelease_v2)(0) == CUDA_SUCCESS);
  unsigned flags = 0;
  int active = 1;
  EXPECT(DRIVER(cuDevicePrimaryCtxGetState)(0, &flags, &active) == CUDA_SUCCESS);
  EXPECT(active == 0);
}

// Freed while work of another context is on its way: that work must not reach whoever gets the memory next.
void foreign_free() {
  static std::atomic<bool> may_end{false};
  const CUcontext primary = start();
  const std::vector<CUdeviceptr> blocks = filled_blocks();
  const auto set = DRIVER(cuMemsetD8Async);
  CUstream stream = nullptr;
  CUcontext other = other_context(&stream);
  const CUhostFn wait = [](void*) {
    while (!may_end) std::this_thread::yield();
  };
  // Some seeds run the work at once (one in six does not); then the free has nothing to wait for.
  for (std::size_t i = 1; i < 3; ++i) {
    EXPECT(DRIVER(cuCtxSetCurrent)(other) == CUDA_SUCCESS);
    EXPECT(set(blocks[i], 98, kBlock, stream) == CUDA_SUCCESS);
    EXPECT(DRIVER(cuCtxSynchronize)() == CUDA_SUCCESS);
    may_end = false;
    std::thread later([] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      may_end = true;
    });
    EXPECT(DRIVER(cuLaunchHostFunc)(stream, wait, nullptr) == CUDA_SUCCESS);
    EXPECT(set(blocks[i], 99, kBlock, stream) == CUDA_SUCCESS);
    EXPECT(DRIVER(cuCtxSetCurrent)(primary) == CUDA_SUCCESS);
    EXPECT(DRIVER(cuMemFree_v2)(blocks[i]) == CUDA_SUCCESS);
    EXPECT(may_end);
    later.join();
  }
  EXPECT(DRIVER(cuCtxDestroy_v2)(other) == CUDA_SUCCESS);
  EXPECT(DRIVER(cuMemFree_v2)(blocks[0]) == CUDA_SUCCESS);  // with nothing left to wait for
}

// A thread that makes contexts, uses managed memory in them, and destroys them is no concern of frees
// elsewhere.
void foreign_destroy_race() {
  static std::atomic<bool> stop{false};
  start();
  const std::vector<CUdeviceptr> blocks = filled_blocks();
  std::thread maker([&] {
    while (!stop) {
      CUstream stream = nullptr;
      CUcontext other = other_context(&stream);
      EXPECT(DRIVER(cuMemsetD8Async)(blocks[0], 5, kBlock, stream) == CUDA_SUCCESS);
      EXPECT(DRIVER(cuCtxSynchronize)() == CUDA_SUCCESS);
      EXPECT(DRIVER(cuCtxDestroy_v2)(other) == CUDA_SUCCESS);
    }
  });
  for (int round = 0; round < 1000; ++round) {
    CUdeviceptr block = 0;
    EXPECT(DRIVER(cuMemAlloc_v2)(&block, kBlock) == CUDA_SUCCESS);
    EXPECT(DRIVER(cuMemFree_v2)(block) == CUDA_SUCCESS);
  }
  stop = true;
  maker.join();
}

// An error in another context loses the device for the managed one too (docs/reference/hardware): its calls
// say so and nothing hangs, and the thread keeps its context.
void foreign_error() {
  const CUcontext primary = start();
  const std::vector<CUdeviceptr> blocks = filled_blocks();
  CUresult left = CUDA_SUCCESS;
  std::thread([&] {
    CUstream stream = nullptr;
    CUdeviceptr gone = 0;
    (void)other_context(&stream);
    EXPECT(DRIVER(cuMemsetD8Async)(blocks[0], 5, kBlock, stream) == CUDA_SUCCESS);
    EXPECT(DRIVER(cuCtxSynchronize)() == CUDA_SUCCESS);
    EXPECT(DRIVER(cuMemAddressReserve)(&gone, 2 * kMiB, 0, 0, 0) == CUDA_SUCCESS);
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    CUmemGenericAllocationHandle handle = 0;
    EXPECT(DRIVER(cuMemCreate)(&handle, 2 * kMiB, &properties, 0) == CUDA_SUCCESS);
    EXPECT(DRIVER(cuMemMap)(gone, 2 * kMiB, 0, handle, 0) == CUDA_SUCCESS);
    const CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    EXPECT(DRIVER(cuMemSetAccess)(gone, 2 * kMiB, &access, 1) == CUDA_SUCCESS);
    EXPECT(DRIVER(cuMemsetD8Async)(gone, 1, 4096, stream) == CUDA_SUCCESS);
    EXPECT(DRIVER(cuMemUnmap)(gone, 2 * kMiB) == CUDA_SUCCESS);
    left = DRIVER(cuCtxSynchronize)();  // for some seeds the memset came before the unmap
  }).join();
  EXPECT(left == CUDA_SUCCESS || left == CUDA_ERROR_ILLEGAL_ADDRESS);
  for (std::size_t i = 1; i < 4; ++i) EXPECT(DRIVER(cuMemFree_v2)(blocks[i]) == left);
  CUcontext current = nullptr;
  EXPECT(DRIVER(cuCtxGetCurrent)(&current) == CUDA_SUCCESS && current == primary);
  EXPECT(DRIVER(cuMemsetD8_v2)(blocks[4], 7, kBlock) == left);
  EXPECT(left != CUDA_SUCCESS || holds(blocks[4], 7));
}

// The streams of a context end with it.
void context_destroy() {
  const CUcontext primary = start();
  const std::vector<CUdeviceptr> blocks = filled_blocks();
  const auto set = DRIVER(cuMemsetD8Async);
  for (int round = 0; round < 3; ++round) {
    CUstream stream = nullptr;
    CUcontext other = other_context(&stream);
    EXPECT(set(blocks[0], 1, kBlock, stream) == CUDA_SUCCESS);
    EXPECT(DRIVER(cuStreamSynchronize)(stream) == CUDA_SUCCESS);
    EXPECT(DRIVER(cuCtxDestroy_v2)(other) == CUDA_SUCCESS);
    EXPECT(DRIVER(cuCtxSetCurrent)(primary) == CUDA_SUCCESS);
    // Its handle may come back, this time followed.
    EXPECT(DRIVER(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    for (std::size_t i = 1; i < blocks.size(); ++i)
      EXPECT(set(blocks[i], static_cast<unsigned char>(i + 1), kBlock, stream) == CUDA_SUCCESS);
    EXPECT(DRIVER(cuStreamDestroy_v2)(stream) == CUDA_SUCCESS);
  }
  for (std::size_t i = 0; i < blocks.size(); ++i) EXPECT(holds(blocks[i], static_cast<unsigned char>(i + 1)));
}

// Captures end as well by the end of their context. While one is under way each of these memsets would ask
// whether it is for a graph: the device's report counts that.
void captures_end() {
  const auto begin = DRIVER(cuStreamBeginCapture_v2);
  const auto set = DRIVER(cuMemsetD8Async);
  start();
  CUstream stream = nullptr;
  EXPECT(DRIVER(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
  CUdeviceptr block = 0;
  EXPECT(DRIVER(cuMemAlloc_v2)(&block, kBlock) == CUDA_SUCCESS);
  EXPECT(begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS);
  EXPECT(DRIVER(cuDevicePrimaryCtxReset_v2)(0) == CUDA_SUCCESS);

  const CUcontext primary = start();
  CUcontext other = other_context(&stream);
  EXPECT(begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS);
  EXPECT(DRIVER(cuCtxDestroy_v2)(other) == CUDA_SUCCESS);
  EXPECT(DRIVER(cuCtxSetCurrent)(primary) == CUDA_SUCCESS);

  const auto begin_own = find<decltype(cuStreamBeginCapture_v2)>("cuStreamBeginCapture_v2_ptsz");
  const auto end_own = find<decltype(cuStreamEndCapture)>("cuStreamEndCapture_ptsz");
  CUgraph graph = nullptr;
  EXPECT(begin_own(nullptr, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS);
  EXPECT(end_own(CU_STREAM_PER_THREAD, &graph) == CUDA_SUCCESS && graph != nullptr);
  EXPECT(DRIVER(cuStreamEndCapture)(CU_STREAM_PER_THREAD, &graph) != CUDA_SUCCESS);
  EXPECT(begin(nullptr, CU_STREAM_CAPTURE_MODE_RELAXED) != CUDA_SUCCESS);

  EXPECT(DRIVER(cuMemAlloc_v2)(&block, kBlock) == CUDA_SUCCESS);
  for (int i = 0; i < 1000; ++i)
    EXPECT(set(block, static_cast<unsigned char>(i), kBlock, nullptr) == CUDA_SUCCESS);
  EXPECT(DRIVER(cuCtxSynchronize)() == CUDA_SUCCESS);
}

std::size_t resident_memory() {
  std::ifstream numbers("/proc/self/statm");
  std::size_t all = 0;
  std::size_t resident = 0;
  numbers >> all >> resident;
  EXPECT(resident > 0);
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

// A program that resets its device between jobs starts afresh each time.
void device_reset() {
  std::size_t first = 0;
  for (int job = 0; job < 6; ++job) {
    start();
    const std::vector<CUdeviceptr> blocks = filled_blocks();
    for (std::size_t i = 0; i < blocks.size(); ++i)
      EXPECT(holds(blocks[i], static_cast<unsigned char>(i + 1)));
    EXPECT(DRIVER(cuDevicePrimaryCtxReset_v2)(0) == CUDA_SUCCESS);
    if (job == 1) first = resident_memory();
  }
  EXPECT(resident_memory() < first + 32 * kMiB);  // half of what one job keeps outside the device
}

// What a reset has ended is nobody's any more: with as many releases as there were references the context is
// gone, and stays so whatever a thread that still has it for its current one asks of it. Whoever resets, and
// however often.
void ended_contexts() {
  int devices = 0;
  EXPECT(DRIVER(cuInit)(0) == CUDA_SUCCESS);
  EXPECT(DRIVER(cuDeviceGetCount)(&devices) == CUDA_SUCCESS && devices == 2);
  const auto is_active = [](CUdevice device) {
    unsigned flags = 0;
    int active = -1;
    EXPECT(DRIVER(cuDevicePrimaryCtxGetState)(device, &flags, &active) == CUDA_SUCCESS);
    return active != 0;
  };
  const auto reset = [](CUdevice device) {
    EXPECT(DRIVER(cuDevicePrimaryCtxReset_v2)(device) == CUDA_SUCCESS);
  };
  const auto release = [](CUdevice device) {
    const CUresult released = DRIVER(cuDevicePrimaryCtxRelease_v2)(device);
    return released == CUDA_ERROR_UNKNOWN ? DRIVER(cuDevicePrimaryCtxRelease_v2)(device) : released;
  };
  for (int round = 0; round < 6; ++round) {
    const CUdevice device = round % 2;
    const int references = 1 + round % 3;
    CUcontext context = nullptr;
    for (int i = 0; i < references; ++i)
      EXPECT(DRIVER(cuDevicePrimaryCtxRetain)(&context, device) == CUDA_SUCCESS);
    EXPECT(DRIVER(cuCtxSetCurrent)(context) == CUDA_SUCCESS);
    (void)filled_blocks();
    if (round % 4 < 2) {
      reset(device);
    } else {
      std::thread(reset, device).join();
    }
    if (round % 3 == 0) (void)filled_blocks();  // in the context that came after the reset
    for (int i = 0; i < references; ++i) {
      EXPECT(is_active(device));
      EXPECT(release(device) == CUDA_SUCCESS);
    }
    EXPECT(!is_active(device));
    EXPECT(release(device) == CUDA_ERROR_INVALID_CONTEXT);
    CUdeviceptr none = 0;
    EXPECT(DRIVER(cuMemAlloc_v2)(&none, kBlock) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
    EXPECT(!is_active(device));
  }
}

// Run with the first reset of the device, and the first destruction of a pool, failing: nothing has ended.
void end_fails() {
  start();
  const std::vector<CUdeviceptr> blocks = filled_blocks();
  EXPECT(DRIVER(cuDevicePrimaryCtxReset_v2)(0) == CUDA_ERROR_UNKNOWN);
  for (std::size_t i = 0; i < blocks.size(); ++i) EXPECT(holds(blocks[i], static_cast<unsigned char>(i + 1)));

  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  CUmemoryPool pool = nullptr;
  EXPECT(DRIVER(cuMemPoolCreate)(&pool, &properties) == CUDA_SUCCESS);
  const auto used = [pool] {
    cuuint64_t bytes = 0;
    EXPECT(DRIVER(cuMemPoolGetAttribute)(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &bytes) == CUDA_SUCCESS);
    return bytes;
  };
  CUdeviceptr block = 0;
  EXPECT(DRIVER(cuMemAllocFromPoolAsync)(&block, kBlock, pool, nullptr) == CUDA_SUCCESS);
  EXPECT(DRIVER(cuMemPoolDestroy)(pool) == CUDA_ERROR_UNKNOWN);
  EXPECT(used() == kBlock);
  EXPECT(DRIVER(cuMemFreeAsync)(block, nullptr) == CUDA_SUCCESS && used() == 0);
  EXPECT(DRIVER(cuMemPoolDestroy)(pool) == CUDA_SUCCESS);

  // The second reset succeeds, and as many releases as there were references then end the context.
  EXPECT(DRIVER(cuDevicePrimaryCtxReset_v2)(0) == CUDA_SUCCESS);
  start();
  (void)filled_blocks();
  for (int i = 0; i < 2; ++i) EXPECT(DRIVER(cuDevicePrimaryCtxRelease_v2)(0) == CUDA_SUCCESS);
  unsigned flags = 0;
  int active = 1;
  EXPECT(DRIVER(cuDevicePrimaryCtxGetState)(0, &flags, &active) == CUDA_SUCCESS && active == 0);
}

}  // namespace

bool run_context_case(std::string_view name) {
  constexpr std::pair<std::string_view, void (*)()> kCases[] = {

      {"foreign_context", foreign_context}, {"unmanaged_context", unmanaged_context},
      {"foreign_free", foreign_free},       {"foreign_destroy_race", foreign_destroy_race},
      {"foreign_error", foreign_error},     {"context_destroy", context_destroy},
      {"captures_end", captures_end},       {"device_reset", device_reset},
      {"ended_contexts", ended_contexts},   {"end_fails", end_fails}};
  for (const auto& [known, run] : kCases) {
    if (known == name) return run(), true;
  }
  return false;
}

}  // namespace tidepool::test
