// What the system refuses: addresses, mappings, memory. Each call answers with an error and leaves everything
// as it was; when the system gives again, the same call works. Documentation: CUDA Driver API, Virtual Memory
// Management; cuda.h, CUDA_ERROR_OPERATING_SYSTEM: "an OS call failed".

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <fstream>
#include <functional>
#include <string>

#include "simgpu/kernel.h"
#include "tests/simgpu/device_tools.h"
#include "tests/simgpu/refusing_system.h"

namespace {

using namespace simgpu_test;

struct AddOne {
  template <class C>
  static void run(C& c, int* to) {
    c.phase([&](unsigned tid) {
      if (tid == 0) *to += 1;
    });
  }
};

CUresult add_one(CUdeviceptr to) {
  const CUfunction function = make_kernel("add_one", simgpu::kernel_body<AddOne, int*>());
  void* params[] = {&to};
  const CUresult launched = cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, nullptr, params, nullptr);
  return launched == CUDA_SUCCESS ? cuCtxSynchronize() : launched;
}

/// Three neighbours of a frame each, whose mappings the system merges.
CUdeviceptr three_frames(CUmemAccess_flags access) {
  const CUdeviceptr base = reserve(3 * kFrame);
  for (CUdeviceptr at = base; at < base + 3 * kFrame; at += kFrame) {
    const CUmemGenericAllocationHandle handle = create(kFrame);
    OK(cuMemMap(at, kFrame, 0, handle, 0));
    OK(cuMemRelease(handle));
  }
  OK(set_access(base, 3 * kFrame, access));
  return base;
}

/// What is written on stderr meanwhile.
std::string said(const std::function<void()>& meanwhile) {
  const int file = memfd_create("stderr", 0);
  const int before = dup(STDERR_FILENO);
  dup2(file, STDERR_FILENO);
  meanwhile();
  std::fflush(stderr);
  dup2(before, STDERR_FILENO);
  std::string text(4096, '\0');
  text.resize(static_cast<std::size_t>(pread(file, text.data(), text.size(), 0)));
  return text;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

const std::string kRefused = "simgpu: error: the system refuses this process a further mapping: ";
const std::string kRemedy = "; raise the sysctl vm.max_map_count\n";

}  // namespace

TEST_CASE("host limits: reserving beyond the process' addresses is out of memory") {
  on_device({}, [] {
    rlimit before{};
    EXPECT(getrlimit(RLIMIT_AS, &before) == 0);
    std::uint64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlimit little{pages * kPage + 64 * kMiB, before.rlim_max};
    EXPECT(setrlimit(RLIMIT_AS, &little) == 0);
    CUdeviceptr base = 0;
    const std::string text = said(
        [&] { EXPECT_RESULT(cuMemAddressReserve(&base, 512 * kFrame, 0, 0, 0), CUDA_ERROR_OUT_OF_MEMORY); });
    EXPECT(contains(text, "ulimit -v"));
    EXPECT(!contains(text, "error"));  // the program may go on with less
    EXPECT(base == 0);
    const std::string again = said(
        [&] { EXPECT_RESULT(cuMemAddressReserve(&base, 256 * kFrame, 0, 0, 0), CUDA_ERROR_OUT_OF_MEMORY); });
    EXPECT(again.empty());
    OK(cuMemAddressReserve(&base, kFrame, 0, 0, 0));  // what fits is still there
    OK(cuMemAddressFree(base, kFrame));
    EXPECT(setrlimit(RLIMIT_AS, &before) == 0);
    OK(cuMemAddressReserve(&base, 512 * kFrame, 0, 0, 0));
    return 0;
  });
}

TEST_CASE("host limits: a limit that a reservation does not come near is not blamed") {
  on_device({}, [] {
    rlimit before{};
    EXPECT(getrlimit(RLIMIT_AS, &before) == 0);
    constexpr std::uint64_t kTiB = std::uint64_t{1} << 40;
    const rlimit plenty{64 * kTiB, before.rlim_max};
    EXPECT(setrlimit(RLIMIT_AS, &plenty) == 0);
    CUdeviceptr base = 0;
    const std::string text = said(
        [&] { EXPECT_RESULT(cuMemAddressReserve(&base, 40 * kTiB, 0, 0, 0), CUDA_ERROR_OUT_OF_MEMORY); });
    EXPECT(text.empty());
    return 0;
  });
}

TEST_CASE("host limits: work on new memory for which there is no mapping says so, with another code") {
  each_shortage([](Shortage shortage) {
    const std::function<CUresult(CUdeviceptr)> works[] = {
        add_one,
        [](CUdeviceptr at) {
          const CUresult set = cuMemsetD8(at, 1, 64);
          return set == CUDA_SUCCESS ? cuCtxSynchronize() : set;
        },
        [](CUdeviceptr at) {
          int value = 0;
          return cuMemcpyDtoH(&value, at, sizeof value);
        },
        [](CUdeviceptr at) {
          const CUresult write = cuStreamWriteValue32(nullptr, at, 1, 0);
          return write == CUDA_SUCCESS ? cuCtxSynchronize() : write;
        },
    };
    for (const auto& work : works) {
      on_device({}, [&] {
        CUdeviceptr block = 0;
        OK(cuMemAlloc(&block, 5 * kFrame));
        OK(add_one(block));
        const std::string text = said([&] {
          const NoMappings none(shortage);
          EXPECT_RESULT(work(block + 2 * kFrame), CUDA_ERROR_OPERATING_SYSTEM);
        });
        EXPECT(text.starts_with(kRefused));
        EXPECT(contains(text, "inside the allocation"));
        EXPECT(contains(text, "the device is lost to this process"));
        EXPECT(text.ends_with(kRemedy));
        EXPECT_RESULT(cuCtxSynchronize(), CUDA_ERROR_OPERATING_SYSTEM);
        return 0;
      });
    }
  });
}

TEST_CASE("host limits: a mapping that the system refuses leaves the addresses reserved") {
  each_shortage([](Shortage shortage) {
    on_device({}, [&] {
      const CUdeviceptr base = reserve(3 * kFrame);
      const CUmemGenericAllocationHandle handle = create(kFrame);
      const std::string text = said([&] {
        const NoMappings none(shortage);
        EXPECT_RESULT(cuMemMap(base + kFrame, kFrame, 0, handle, 0), CUDA_ERROR_OUT_OF_MEMORY);
      });
      EXPECT(text == kRefused + "device memory was not mapped" + kRemedy);
      OK(cuMemMap(base + kFrame, kFrame, 0, handle, 0));
      OK(set_access(base + kFrame, kFrame, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
      OK(add_one(base + kFrame));
      return 0;
    });
  });
}

/// The middle one of three frames that are in use and start with the word 7.
CUdeviceptr middle_of_three() {
  const CUdeviceptr base = three_frames(CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  for (int i = 0; i < 3; ++i) OK(cuMemsetD32(base + static_cast<CUdeviceptr>(i) * kFrame, 7, 1));
  OK(cuCtxSynchronize());
  return base + kFrame;
}

TEST_CASE("host limits: access that the system refuses to change is what it was") {
  each_shortage([](Shortage shortage) {
    on_device({}, [&] {
      const CUdeviceptr middle = middle_of_three();
      const std::string text = said([&] {
        const NoMappings none(shortage);
        EXPECT_RESULT(set_access(middle, kFrame, CU_MEM_ACCESS_FLAGS_PROT_READ), CUDA_ERROR_OUT_OF_MEMORY);
      });
      EXPECT(text == kRefused + "the access to device memory was not changed" + kRemedy);
      unsigned long long access = 0;
      CUmemLocation device{};
      device.type = CU_MEM_LOCATION_TYPE_DEVICE;
      OK(cuMemGetAccess(&access, &device, middle));
      EXPECT(access == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
      OK(add_one(middle));
      EXPECT(int_at(middle) == 8);
      OK(set_access(middle, kFrame, CU_MEM_ACCESS_FLAGS_PROT_READ));
      EXPECT(int_at(middle) == 8);
      EXPECT_RESULT(add_one(middle), CUDA_ERROR_ILLEGAL_ADDRESS);
      return 0;
    });
  });
}

/// Five frames of three neighbours with so many each, all in use but for one that was never touched.
CUdeviceptr five_frames(const std::array<std::size_t, 3>& parts, int untouched) {
  const CUdeviceptr base = reserve(5 * kFrame);
  CUdeviceptr at = base;
  for (const std::size_t frames : parts) {
    const CUmemGenericAllocationHandle handle = create(frames * kFrame);
    OK(cuMemMap(at, frames * kFrame, 0, handle, 0));
    at += frames * kFrame;
  }
  OK(set_access(base, 5 * kFrame, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
  for (int i = 0; i < 5; ++i) {
    if (i != untouched) OK(cuMemsetD32(base + static_cast<CUdeviceptr>(i) * kFrame, 7, 1));
  }
  OK(add_one(base));
  return base;
}

TEST_CASE("host limits: memory whose access could not be changed is usable while the shortage lasts") {
  each_shortage([](Shortage shortage) {
    on_device({}, [&] {
      const CUdeviceptr base = five_frames({3, 1, 1}, 1);
      const std::string text = said([&] {
        const NoMappings none(shortage);
        EXPECT_RESULT(set_access(base, 4 * kFrame, CU_MEM_ACCESS_FLAGS_PROT_READ), CUDA_ERROR_OUT_OF_MEMORY);
        for (const int i : {0, 2, 3, 4}) OK(add_one(base + static_cast<CUdeviceptr>(i) * kFrame));
      });
      EXPECT(text == kRefused + "the access to device memory was not changed" + kRemedy);
      EXPECT(int_at(base) == 9);
      OK(add_one(base + kFrame));
      return 0;
    });
  });
}

TEST_CASE("host limits: memory whose access could not even be set back opens as it is touched") {
  on_device({}, [] {
    const CUdeviceptr base = five_frames({1, 3, 1}, 2);
    refuse_protections(0b110);  // the change of what follows the untouched frame, and the way back
    EXPECT_RESULT(set_access(base, 4 * kFrame, CU_MEM_ACCESS_FLAGS_PROT_READ), CUDA_ERROR_OUT_OF_MEMORY);
    for (const int i : {0, 1, 3, 4}) {
      const CUdeviceptr at = base + static_cast<CUdeviceptr>(i) * kFrame;
      OK(add_one(at));
      EXPECT(int_at(at) == (i == 0 ? 9 : 8));
    }
    return 0;
  });
}

TEST_CASE("host limits: what the system refuses to unmap stays mapped") {
  each_shortage([](Shortage shortage) {
    on_device({}, [&] {
      const CUdeviceptr middle = middle_of_three();
      const std::string text = said([&] {
        const NoMappings none(shortage);
        EXPECT_RESULT(cuMemUnmap(middle, kFrame), CUDA_ERROR_OUT_OF_MEMORY);
      });
      EXPECT(text == kRefused + "device memory was not unmapped" + kRemedy);
      EXPECT(int_at(middle) == 7);
      OK(cuMemUnmap(middle, kFrame));
      OK(cuMemUnmap(middle - kFrame, kFrame));
      OK(cuMemUnmap(middle + kFrame, kFrame));
      OK(cuMemAddressFree(middle - kFrame, 3 * kFrame));
      return 0;
    });
  });
}

// POSIX, mmap: of a call that fails "some of the mappings in the address range […] may have been unmapped".
TEST_CASE("host limits: addresses that a refused mapping gave up are taken again") {
  on_device({}, [] {
    const CUdeviceptr base = reserve(3 * kFrame);
    const CUmemGenericAllocationHandle handle = create(kFrame);
    set_mmap(Mmap::kLoses);
    EXPECT_RESULT(cuMemMap(base + kFrame, kFrame, 0, handle, 0), CUDA_ERROR_OUT_OF_MEMORY);
    set_mmap(Mmap::kWorks);
    void* there = reinterpret_cast<void*>(base + kFrame);
    EXPECT(mmap(there, kPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) ==
           MAP_FAILED);
    OK(cuMemMap(base + kFrame, kFrame, 0, handle, 0));
    OK(set_access(base + kFrame, kFrame, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    OK(add_one(base + kFrame));
    // Unmapping has then happened all the same.
    set_mmap(Mmap::kLoses);
    OK(cuMemUnmap(base + kFrame, kFrame));
    set_mmap(Mmap::kWorks);
    EXPECT(mmap(there, kPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) ==
           MAP_FAILED);
    OK(cuMemMap(base + kFrame, kFrame, 0, handle, 0));
    return 0;
  });
}

TEST_CASE("host limits: addresses that went to somebody else are not used, and not freed") {
  on_device({}, [] {
    const CUdeviceptr base = reserve(3 * kFrame);
    const CUdeviceptr middle = base + kFrame;
    const CUmemGenericAllocationHandle handle = create(kFrame);
    set_mmap(Mmap::kLosesAlways);
    EXPECT_RESULT(cuMemMap(middle, kFrame, 0, handle, 0), CUDA_ERROR_OUT_OF_MEMORY);
    set_mmap(Mmap::kWorks);
    auto* other = static_cast<char*>(mmap(reinterpret_cast<void*>(middle), kPage, PROT_READ | PROT_WRITE,
                                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0));
    EXPECT(other == reinterpret_cast<char*>(middle));
    *other = 42;
    EXPECT_RESULT(cuMemMap(middle, kFrame, 0, handle, 0), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemMap(base, kFrame, 0, handle, 0));
    OK(cuMemUnmap(base, kFrame));
    OK(cuMemAddressFree(base, 3 * kFrame));
    EXPECT(*other == 42);
    EXPECT(reserve(3 * kFrame) != base);
    EXPECT(*other == 42);
    return 0;
  });
}

TEST_CASE("host limits: addresses that nobody took are used again when the system lets it") {
  on_device({}, [] {
    const CUdeviceptr base = reserve(kFrame);
    const CUmemGenericAllocationHandle handle = create(kFrame);
    set_mmap(Mmap::kLosesAlways);
    EXPECT_RESULT(cuMemMap(base, kFrame, 0, handle, 0), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_RESULT(cuMemMap(base, kFrame, 0, handle, 0), CUDA_ERROR_OUT_OF_MEMORY);
    set_mmap(Mmap::kWorks);
    OK(cuMemMap(base, kFrame, 0, handle, 0));
    OK(set_access(base, kFrame, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    OK(add_one(base));
    return 0;
  });
}

TEST_CASE("host limits: a freed reservation leaves nothing behind for the next one at its addresses") {
  on_device({}, [] {
    const CUdeviceptr base = reserve(3 * kFrame);
    const CUdeviceptr middle = base + kFrame;
    const CUmemGenericAllocationHandle handle = create(kFrame);
    set_mmap(Mmap::kLosesAlways);
    EXPECT_RESULT(cuMemMap(middle, kFrame, 0, handle, 0), CUDA_ERROR_OUT_OF_MEMORY);
    set_mmap(Mmap::kWorks);
    OK(cuMemAddressFree(base, 3 * kFrame));
    CUdeviceptr again = 0;
    OK(cuMemAddressReserve(&again, 3 * kFrame, 0, base, 0));
    EXPECT(again == base);
    OK(cuMemMap(middle, kFrame, 0, handle, 0));
    OK(set_access(middle, kFrame, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    OK(add_one(middle));
    OK(cuMemUnmap(middle, kFrame));
    OK(cuMemAddressFree(base, 3 * kFrame));
    EXPECT(mmap(reinterpret_cast<void*>(middle), kFrame, PROT_NONE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != MAP_FAILED);
    return 0;
  });
}

TEST_CASE("host limits: a program with very many mappings keeps room for some of its own") {
  if (too_many_to_take()) return;
  on_device({}, [] {
    // So many that each could have a mapping of its own.
    constexpr std::uint64_t kMany = 15'000;
    const CUdeviceptr base = reserve((kMany + 1) * kFrame);
    const CUmemGenericAllocationHandle handle = create(kFrame);
    for (std::uint64_t i = 0; i < kMany; ++i) OK(cuMemMap(base + i * kFrame, kFrame, 0, handle, 0));
    const CUdeviceptr last = base + kMany * kFrame;
    const std::string text = said([&] {
      const NoMappings few(Shortage::kReal, most_mappings() / 24);
      EXPECT_RESULT(cuMemMap(last, kFrame, 0, handle, 0), CUDA_ERROR_OUT_OF_MEMORY);
    });
    EXPECT(contains(text, "nearly all that it may"));
    EXPECT(text.ends_with(kRemedy));
    OK(cuMemMap(last, kFrame, 0, handle, 0));
    return 0;
  });
}
