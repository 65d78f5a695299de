// Copies and memsets. Documentation: CUDA Driver API, pages "Memory Management" and "API synchronization
// behavior".

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <numeric>
#include <vector>

#include "tests/simgpu/device_process.h"

namespace {

using namespace simgpu_test;

CUdeviceptr alloc(std::size_t bytes) {
  CUdeviceptr base = 0;
  OK(cuMemAlloc(&base, bytes));
  return base;
}

CUstream new_stream() {
  CUstream stream = nullptr;
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  return stream;
}

int* pinned_int() {
  void* memory = nullptr;
  OK(cuMemHostAlloc(&memory, sizeof(int), 0));
  return static_cast<int*>(memory);
}

int read_int(CUdeviceptr from) {
  int value = 0;
  OK(cuMemcpyDtoH(&value, from, sizeof value));
  return value;
}

constexpr std::uint64_t kSeeds = 60;

}  // namespace

TEST_CASE("copy: a pinned source is read when the copy executes, early for some seeds and late for others") {
  const int late = count_over_seeds(kSeeds, [] {
    const CUdeviceptr device = alloc(sizeof(int));
    const CUstream stream = new_stream();
    int* source = pinned_int();
    *source = 1;
    OK(cuMemcpyHtoDAsync(device, source, sizeof(int), stream));
    *source = 2;
    OK(cuStreamSynchronize(stream));
    return read_int(device) == 2 ? 1 : 0;
  });
  REQUIRE(late > 0);
  REQUIRE(late < static_cast<int>(kSeeds));
}

TEST_CASE("copy: a pageable source is read during the call") {
  const int changed = count_over_seeds(kSeeds, [] {
    const CUdeviceptr device = alloc(sizeof(int));
    const CUstream stream = new_stream();
    int source = 1;
    OK(cuMemcpyHtoDAsync(device, &source, sizeof source, stream));
    source = 2;
    OK(cuStreamSynchronize(stream));
    return read_int(device) == 1 ? 0 : 1;
  });
  REQUIRE(changed == 0);
}

TEST_CASE(
    "copy: the end of a large synchronous copy may arrive after the return, and all of it is what it was") {
  constexpr std::size_t kWords = 1 << 20;
  const int late = count_over_seeds(kSeeds, [] {
    const CUdeviceptr device = alloc(kWords * sizeof(int));
    const CUstream other = new_stream();
    std::vector<int> source(kWords);
    std::iota(source.begin(), source.end(), 1);
    OK(cuMemcpyHtoD(device, source.data(), kWords * sizeof(int)));
    std::fill(source.begin(), source.end(), -1);
    int last = 0;
    OK(cuMemcpyDtoHAsync(&last, device + (kWords - 1) * sizeof(int), sizeof last, other));
    OK(cuCtxSynchronize());
    std::vector<int> arrived(kWords);
    OK(cuMemcpyDtoH(arrived.data(), device, kWords * sizeof(int)));
    for (std::size_t i = 0; i < kWords; ++i) EXPECT(arrived[i] == static_cast<int>(i) + 1);
    return last == static_cast<int>(kWords) ? 0 : 1;
  });
  REQUIRE(late > 0);
  REQUIRE(late < static_cast<int>(kSeeds));
}

TEST_CASE("copy: a copy to pageable host memory is complete on return, one to pinned memory need not be") {
  int pinned_late = 0;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    DeviceSetup setup;
    setup.seed = seed;
    pinned_late += on_device(setup, [] {
      const CUdeviceptr device = alloc(sizeof(int));
      const CUstream stream = new_stream();
      OK(cuMemsetD32Async(device, 5, 1, stream));
      int target = 0;
      OK(cuMemcpyDtoHAsync(&target, device, sizeof target, stream));
      EXPECT(target == 5);
      int* pinned = pinned_int();
      *pinned = 0;
      OK(cuMemcpyDtoHAsync(pinned, device, sizeof(int), stream));
      const bool late = *pinned != 5;
      OK(cuStreamSynchronize(stream));
      EXPECT(*pinned == 5);
      return late ? 1 : 0;
    });
  }
  REQUIRE(pinned_late > 0);
}

TEST_CASE("copy: a synchronous copy from pinned memory or to the host is complete on return") {
  const int wrong = count_over_seeds(kSeeds, [] {
    const CUdeviceptr device = alloc(sizeof(int));
    int* pinned = pinned_int();
    *pinned = 7;
    OK(cuMemcpyHtoD(device, pinned, sizeof(int)));
    *pinned = 0;
    OK(cuMemcpyDtoH(pinned, device, sizeof(int)));
    return *pinned == 7 ? 0 : 1;
  });
  REQUIRE(wrong == 0);
}

TEST_CASE("copy: work that was queued earlier in the stream comes first") {
  const int wrong = count_over_seeds(kSeeds, [] {
    const CUdeviceptr a = alloc(kFrame);
    const CUdeviceptr b = alloc(kFrame);
    const CUstream stream = new_stream();
    for (unsigned char round = 1; round < 20; ++round) {
      OK(cuMemsetD8Async(a, round, kFrame, stream));
      OK(cuMemcpyDtoDAsync(b, a, kFrame, stream));
      OK(cuMemsetD8Async(a, 0, kFrame, stream));
    }
    unsigned char last = 0;
    OK(cuMemcpyDtoHAsync(&last, b + kFrame - 1, 1, stream));
    return last == 19 ? 0 : 1;
  });
  REQUIRE(wrong == 0);
}

TEST_CASE("copy: pinned memory that is unregistered before its copy runs is an illegal access") {
  const int caught = count_over_seeds(kSeeds, [] {
    std::vector<char> memory(kMiB, 1);
    const CUdeviceptr device = alloc(kMiB);
    OK(cuMemHostRegister(memory.data(), memory.size(), 0));
    const CUstream stream = new_stream();
    OK(cuMemcpyHtoDAsync(device, memory.data(), memory.size(), stream));
    // The copy may also have run at the end of its own call; then nothing is wrong.
    const CUresult unregistered = cuMemHostUnregister(memory.data());
    EXPECT(unregistered == CUDA_SUCCESS);
    return cuCtxSynchronize() == CUDA_ERROR_ILLEGAL_ADDRESS ? 1 : 0;
  });
  REQUIRE(caught > 0);
  REQUIRE(caught < static_cast<int>(kSeeds));
}

TEST_CASE("copy: the kind of an address must be what the call says") {
  on_device({}, [] {
    const CUdeviceptr device = alloc(4096);
    char host[64] = {};
    const auto host_address = reinterpret_cast<CUdeviceptr>(&host[0]);
    EXPECT_RESULT(cuMemcpyHtoD(host_address, host, 8), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuMemcpyDtoH(host, host_address, 8), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuMemcpyHtoD(device, reinterpret_cast<void*>(device), 8), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuMemcpyHtoD(device + 4090, host, 8), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuMemcpyHtoD(device, nullptr, 8), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuMemcpyHtoD(device, reinterpret_cast<void*>(0x10000), 8), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemcpyHtoD(device, host, 0));
    OK(cuMemcpy(device, host_address, 8));
    OK(cuMemFree(device));
    EXPECT_RESULT(cuMemcpyHtoD(device, host, 8), CUDA_ERROR_INVALID_VALUE);
    return 0;
  });
}

TEST_CASE("copy: two and three dimensions") {
  const int wrong = count_over_seeds(8, [] {
    constexpr std::size_t kPitch = 64;
    constexpr std::size_t kRows = 6;
    const CUdeviceptr device = alloc(kPitch * kRows * 3);
    OK(cuMemsetD8(device, 0, kPitch * kRows * 3));
    unsigned char host[4][8];
    for (int y = 0; y < 4; ++y) {
      for (int x = 0; x < 8; ++x) host[y][x] = static_cast<unsigned char>(10 * y + x);
    }
    CUDA_MEMCPY2D c{};
    c.srcMemoryType = CU_MEMORYTYPE_HOST;
    c.srcHost = host;
    c.srcPitch = 8;
    c.srcXInBytes = 1;
    c.srcY = 1;
    c.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    c.dstDevice = device;
    c.dstPitch = kPitch;
    c.dstXInBytes = 16;
    c.dstY = 2;
    c.WidthInBytes = 5;
    c.Height = 3;
    OK(cuMemcpy2D(&c));
    unsigned char back = 0;
    OK(cuMemcpyDtoH(&back, device + 4 * kPitch + 16 + 4, 1));
    EXPECT(back == 35);
    OK(cuMemcpyDtoH(&back, device + 4 * kPitch + 16 + 5, 1));
    EXPECT(back == 0);
    c.srcPitch = 3;
    EXPECT_RESULT(cuMemcpy2D(&c), CUDA_ERROR_INVALID_VALUE);
    CUDA_MEMCPY3D cube{};
    cube.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    cube.srcDevice = device;
    cube.srcPitch = kPitch;
    cube.srcHeight = kRows;
    cube.srcY = 2;
    cube.srcXInBytes = 16;
    cube.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    cube.dstDevice = device;
    cube.dstPitch = kPitch;
    cube.dstHeight = kRows;
    cube.dstZ = 2;
    cube.WidthInBytes = 5;
    cube.Height = 3;
    cube.Depth = 1;
    OK(cuMemcpy3DAsync(&cube, nullptr));
    OK(cuMemcpyDtoH(&back, device + (2 * kRows + 1) * kPitch + 2, 1));
    return back == 23 ? 0 : 1;
  });
  REQUIRE(wrong == 0);
}

TEST_CASE("copy: memsets fill elements of one, two and four bytes") {
  on_device({}, [] {
    const CUdeviceptr device = alloc(4096);
    OK(cuMemsetD8(device, 0, 4096));
    OK(cuMemsetD16(device + 2, 0x1234, 3));
    OK(cuMemsetD32(device + 16, 0x89abcdef, 2));
    OK(cuMemsetD2D8(device + 1024, 64, 9, 3, 4));
    unsigned char back[2048] = {};
    OK(cuMemcpyDtoH(back, device, sizeof back));
    EXPECT(back[0] == 0 && back[2] == 0x34 && back[7] == 0x12 && back[8] == 0);
    EXPECT(back[16] == 0xef && back[23] == 0x89 && back[24] == 0);
    EXPECT(back[1024 + 3 * 64 + 2] == 9 && back[1024 + 3 * 64 + 3] == 0 && back[1024 + 4 * 64] == 0);
    EXPECT_RESULT(cuMemsetD32(device + 2, 0, 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuMemsetD8(device, 0, 5000), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuMemsetD8(0x1000, 0, 1), CUDA_ERROR_INVALID_VALUE);
    return 0;
  });
}

TEST_CASE("copy: shapes whose bytes do not fit an address space are refused") {
  on_device({}, [] {
    const CUdeviceptr from = alloc(4096);
    const CUdeviceptr to = alloc(4096);
    EXPECT_RESULT(cuMemsetD32(to, 0, (std::size_t{1} << 62) + 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuMemsetD2D8(to, std::size_t{1} << 61, 0, 16, 9), CUDA_ERROR_INVALID_VALUE);
    CUDA_MEMCPY2D shape{};
    shape.srcMemoryType = shape.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    shape.srcDevice = from;
    shape.dstDevice = to;
    shape.srcPitch = shape.dstPitch = std::size_t{1} << 61;
    shape.WidthInBytes = 16;
    shape.Height = 9;
    EXPECT_RESULT(cuMemcpy2D(&shape), CUDA_ERROR_INVALID_VALUE);
    OK(cuCtxSynchronize());
    return 0;
  });
}
