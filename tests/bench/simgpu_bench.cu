#include <benchmark/benchmark.h>
#include <cuda.h>
#include <cuda_runtime.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "simgpu/kernel.h"

/// What simgpu costs the host: launches through the CUDA runtime, copies beside memcpy, and mappings of 2
/// MiB.
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::size_t kFrame = 2 * kMiB;
constexpr std::size_t kCopy = 256 * kMiB;

void check(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "simgpu_bench: %s\n", cudaGetErrorString(error));
  std::exit(EXIT_FAILURE);
}

void check(CUresult result) {
  if (result == CUDA_SUCCESS) return;
  std::fprintf(stderr, "simgpu_bench: driver error %d\n", static_cast<int>(result));
  std::exit(EXIT_FAILURE);
}

struct Empty {
  template <class C>
  __host__ __device__ static void run(C& c, float*, float*) {
    c.phase([](unsigned) {});
  }
};
SIMGPU_KERNEL(empty, Empty, (float* a, float* b), a, b)

/// An empty kernel, from the call until it has run: nothing else executes it.
void launch(benchmark::State& state) {
  float* a = nullptr;
  check(cudaMalloc(&a, 4 * kMiB));
  for (auto unused : state) {
    static_cast<void>(unused);
    empty<<<1, 1>>>(a, a);
  }
  check(cudaDeviceSynchronize());
  check(cudaFree(a));
}

void host_memcpy(benchmark::State& state) {
  std::vector<char> from(kCopy, 1);
  std::vector<char> to(kCopy, 2);
  for (auto unused : state) {
    static_cast<void>(unused);
    std::memcpy(to.data(), from.data(), kCopy);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * kCopy));
}

enum class Memory { kPageable, kPinned, kDevice };

void* allocate(Memory where) {
  void* memory = nullptr;
  switch (where) {
    case Memory::kPageable:
      memory = std::malloc(kCopy);
      std::memset(memory, 1, kCopy);
      break;
    case Memory::kPinned:
      check(cudaMallocHost(&memory, kCopy));
      std::memset(memory, 1, kCopy);
      break;
    case Memory::kDevice:
      check(cudaMalloc(&memory, kCopy));
      check(cudaMemset(memory, 1, kCopy));
      break;
  }
  return memory;
}

void release(void* memory, Memory where) {
  if (where == Memory::kPageable) std::free(memory);
  if (where == Memory::kPinned) check(cudaFreeHost(memory));
  if (where == Memory::kDevice) check(cudaFree(memory));
}

void copy(benchmark::State& state, Memory from_kind, Memory to_kind) {
  void* from = allocate(from_kind);
  void* to = allocate(to_kind);
  check(cudaDeviceSynchronize());
  for (auto unused : state) {
    static_cast<void>(unused);
    check(cudaMemcpy(to, from, kCopy, cudaMemcpyDefault));
    check(cudaStreamSynchronize(nullptr));
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * kCopy));
  release(from, from_kind);
  release(to, to_kind);
}

struct Seconds {
  explicit Seconds(double* sum) : sum_(sum) {}
  ~Seconds() { *sum_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }
  Seconds(const Seconds&) = delete;
  Seconds& operator=(const Seconds&) = delete;

 private:
  double* sum_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

enum class Part { kFreshAll, kTouchedOpen, kTouchedUnmap, kFirstTouch };

/// 256 frames one by one, in the order of their addresses; the time of the part that is asked for, per frame.
void frames(benchmark::State& state, Part part) {
  constexpr std::size_t kFrames = 256;
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CUdeviceptr base = 0;
  check(cuMemAddressReserve(&base, kFrames * kFrame, 0, 0, 0));
  const auto open = [&](CUdeviceptr at, CUmemGenericAllocationHandle handle) {
    check(cuMemMap(at, kFrame, 0, handle, 0));
    check(cuMemSetAccess(at, kFrame, &access, 1));
  };
  for (auto unused : state) {
    static_cast<void>(unused);
    std::vector<CUmemGenericAllocationHandle> handles(kFrames);
    for (CUmemGenericAllocationHandle& handle : handles) check(cuMemCreate(&handle, kFrame, &prop, 0));
    double seconds = 0;
    for (std::size_t i = 0; i < kFrames; ++i) {
      const CUdeviceptr at = base + i * kFrame;
      if (part == Part::kFreshAll) {
        const Seconds timed(&seconds);
        open(at, handles[i]);
        check(cuMemUnmap(at, kFrame));
        continue;
      }
      open(at, handles[i]);
      {
        double first = 0;
        {
          const Seconds timed(&first);
          check(cuMemsetD8(at, 1, 1));
          check(cuCtxSynchronize());
        }
        if (part == Part::kFirstTouch) seconds += first;
      }
      check(cuMemUnmap(at, kFrame));
      double opening = 0;
      double unmapping = 0;
      {
        const Seconds timed(&opening);
        open(at, handles[i]);
      }
      check(cuMemsetD8(at, 1, 1));
      check(cuCtxSynchronize());
      {
        const Seconds timed(&unmapping);
        check(cuMemUnmap(at, kFrame));
      }
      if (part == Part::kTouchedOpen) seconds += opening;
      if (part == Part::kTouchedUnmap) seconds += unmapping;
    }
    for (const CUmemGenericAllocationHandle handle : handles) check(cuMemRelease(handle));
    state.SetIterationTime(seconds / kFrames);
  }
  check(cuMemAddressFree(base, kFrames * kFrame));
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return EXIT_FAILURE;
  check(cudaFree(nullptr));
  const auto add = [](const char* name, auto... arguments) {
    return benchmark::RegisterBenchmark(name, arguments...)->Unit(benchmark::kMicrosecond);
  };
  add("launch", launch);
  add("memcpy", host_memcpy)->UseRealTime();
  add("copy/pageable_to_device", copy, Memory::kPageable, Memory::kDevice)->UseRealTime();
  add("copy/pinned_to_device", copy, Memory::kPinned, Memory::kDevice)->UseRealTime();
  add("copy/device_to_pageable", copy, Memory::kDevice, Memory::kPageable)->UseRealTime();
  add("copy/device_to_pinned", copy, Memory::kDevice, Memory::kPinned)->UseRealTime();
  add("copy/device_to_device", copy, Memory::kDevice, Memory::kDevice)->UseRealTime();
  add("frame/map_access_unmap_fresh", frames, Part::kFreshAll)->UseManualTime()->Iterations(8);
  add("frame/first_touch", frames, Part::kFirstTouch)->UseManualTime()->Iterations(8);
  add("frame/map_access_touched", frames, Part::kTouchedOpen)->UseManualTime()->Iterations(8);
  add("frame/unmap_touched", frames, Part::kTouchedUnmap)->UseManualTime()->Iterations(8);
  benchmark::RunSpecifiedBenchmarks();
  return EXIT_SUCCESS;
}
