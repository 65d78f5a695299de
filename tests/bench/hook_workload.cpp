#include "tests/bench/hook_workload.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace tidepool::bench {
namespace {

constexpr std::size_t kHeldBytes = std::size_t{2} << 20;

void check(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  std::fprintf(stderr, "hook workload: %s returned %d\n", what, static_cast<int>(result));
  std::exit(EXIT_FAILURE);
}

// The null driver asks nothing of a kernel.
CUfunction kernel() {
  return reinterpret_cast<CUfunction>(std::uintptr_t{0x2000});
}

/// Without nodes.
CUgraph graph() {
  return reinterpret_cast<CUgraph>(std::uintptr_t{0x4000});
}

}  // namespace

HookWorkload::HookWorkload() {
  CUdevice device = 0;
  CUcontext context = nullptr;
  check(cuInit(0), "cuInit");
  check(cuDeviceGet(&device, 0), "cuDeviceGet");
  check(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
  check(cuCtxSetCurrent(context), "cuCtxSetCurrent");
  check(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  check(cuEventCreate(&event_, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
  for (std::size_t i = 0; i < kPointers; ++i) {
    check(cuMemAlloc(&blocks_[i], kBlockBytes), "cuMemAlloc");
    parameters_[i] = &blocks_[i];
  }
  check(cuGraphInstantiate(&graph_, graph(), 0), "cuGraphInstantiate");
  launch();
}

HookWorkload::~HookWorkload() {
  check(cuGraphExecDestroy(graph_), "cuGraphExecDestroy");
  check(cuEventDestroy(event_), "cuEventDestroy");
  for (const CUdeviceptr block : held_) check(cuMemFree(block), "cuMemFree");
  for (const CUdeviceptr block : blocks_) check(cuMemFree(block), "cuMemFree");
}

void HookWorkload::launch() {
  check(cuLaunchKernel(kernel(), 1, 1, 1, 32, 1, 1, 0, stream_, parameters_.data(), nullptr),
        "cuLaunchKernel");
}

void HookWorkload::launch_others() {
  constexpr std::size_t kOthers = 256;
  if (held_.empty()) hold(kOthers);
  std::array<void*, kPointers> parameters{};
  for (std::size_t i = 0; i < kPointers; ++i) parameters[i] = &held_[(next_ + i) % kOthers];
  next_ += kPointers;
  check(cuLaunchKernel(kernel(), 1, 1, 1, 32, 1, 1, 0, stream_, parameters.data(), nullptr),
        "cuLaunchKernel");
}

void HookWorkload::alloc_free(std::size_t bytes) {
  CUdeviceptr block = 0;
  check(cuMemAlloc(&block, bytes), "cuMemAlloc");
  check(cuMemFree(block), "cuMemFree");
}

void HookWorkload::copy() {
  static constexpr std::array<double, 64> kNumbers{1.0, 2.0, 3.0};
  check(cuMemcpyHtoDAsync(blocks_[0], kNumbers.data(), sizeof kNumbers, stream_), "cuMemcpyHtoDAsync");
}

void HookWorkload::launch_ex() {
  CUlaunchConfig config{};
  config.gridDimX = config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = 32;
  config.blockDimY = config.blockDimZ = 1;
  config.hStream = stream_;
  check(cuLaunchKernelEx(&config, kernel(), parameters_.data(), nullptr), "cuLaunchKernelEx");
}

void HookWorkload::fill() {
  check(cuMemsetD8Async(blocks_[1], 0, kBlockBytes, stream_), "cuMemsetD8Async");
}

void HookWorkload::alloc_free_async(std::size_t bytes) {
  CUdeviceptr block = 0;
  check(cuMemAllocAsync(&block, bytes, stream_), "cuMemAllocAsync");
  check(cuMemFreeAsync(block, stream_), "cuMemFreeAsync");
}

void HookWorkload::wait_for_event() {
  check(cuEventRecord(event_, stream_), "cuEventRecord");
  check(cuStreamWaitEvent(stream_, event_, 0), "cuStreamWaitEvent");
}

void HookWorkload::launch_graph() {
  check(cuGraphLaunch(graph_, stream_), "cuGraphLaunch");
}

void HookWorkload::hold(long count) {
  for (; count > 0; --count) check(cuMemAlloc(&held_.emplace_back(), kHeldBytes), "cuMemAlloc");
}

void HookWorkload::ask() {
  check(cuMemsetD8(0, 0, 0), "cuMemsetD8");
}

}  // namespace tidepool::bench
