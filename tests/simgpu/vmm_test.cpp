// Virtual memory management. Documentation: CUDA Driver API, page "Virtual Memory Management" (cuMemMap,
// cuMemUnmap, cuMemSetAccess, ...); what it leaves open is said where it matters.

#include <catch2/catch.hpp>
#include <cstring>
#include <vector>

#include "tests/simgpu/device_tools.h"

namespace {

using namespace simgpu_test;

void map_with_access(CUdeviceptr base, std::size_t bytes, CUmemGenericAllocationHandle handle) {
  OK(cuMemMap(base, bytes, 0, handle, 0));
  OK(set_access(base, bytes, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
}

std::size_t free_bytes() {
  std::size_t free = 0;
  std::size_t total = 0;
  OK(cuMemGetInfo(&free, &total));
  return free;
}

}  // namespace

TEST_CASE("vmm: granularity is 2 MiB, minimum and recommended") {
  on_device({}, [] {
    const CUmemAllocationProp prop = device_memory();
    for (const auto option : {CU_MEM_ALLOC_GRANULARITY_MINIMUM, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED}) {
      std::size_t granularity = 0;
      OK(cuMemGetAllocationGranularity(&granularity, &prop, option));
      EXPECT(granularity == kFrame);
    }
    EXPECT_RESULT(cuMemGetAllocationGranularity(nullptr, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
                  CUDA_ERROR_INVALID_VALUE);
    return 0;
  });
}

TEST_CASE("vmm: a handle is a multiple of the granularity and has a kind that exists") {
  on_device({}, [] {
    CUmemAllocationProp prop = device_memory();
    CUmemGenericAllocationHandle handle = 0;
    EXPECT_RESULT(cuMemCreate(&handle, kMiB, &prop, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuMemCreate(&handle, 0, &prop, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuMemCreate(&handle, kFrame, &prop, 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuMemCreate(nullptr, kFrame, &prop, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuMemCreate(&handle, kFrame, nullptr, 0), CUDA_ERROR_INVALID_VALUE);
    prop.location.id = 1;
    EXPECT_RESULT(cuMemCreate(&handle, kFrame, &prop, 0), CUDA_ERROR_INVALID_DEVICE);
    return 0;
  });
}

TEST_CASE("vmm: a mapping takes the whole handle from offset 0") {
  on_device({}, [] {
    const CUdeviceptr base = reserve(4 * kFrame);
    const auto handle = create(2 * kFrame);
    EXPECT_RESULT(cuMemMap(base, kFrame, kFrame, handle, 0), CUDA_ERROR_NOT_SUPPORTED);
    EXPECT_RESULT(cuMemMap(base, 2 * kFrame, kFrame, handle, 0), CUDA_ERROR_NOT_SUPPORTED);
    EXPECT_RESULT(cuMemMap(base, kFrame, 0, handle, 0), CUDA_ERROR_NOT_SUPPORTED);
    EXPECT_RESULT(cuMemMap(base, 3 * kFrame, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuMemMap(base + kMiB, 2 * kFrame, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuMemMap(base, 2 * kFrame, 0, handle, 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuMemMap(base, 2 * kFrame, 0, handle + 1000, 0), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemMap(base, 2 * kFrame, 0, handle, 0));
    return 0;
  });
}

TEST_CASE("vmm: mappings go only onto reserved addresses that are not mapped") {
  on_device({}, [] {
    const CUdeviceptr base = reserve(4 * kFrame);
    const auto one = create(2 * kFrame);
    const auto two = create(2 * kFrame);
    OK(cuMemMap(base + kFrame, 2 * kFrame, 0, one, 0));
    EXPECT_RESULT(cuMemMap(base, 2 * kFrame, 0, two, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuMemMap(base + kFrame, 2 * kFrame, 0, two, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuMemMap(base + 2 * kFrame, 2 * kFrame, 0, two, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuMemMap(base + 3 * kFrame, 2 * kFrame, 0, two, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuMemMap(base + 64 * kFrame, 2 * kFrame, 0, two, 0), CUDA_ERROR_INVALID_VALUE);
    CUdeviceptr plain = 0;
    OK(cuMemAlloc(&plain, 2 * kFrame));
    EXPECT_RESULT(cuMemMap(plain, 2 * kFrame, 0, two, 0), CUDA_ERROR_INVALID_VALUE);
    return 0;
  });
}

TEST_CASE("vmm: unmap takes one or several whole mappings, never a part of one") {
  on_device({}, [] {
    const CUdeviceptr base = reserve(6 * kFrame);
    const auto one = create(2 * kFrame);
    const auto two = create(kFrame);
    OK(cuMemMap(base, 2 * kFrame, 0, one, 0));
    OK(cuMemMap(base + 2 * kFrame, kFrame, 0, two, 0));
    EXPECT_RESULT(cuMemUnmap(base, kFrame), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuMemUnmap(base + kFrame, kFrame), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuMemUnmap(base + kFrame, 2 * kFrame), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuMemUnmap(base, 4 * kFrame), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuMemUnmap(base, 0), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemUnmap(base, 3 * kFrame));
    OK(cuMemUnmap(base, 3 * kFrame));  // nothing is mapped there: drivers do nothing and say so
    EXPECT_RESULT(cuMemUnmap(base + 5 * kFrame, 2 * kFrame), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuMemUnmap(base + kMiB, kFrame), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemMap(base + kFrame, 2 * kFrame, 0, one, 0));
    return 0;
  });
}

TEST_CASE("vmm: a handle that was released can be mapped while it is mapped") {
  on_device({}, [] {
    const CUdeviceptr base = reserve(2 * kFrame);
    const auto handle = create(kFrame);
    map_with_access(base, kFrame, handle);
    OK(cuMemsetD8(base, 7, kFrame));
    OK(cuMemRelease(handle));
    EXPECT_RESULT(cuMemRelease(handle), CUDA_ERROR_INVALID_VALUE);
    map_with_access(base + kFrame, kFrame, handle);
    unsigned char byte = 0;
    OK(cuMemcpyDtoH(&byte, base + kFrame + 99, 1));
    EXPECT(byte == 7);
    OK(cuMemUnmap(base, 2 * kFrame));
    EXPECT_RESULT(cuMemMap(base, kFrame, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
    return 0;
  });
}

TEST_CASE("vmm: a range with a hole cannot be unmapped, and is given access around the hole") {
  on_device({}, [] {
    const CUdeviceptr base = reserve(4 * kFrame);
    OK(cuMemMap(base, kFrame, 0, create(kFrame), 0));
    OK(cuMemMap(base + 2 * kFrame, kFrame, 0, create(kFrame), 0));
    constexpr auto kRead = CU_MEM_ACCESS_FLAGS_PROT_READ;
    EXPECT_RESULT(set_access(base, 2 * kFrame, kRead), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(set_access(base + kFrame, 2 * kFrame, kRead), CUDA_ERROR_INVALID_VALUE);
    OK(set_access(base, 3 * kFrame, kRead));
    const CUmemLocation here{CU_MEM_LOCATION_TYPE_DEVICE, {0}};
    for (const CUdeviceptr at : {base, base + 2 * kFrame}) {
      unsigned long long access = 99;
      OK(cuMemGetAccess(&access, &here, at));
      EXPECT(access == kRead);
    }
    EXPECT_RESULT(cuMemUnmap(base, 2 * kFrame), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuMemUnmap(base, 3 * kFrame), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemUnmap(base, kFrame));
    OK(cuMemUnmap(base + 2 * kFrame, kFrame));
    return 0;
  });
}

TEST_CASE("vmm: a mapping starts without access, also at an address that had it before") {
  on_device({}, [] {
    const CUdeviceptr base = reserve(kFrame);
    const auto handle = create(kFrame);
    const CUmemLocation here{CU_MEM_LOCATION_TYPE_DEVICE, {0}};
    unsigned long long access = 99;
    map_with_access(base, kFrame, handle);
    OK(cuMemGetAccess(&access, &here, base + 5));
    EXPECT(access == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    OK(cuMemUnmap(base, kFrame));
    EXPECT_RESULT(cuMemGetAccess(&access, &here, base), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemMap(base, kFrame, 0, handle, 0));
    OK(cuMemGetAccess(&access, &here, base));
    EXPECT(access == CU_MEM_ACCESS_FLAGS_PROT_NONE);
    OK(cuMemsetD8Async(base, 1, kFrame, nullptr));
    EXPECT_RESULT(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    return 0;
  });
}

TEST_CASE("vmm: access is set on whole mappings, over several neighbours at once") {
  on_device({}, [] {
    const CUdeviceptr base = reserve(4 * kFrame);
    OK(cuMemMap(base, 2 * kFrame, 0, create(2 * kFrame), 0));
    OK(cuMemMap(base + 2 * kFrame, kFrame, 0, create(kFrame), 0));
    const auto rw = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    EXPECT_RESULT(set_access(base, kFrame, rw), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(set_access(base, 4 * kFrame, rw), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuMemSetAccess(base, 3 * kFrame, nullptr, 1), CUDA_ERROR_INVALID_VALUE);
    OK(set_access(base, 3 * kFrame, rw));
    OK(cuMemsetD8(base, 7, 3 * kFrame));
    unsigned char last = 0;
    OK(cuMemcpyDtoH(&last, base + 3 * kFrame - 1, 1));
    EXPECT(last == 7);
    return 0;
  });
}

TEST_CASE("vmm: read-only access lets reads through and traps writes") {
  on_device({}, [] {
    const CUdeviceptr base = reserve(kFrame);
    map_with_access(base, kFrame, create(kFrame));
    OK(cuMemsetD8(base, 3, kFrame));
    OK(cuCtxSynchronize());
    OK(set_access(base, kFrame, CU_MEM_ACCESS_FLAGS_PROT_READ));
    unsigned char byte = 0;
    OK(cuMemcpyDtoH(&byte, base, 1));
    EXPECT(byte == 3);
    OK(cuMemsetD8(base, 4, kFrame));
    EXPECT_RESULT(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    return 0;
  });
}

TEST_CASE("vmm: several mappings of one handle show the same bytes") {
  on_device({}, [] {
    const CUdeviceptr base = reserve(3 * kFrame);
    const auto handle = create(kFrame);
    map_with_access(base, kFrame, handle);
    map_with_access(base + 2 * kFrame, kFrame, handle);
    const int value = 12345;
    int back = 0;
    OK(cuMemcpyHtoD(base + 64, &value, sizeof value));
    OK(cuMemcpyDtoH(&back, base + 2 * kFrame + 64, sizeof back));
    EXPECT(back == value);
    EXPECT(free_bytes() == 64 * kMiB - kFrame);
    return 0;
  });
}

TEST_CASE("vmm: contents survive unmapping while a handle is held") {
  on_device({}, [] {
    const CUdeviceptr base = reserve(2 * kFrame);
    const auto handle = create(kFrame);
    map_with_access(base, kFrame, handle);
    OK(cuMemsetD32(base, 0xabcd, kFrame / 4));
    OK(cuCtxSynchronize());
    OK(cuMemUnmap(base, kFrame));
    map_with_access(base + kFrame, kFrame, handle);
    unsigned back = 0;
    OK(cuMemcpyDtoH(&back, base + kFrame + 4096, sizeof back));
    EXPECT(back == 0xabcd);
    return 0;
  });
}

TEST_CASE("vmm: memory released while mapped lives until the last mapping goes") {
  on_device({}, [] {
    const CUdeviceptr base = reserve(2 * kFrame);
    const auto handle = create(kFrame);
    map_with_access(base, kFrame, handle);
    map_with_access(base + kFrame, kFrame, handle);
    OK(cuMemRelease(handle));
    EXPECT_RESULT(cuMemRelease(handle), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemsetD8(base, 9, kFrame));
    unsigned char byte = 0;
    OK(cuMemcpyDtoH(&byte, base + kFrame, 1));
    EXPECT(byte == 9);
    OK(cuMemUnmap(base, kFrame));
    EXPECT(free_bytes() == 64 * kMiB - kFrame);
    OK(cuMemUnmap(base + kFrame, kFrame));
    EXPECT(free_bytes() == 64 * kMiB);
    return 0;
  });
}

TEST_CASE("vmm: a retained handle is the same handle and holds the memory") {
  on_device({}, [] {
    const CUdeviceptr base = reserve(kFrame);
    const auto handle = create(kFrame);
    OK(cuMemMap(base, kFrame, 0, handle, 0));
    CUmemGenericAllocationHandle again = 0;
    OK(cuMemRetainAllocationHandle(&again, reinterpret_cast<void*>(base + 77)));
    EXPECT(again == handle);
    OK(cuMemRelease(handle));
    OK(cuMemUnmap(base, kFrame));
    EXPECT(free_bytes() == 64 * kMiB - kFrame);
    OK(cuMemRelease(again));
    EXPECT(free_bytes() == 64 * kMiB);
    EXPECT_RESULT(cuMemRetainAllocationHandle(&again, reinterpret_cast<void*>(base)),
                  CUDA_ERROR_INVALID_VALUE);
    return 0;
  });
}

TEST_CASE("vmm: a handle tells the properties it was made with") {
  on_device({}, [] {
    const auto handle = create(kFrame);
    CUmemAllocationProp prop{};
    OK(cuMemGetAllocationPropertiesFromHandle(&prop, handle));
    EXPECT(prop.type == CU_MEM_ALLOCATION_TYPE_PINNED);
    EXPECT(prop.location.type == CU_MEM_LOCATION_TYPE_DEVICE);
    return 0;
  });
}

TEST_CASE("vmm: a reservation is freed whole, and not while something is mapped in it") {
  on_device({}, [] {
    const CUdeviceptr base = reserve(4 * kFrame);
    const auto handle = create(kFrame);
    EXPECT_RESULT(cuMemAddressFree(base, 2 * kFrame), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuMemAddressFree(base + kFrame, 4 * kFrame), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemMap(base + 3 * kFrame, kFrame, 0, handle, 0));
    EXPECT_RESULT(cuMemAddressFree(base, 4 * kFrame), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemUnmap(base + 3 * kFrame, kFrame));
    OK(cuMemAddressFree(base, 4 * kFrame));
    EXPECT_RESULT(cuMemAddressFree(base, 4 * kFrame), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuMemMap(base, kFrame, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
    return 0;
  });
}

TEST_CASE("vmm: reservations honour alignment and take a hint that is free") {
  on_device({}, [] {
    CUdeviceptr aligned = 0;
    OK(cuMemAddressReserve(&aligned, kFrame, 1 << 30, 0, 0));
    EXPECT(aligned % (1 << 30) == 0);
    EXPECT_RESULT(cuMemAddressReserve(&aligned, kFrame, 3, 0, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuMemAddressReserve(&aligned, kFrame + 1, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuMemAddressReserve(&aligned, 0, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuMemAddressReserve(nullptr, kFrame, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
    const CUdeviceptr wanted = aligned + 64 * kFrame;
    CUdeviceptr got = 0;
    OK(cuMemAddressReserve(&got, kFrame, 0, wanted, 0));
    EXPECT(got == wanted);
    CUdeviceptr elsewhere = 0;
    OK(cuMemAddressReserve(&elsewhere, kFrame, 0, wanted, 0));
    EXPECT(elsewhere != wanted);
    return 0;
  });
}

TEST_CASE("vmm: new memory never shows what memory held before, nor zeros") {
  on_device({}, [] {
    const CUdeviceptr base = reserve(kFrame);
    std::vector<unsigned char> bytes(kFrame);
    for (int round = 0; round < 3; ++round) {
      const auto handle = create(kFrame);
      map_with_access(base, kFrame, handle);
      OK(cuMemcpyDtoH(bytes.data(), base, kFrame));
      for (const int useful : {0x00, 0x5a}) {
        std::size_t count = 0;
        for (const unsigned char byte : bytes) count += byte == useful ? 1 : 0;
        EXPECT(count < kFrame / 64);
      }
      OK(cuMemsetD8(base, 0x5a, kFrame));
      OK(cuCtxSynchronize());
      OK(cuMemUnmap(base, kFrame));
      OK(cuMemRelease(handle));
    }
    return 0;
  });
}

TEST_CASE("vmm: blocks mapped in any order need few mappings of the process") {
  DeviceSetup setup;
  setup.memory_bytes = 128 * kFrame;
  on_device(setup, [] {
    const auto process_mappings = [] {
      std::size_t lines = 0;
      std::FILE* maps = std::fopen("/proc/self/maps", "r");
      for (int c = 0; (c = std::fgetc(maps)) != EOF;) lines += c == '\n' ? 1 : 0;
      std::fclose(maps);
      return lines;
    };
    constexpr std::size_t kBlocks = 128;
    const CUdeviceptr base = reserve(kBlocks * kFrame);
    const std::size_t before = process_mappings();
    for (std::size_t i = 0; i < kBlocks; ++i) {
      OK(cuMemMap(base + ((i * 37) % kBlocks) * kFrame, kFrame, 0, create(kFrame), 0));
    }
    EXPECT(process_mappings() < before + 16);
    return 0;
  });
}
