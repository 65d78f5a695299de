// Memory that nothing has touched yet: it takes no memory of the host, and whoever touches it first, in
// whatever way, finds the pattern.

#include <catch2/catch.hpp>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "simgpu/kernel.h"
#include "tests/simgpu/device_tools.h"

namespace {

using namespace simgpu_test;

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
constexpr std::size_t kBlocks = 80 * kGiB / kFrame;

struct AddOne {
  template <class C>
  static void run(C& c, std::uint32_t* to, const std::uint32_t* from) {
    c.phase([&](unsigned tid) {
      if (tid == 0) *to = *from + 1;
    });
  }
};

CUresult add_one(CUdeviceptr to, CUdeviceptr from) {
  static CUfunction function =
      make_kernel("add_one", simgpu::kernel_body<AddOne, std::uint32_t*, const std::uint32_t*>());
  void* params[] = {&to, &from};
  const CUresult launched = cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, nullptr, params, nullptr);
  return launched == CUDA_SUCCESS ? cuCtxSynchronize() : launched;
}

std::uint32_t word_at(CUdeviceptr address) {
  std::uint32_t word = 0;
  OK(cuMemcpyDtoH(&word, address, sizeof word));
  return word;
}

CUdeviceptr mapped(CUmemGenericAllocationHandle handle, std::size_t bytes, CUmemAccess_flags flags) {
  const CUdeviceptr base = reserve(bytes);
  OK(cuMemMap(base, bytes, 0, handle, 0));
  OK(set_access(base, bytes, flags));
  return base;
}

/// KiB of device memory that this process holds in memory of the host.
std::uint64_t resident_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("RssShmem:")) return std::stoull(line.substr(line.find_first_of("0123456789")));
  }
  return UINT64_MAX;
}

std::size_t process_maps() {
  std::ifstream maps("/proc/self/maps");
  std::size_t lines = 0;
  for (std::string line; std::getline(maps, line);) ++lines;
  return lines;
}

}  // namespace

TEST_CASE("fresh memory: an allocation larger than the host takes what is touched of it") {
  DeviceSetup setup;
  setup.memory_bytes = 80 * kGiB;
  on_device(setup, [] {
    CUdeviceptr base = 0;
    OK(cuMemAlloc(&base, 72 * kGiB));
    const std::uint64_t before = resident_kib();
    EXPECT(before < 16 * 1024);
    for (int i = 0; i < 8; ++i) {
      const CUdeviceptr there = base + static_cast<CUdeviceptr>(i + 1) * 9 * kGiB - 4096;
      OK(cuMemsetD32(there, 7, 1));
      EXPECT(word_at(there) == 7);
      EXPECT(word_at(there + 4) != 0);
    }
    EXPECT(resident_kib() <= before + 8 * 2048 + 1024);  // and what the machine needs itself
    OK(cuMemFree(base));
    return 0;
  });
}

TEST_CASE("fresh memory: every way to read it finds the same pattern at every address") {
  on_device({}, [] {
    const CUmemGenericAllocationHandle handle = create(2 * kFrame);
    const CUdeviceptr one = mapped(handle, 2 * kFrame, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    const CUdeviceptr two = mapped(handle, 2 * kFrame, CU_MEM_ACCESS_FLAGS_PROT_READ);
    const std::uint32_t pattern = word_at(two);
    EXPECT(pattern != 0);
    EXPECT(word_at(one) == pattern);
    EXPECT(word_at(one + kFrame) == pattern);
    OK(add_one(one, two + kFrame));
    EXPECT(word_at(two) == pattern + 1);
    CUdeviceptr plain = 0;
    OK(cuMemAlloc(&plain, 3 * kFrame));
    OK(add_one(plain + kFrame, plain + 2 * kFrame));
    EXPECT(word_at(plain + kFrame) == pattern + 1);
    return 0;
  });
}

TEST_CASE("fresh memory: a stream waits for a value in it") {
  on_device({}, [] {
    CUdeviceptr flag = 0;
    OK(cuMemAlloc(&flag, kFrame));
    OK(cuStreamWaitValue32(nullptr, flag, 5, CU_STREAM_WAIT_VALUE_EQ));
    CUstream other = nullptr;
    OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    OK(cuStreamWriteValue32(other, flag, 5, 0));
    OK(cuStreamSynchronize(nullptr));
    EXPECT(word_at(flag) == 5);
    return 0;
  });
}

TEST_CASE("fresh memory: what may only be read is not opened to writes") {
  on_device({}, [] {
    const CUdeviceptr base = mapped(create(kFrame), kFrame, CU_MEM_ACCESS_FLAGS_PROT_READ);
    EXPECT_RESULT(add_one(base, base), CUDA_ERROR_ILLEGAL_ADDRESS);
    return 0;
  });
}

TEST_CASE("fresh memory: a thread that blocks all signals touches it and illegal addresses too") {
  on_device({}, [] {
    CUdeviceptr base = 0;
    OK(cuMemAlloc(&base, kFrame));
    const CUdeviceptr nowhere = reserve(kFrame);
    CUcontext context = nullptr;
    OK(cuCtxGetCurrent(&context));
    std::thread([&] {
      sigset_t all;
      sigset_t after;
      sigfillset(&all);
      EXPECT(pthread_sigmask(SIG_SETMASK, &all, nullptr) == 0);
      OK(cuCtxSetCurrent(context));
      OK(add_one(base, base));
      EXPECT_RESULT(add_one(nowhere, base), CUDA_ERROR_ILLEGAL_ADDRESS);
      EXPECT(pthread_sigmask(SIG_SETMASK, nullptr, &after) == 0);
      EXPECT(sigismember(&after, SIGSEGV) == 1);
    }).join();
    return 0;
  });
}

TEST_CASE("fresh memory: 80 GiB in blocks of 2 MiB with aliases are few mappings of the host", "[plain]") {
  DeviceSetup setup;
  setup.memory_bytes = 80 * kGiB;
  on_device(setup, [] {
    const CUdeviceptr base = reserve(80 * kGiB);
    const CUdeviceptr alias = reserve(80 * kGiB);
    for (std::size_t i = 0; i < kBlocks; ++i) {
      const CUmemGenericAllocationHandle handle = create(kFrame);
      OK(cuMemMap(base + i * kFrame, kFrame, 0, handle, 0));
      OK(cuMemMap(alias + i * kFrame, kFrame, 0, handle, 0));
      OK(cuMemRelease(handle));
    }
    OK(set_access(base, 80 * kGiB, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    OK(set_access(alias, 80 * kGiB, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    EXPECT(process_maps() < 300);
    for (std::size_t i = 0; i < kBlocks; i += kBlocks / 16)
      OK(add_one(alias + i * kFrame, base + i * kFrame));
    EXPECT(process_maps() < 400);
    return 0;
  });
}

TEST_CASE("fresh memory: shuffled aliases are refused before the program's own memory is", "[plain]") {
  DeviceSetup setup;
  setup.memory_bytes = 80 * kGiB;
  on_device(setup, [] {
    const CUdeviceptr base = reserve(80 * kGiB);
    const CUdeviceptr alias = reserve(80 * kGiB);
    std::vector<std::size_t> order(kBlocks);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::shuffle(order.begin(), order.end(), std::mt19937(1));
    std::vector<CUmemGenericAllocationHandle> handles;
    for (std::size_t i = 0; i < kBlocks; ++i) handles.push_back(create(kFrame));
    for (const std::size_t i : order) OK(cuMemMap(base + i * kFrame, kFrame, 0, handles[i], 0));
    CUresult result = CUDA_SUCCESS;
    std::size_t done = 0;
    for (; done < kBlocks && result == CUDA_SUCCESS; ++done) {
      result = cuMemMap(alias + done * kFrame, kFrame, 0, handles[order[done]], 0);
    }
    if (result == CUDA_SUCCESS) return 0;  // the host's limit is higher than usual
    EXPECT(result == CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT(done > 10'000);
    std::vector<std::unique_ptr<char[]>> mine;
    for (int i = 0; i < 500; ++i) mine.push_back(std::make_unique<char[]>(1 << 20));
    OK(cuMemUnmap(alias, kFrame));
    OK(cuMemUnmap(base + order[0] * kFrame, kFrame));
    return 0;
  });
}
