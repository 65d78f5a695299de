// Plain device memory and pinned host memory. Documentation: CUDA Driver API, pages "Memory Management" and
// "Unified Addressing".

#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "tests/simgpu/device_process.h"

namespace {

using namespace simgpu_test;

std::size_t free_bytes() {
  std::size_t free = 0;
  std::size_t total = 0;
  OK(cuMemGetInfo(&free, &total));
  EXPECT(total == 64 * kMiB);
  return free;
}

CUdeviceptr alloc(std::size_t bytes) {
  CUdeviceptr base = 0;
  OK(cuMemAlloc(&base, bytes));
  return base;
}

}  // namespace

TEST_CASE("memory: the capacity is exact, and what is freed can be had again") {
  on_device({}, [] {
    std::vector<CUdeviceptr> blocks;
    blocks.reserve(32);
    for (int i = 0; i < 32; ++i) blocks.push_back(alloc(kFrame));
    EXPECT(free_bytes() == 0);
    CUdeviceptr more = 42;
    EXPECT_RESULT(cuMemAlloc(&more, 1), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT(more == 42);
    OK(cuMemFree(blocks[5]));
    EXPECT_RESULT(cuMemAlloc(&more, kFrame + 1), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemAlloc(&more, kFrame));
    EXPECT_RESULT(cuMemAlloc(&more, std::size_t{1} << 60), CUDA_ERROR_OUT_OF_MEMORY);
    return 0;
  });
}

TEST_CASE("memory: out of memory is no error that stays") {
  on_device({}, [] {
    CUdeviceptr base = 0;
    EXPECT_RESULT(cuMemAlloc(&base, 65 * kMiB), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuCtxSynchronize());
    OK(cuMemAlloc(&base, 64 * kMiB));
    return 0;
  });
}

TEST_CASE("memory: small allocations share frames of 2 MiB and are aligned") {
  on_device({}, [] {
    std::vector<CUdeviceptr> blocks;
    for (int i = 0; i < 1000; ++i) {
      blocks.push_back(alloc(1000));
      EXPECT(blocks.back() % 512 == 0);
    }
    EXPECT(free_bytes() == 64 * kMiB - kFrame);
    for (const CUdeviceptr block : blocks) OK(cuMemFree(block));
    EXPECT(free_bytes() == 64 * kMiB);
    return 0;
  });
}

TEST_CASE("memory: arguments of allocation and free are checked") {
  on_device({}, [] {
    CUdeviceptr base = 0;
    EXPECT_RESULT(cuMemAlloc(nullptr, 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuMemAlloc(&base, 0), CUDA_ERROR_INVALID_VALUE);
    base = alloc(4096);
    EXPECT_RESULT(cuMemFree(base + 512), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree(base));
    EXPECT_RESULT(cuMemFree(base), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree(0));
    std::size_t pitch = 0;
    EXPECT_RESULT(cuMemAllocPitch(&base, &pitch, 100, 10, 3), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemAllocPitch(&base, &pitch, 100, 10, 4));
    EXPECT(pitch >= 100 && pitch % 512 == 0);
    return 0;
  });
}

TEST_CASE("memory: an allocation never shows earlier bytes") {
  on_device({}, [] {
    std::vector<unsigned char> bytes(100'000);
    alloc(512);  // keeps the frame in use, so that the memory below is reused and not made anew
    for (int round = 0; round < 3; ++round) {
      const CUdeviceptr base = alloc(bytes.size());
      OK(cuMemcpyDtoH(bytes.data(), base, bytes.size()));
      std::size_t useful = 0;
      for (const unsigned char byte : bytes) useful += byte == 0x5a ? 1 : 0;
      EXPECT(useful < bytes.size() / 64);
      OK(cuMemsetD8(base, 0x5a, bytes.size()));
      OK(cuMemFree(base));
    }
    return 0;
  });
}

TEST_CASE("memory: cuMemFree waits for queued work") {
  const int violations = count_over_seeds(40, [] {
    CUstream stream = nullptr;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    const CUdeviceptr block = alloc(kFrame);
    const CUdeviceptr other = alloc(kFrame);
    OK(cuMemsetD8Async(block, 1, kFrame, stream));
    OK(cuMemFree(other));
    OK(cuStreamQuery(stream));
    OK(cuMemsetD8Async(block, 2, kFrame, stream));
    OK(cuMemFree(block));
    OK(cuCtxSynchronize());
    return 0;
  });
  REQUIRE(violations == 0);
}

TEST_CASE("memory: the range of an address") {
  on_device({}, [] {
    const CUdeviceptr block = alloc(5000);
    CUdeviceptr base = 0;
    std::size_t size = 0;
    OK(cuMemGetAddressRange(&base, &size, block + 4999));
    EXPECT(base == block && size == 5000);
    EXPECT_RESULT(cuMemGetAddressRange(&base, &size, block + 5000), CUDA_ERROR_NOT_FOUND);
    OK(cuMemGetAddressRange(nullptr, &size, block));
    return 0;
  });
}

TEST_CASE("memory: pointer attributes tell device, pinned and foreign memory apart") {
  on_device({}, [] {
    const CUdeviceptr block = alloc(4096);
    unsigned type = 0;
    OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, block + 100));
    EXPECT(type == CU_MEMORYTYPE_DEVICE);
    void* pinned = nullptr;
    OK(cuMemHostAlloc(&pinned, 4096, 0));
    OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, reinterpret_cast<CUdeviceptr>(pinned)));
    EXPECT(type == CU_MEMORYTYPE_HOST);
    int local = 0;
    const auto foreign = reinterpret_cast<CUdeviceptr>(&local);
    EXPECT_RESULT(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, foreign),
                  CUDA_ERROR_INVALID_VALUE);
    CUcontext context = nullptr;
    CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_CONTEXT};
    void* where[] = {&type, &context};
    OK(cuPointerGetAttributes(2, which, where, foreign));
    EXPECT(type == 0 && context == nullptr);
    OK(cuPointerGetAttributes(2, which, where, block));
    EXPECT(type == CU_MEMORYTYPE_DEVICE && context != nullptr);
    return 0;
  });
}

TEST_CASE("memory: registering host memory") {
  on_device({}, [] {
    std::vector<char> memory(1 << 20);
    OK(cuMemHostRegister(memory.data(), memory.size(), 0));
    EXPECT_RESULT(cuMemHostRegister(memory.data() + 4096, 10, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    CUdeviceptr address = 0;
    OK(cuMemHostGetDevicePointer(&address, memory.data() + 8, 0));
    EXPECT(address == reinterpret_cast<CUdeviceptr>(memory.data() + 8));
    EXPECT_RESULT(cuMemHostUnregister(memory.data() + 4096), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    EXPECT_RESULT(cuMemFreeHost(memory.data()), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemHostUnregister(memory.data()));
    EXPECT_RESULT(cuMemHostUnregister(memory.data()), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    EXPECT_RESULT(cuMemHostRegister(nullptr, 10, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuMemHostRegister(reinterpret_cast<void*>(0x10000), 4096, 0), CUDA_ERROR_INVALID_VALUE);
    return 0;
  });
}

TEST_CASE("memory: allocating pinned host memory") {
  on_device({}, [] {
    void* pinned = nullptr;
    EXPECT_RESULT(cuMemHostAlloc(&pinned, 0, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuMemHostAlloc(&pinned, 64, 0x80), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemHostAlloc(&pinned, 64, CU_MEMHOSTALLOC_PORTABLE));
    unsigned flags = 0;
    OK(cuMemHostGetFlags(&flags, pinned));
    EXPECT((flags & CU_MEMHOSTALLOC_PORTABLE) != 0);
    EXPECT_RESULT(cuMemHostUnregister(pinned), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    OK(cuMemFreeHost(pinned));
    EXPECT_RESULT(cuMemFreeHost(pinned), CUDA_ERROR_INVALID_VALUE);
    return 0;
  });
}

TEST_CASE("memory: attributes of a foreign address are written in their whole width") {
  on_device({}, [] {
    CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_RANGE_SIZE, CU_POINTER_ATTRIBUTE_MAPPING_SIZE,
                                        CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR,
                                        CU_POINTER_ATTRIBUTE_BUFFER_ID};
    std::uint64_t values[4];
    void* out[4];
    for (std::size_t i = 0; i < 4; ++i) {
      values[i] = ~std::uint64_t{0};
      out[i] = &values[i];
    }
    const int local = 0;
    OK(cuPointerGetAttributes(4, attributes, out, reinterpret_cast<CUdeviceptr>(&local)));
    for (const std::uint64_t value : values) EXPECT(value == 0);
    return 0;
  });
}
