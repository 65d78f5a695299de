// Plain device memory, page-locked host memory, managed memory.

#include <cstdlib>
#include <cstring>

#include "tests/conformance/device.h"

#define MEMORY "CUDA Driver API, Memory Management: "

namespace conformance {
namespace {

constexpr std::size_t kPage = 4096;

/// Pageable memory that begins and ends with a page.
unsigned* pages(std::size_t bytes) {
  void* memory = std::aligned_alloc(kPage, bytes);
  std::memset(memory, 0, bytes);
  return static_cast<unsigned*>(memory);
}

CUdeviceptr device_pointer(void* host) {
  CUdeviceptr device = 0;
  OK(CU(cuMemHostGetDevicePointer)(&device, host, 0));
  return device;
}

}  // namespace

CASE("memory.it_is_aligned_for_every_type", MEMORY "cuMemAlloc; Programming Guide, Device Memory Accesses") {
  use_device();
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{3}, std::size_t{513}, 3 * kMiB + 1}) {
    EXPECT_EQ(allocate(bytes) % 256, 0u);
  }
}

CASE("memory.zero_bytes_are_refused", MEMORY "cuMemAlloc") {
  use_device();
  CUdeviceptr memory = 0;
  REFUSES(CU(cuMemAlloc)(&memory, 0), CUDA_ERROR_INVALID_VALUE);
}

CASE("memory.too_much_is_refused_and_nothing_is_lost", MEMORY "cuMemAlloc") {
  use_device();
  CUdeviceptr memory = 0;
  REFUSES(CU(cuMemAlloc)(&memory, std::size_t{1} << 50), CUDA_ERROR_OUT_OF_MEMORY);
  fill(allocate(kMiB), 64, 1);
  OK(CU(cuCtxSynchronize)());
}

CASE("memory.allocations_do_not_overlap", MEMORY "cuMemAlloc") {
  use_device();
  std::vector<CUdeviceptr> all;
  for (unsigned i = 0; i < 40; ++i) {
    all.push_back(allocate(4 * (100 + i)));
    fill(all.back(), 100 + i, 1000 * i);
  }
  for (unsigned i = 0; i < 40; ++i) EXPECT_WORDS(all[i], 100 + i, 1000 * i);
}

CASE("memory.every_byte_of_it_can_be_used", MEMORY "cuMemAlloc") {
  use_device();
  const std::size_t words = (5 * kMiB + 4) / 4;
  const CUdeviceptr memory = allocate(words * 4);
  fill(memory, static_cast<unsigned>(words), 7);
  EXPECT_WORDS(memory, words, 7);
}

CASE("memory.it_is_freed_once_and_by_its_base", MEMORY "cuMemFree") {
  use_device();
  const CUdeviceptr memory = allocate(kMiB);
  REFUSES(CU(cuMemFree)(memory + 256), CUDA_ERROR_INVALID_VALUE);
  OK(CU(cuMemFree)(memory));
  REFUSES(CU(cuMemFree)(memory), CUDA_ERROR_INVALID_VALUE);
}

CASE("memory.freeing_null_does_nothing", "CUDA Runtime API, Memory Management: cudaFree") {
  OK(RT(cudaFree)(nullptr));
  OK(RT(cudaFreeHost)(nullptr));
}

CASE("memory.the_runtime_frees_once", "CUDA Runtime API, Memory Management: cudaFree") {
  void* memory = nullptr;
  OK(RT(cudaMalloc)(&memory, kMiB));
  OK(RT(cudaFree)(memory));
  REFUSES(RT(cudaFree)(memory), cudaErrorInvalidValue);
  REFUSES(RT(cudaMalloc)(&memory, std::size_t{1} << 50), cudaErrorMemoryAllocation);
}

CASE_ALONE("memory.the_free_amount_follows_allocations", MEMORY "cuMemGetInfo") {
  use_device();
  const std::size_t before = free_bytes();
  const CUdeviceptr memory = allocate(128 * kMiB);
  EXPECT(free_bytes() + 128 * kMiB <= before);
  OK(CU(cuMemFree)(memory));
  EXPECT(free_bytes() + 64 * kMiB > before);
}

CASE_ALONE("memory.another_process_takes_from_the_same_amount", MEMORY "cuMemGetInfo") {
  Partner partner([](const Partner::Channel& channel) {
    use_device();
    channel.send(1);
    channel.receive<int>();
    allocate(128 * kMiB);
    channel.send(1);
    channel.receive<int>();
  });
  use_device();
  partner.channel().receive<int>();
  const std::size_t before = free_bytes();
  partner.channel().send(1);
  partner.channel().receive<int>();
  EXPECT(free_bytes() + 128 * kMiB <= before);
  partner.kill();
  EXPECT(free_bytes() + 64 * kMiB > before);
}

CASE("memory.a_range_is_told_from_any_address_in_it", MEMORY "cuMemGetAddressRange") {
  use_device();
  const CUdeviceptr memory = allocate(3 * kMiB);
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  OK(CU(cuMemGetAddressRange)(&base, &bytes, memory + 2 * kMiB + 5));
  EXPECT_EQ(base, memory);
  EXPECT_EQ(bytes, 3 * kMiB);
  OK(CU(cuMemGetAddressRange)(nullptr, &bytes, memory));
  OK(CU(cuMemGetAddressRange)(&base, nullptr, memory));
}

CASE("memory.no_range_is_told_of_other_addresses", MEMORY "cuMemGetAddressRange") {
  use_device();
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  const CUdeviceptr memory = allocate(kMiB);
  OK(CU(cuMemFree)(memory));
  FAILS(CU(cuMemGetAddressRange)(&base, &bytes, 4096));
}

CASE("memory.a_pitch_is_aligned_and_wide_enough", MEMORY "cuMemAllocPitch") {
  use_device();
  for (const unsigned element : {4u, 8u, 16u}) {
    CUdeviceptr memory = 0;
    std::size_t pitch = 0;
    OK(CU(cuMemAllocPitch)(&memory, &pitch, 1000, 7, element));
    EXPECT(pitch >= 1000 && pitch % element == 0);
    EXPECT(pitch <= static_cast<std::size_t>(attribute(CU_DEVICE_ATTRIBUTE_MAX_PITCH)));
    fill(memory + 6 * pitch, 250, 3);
    EXPECT_WORDS(memory + 6 * pitch, 250, 3);
    OK(CU(cuMemFree)(memory));
  }
  CUdeviceptr memory = 0;
  std::size_t pitch = 0;
  FAILS(CU(cuMemAllocPitch)(&memory, &pitch, 1000, 7, 3));
}

CASE("memory.the_runtimes_pitch_is_the_drivers", "CUDA Runtime API, Memory Management: cudaMallocPitch") {
  void* memory = nullptr;
  std::size_t pitch = 0;
  OK(RT(cudaMallocPitch)(&memory, &pitch, 1000, 7));
  EXPECT(pitch >= 1000);
  OK(RT(cudaMemset2D)(memory, pitch, 1, 1000, 7));
  OK(RT(cudaFree)(memory));
}

CASE("host.the_device_uses_it_by_the_same_address", "CUDA Driver API, Unified Addressing; cuMemHostAlloc") {
  use_device();
  unsigned* host = pinned_words(1024);
  EXPECT_EQ(device_pointer(host), reinterpret_cast<CUdeviceptr>(host));
  fill(reinterpret_cast<CUdeviceptr>(host), 1024, 5);
  OK(CU(cuCtxSynchronize)());
  for (unsigned i = 0; i < 1024; ++i) EXPECT_EQ(host[i], 5 + i);
  OK(CU(cuMemFreeHost)(host));
}

CASE("host.flags_are_told_of_any_address_in_it", MEMORY "cuMemHostGetFlags") {
  use_device();
  void* host = nullptr;
  unsigned flags = 0;
  OK(CU(cuMemHostAlloc)(&host, kMiB, CU_MEMHOSTALLOC_PORTABLE));
  OK(CU(cuMemHostGetFlags)(&flags, static_cast<char*>(host) + 1000));
  EXPECT((flags & CU_MEMHOSTALLOC_PORTABLE) != 0);
  OK(CU(cuMemHostAlloc)(&host, kMiB, CU_MEMHOSTALLOC_WRITECOMBINED));
  OK(CU(cuMemHostGetFlags)(&flags, host));
  EXPECT((flags & CU_MEMHOSTALLOC_WRITECOMBINED) != 0 && (flags & CU_MEMHOSTALLOC_PORTABLE) == 0);
}

CASE("host.other_memory_has_no_flags", MEMORY "cuMemHostGetFlags") {
  use_device();
  unsigned flags = 0;
  FAILS(CU(cuMemHostGetFlags)(&flags, pages(kPage)));
}

CASE("host.unknown_flags_are_refused", MEMORY "cuMemHostAlloc") {
  use_device();
  void* host = nullptr;
  REFUSES(CU(cuMemHostAlloc)(&host, kPage, 1u << 20), CUDA_ERROR_INVALID_VALUE);
  REFUSES(RT(cudaHostAlloc)(&host, kPage, 1u << 20), cudaErrorInvalidValue);
}

CASE("host.other_memory_is_not_freed", MEMORY "cuMemFreeHost") {
  use_device();
  unsigned* other = pages(kPage);
  FAILS(CU(cuMemFreeHost)(other));
  unsigned* host = pinned_words(1024);
  OK(CU(cuMemFreeHost)(host));
  FAILS(CU(cuMemFreeHost)(host));
}

CASE("host.allocated_by_the_runtime_it_is_the_same", "CUDA Runtime API, Memory Management: cudaMallocHost") {
  use_device();
  void* host = nullptr;
  unsigned flags = 99;
  OK(RT(cudaMallocHost)(&host, kMiB));
  OK(RT(cudaHostGetFlags)(&flags, host));
  fill(reinterpret_cast<CUdeviceptr>(host), 64, 2);
  OK(CU(cuCtxSynchronize)());
  EXPECT_EQ(static_cast<unsigned*>(host)[63], 65u);
  OK(RT(cudaFreeHost)(host));
}

CASE("host.registered_memory_is_used_by_the_device", MEMORY "cuMemHostRegister") {
  use_device();
  need(CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, "registration of host memory");
  unsigned* host = pages(16 * kPage);
  OK(CU(cuMemHostRegister)(host, 16 * kPage, CU_MEMHOSTREGISTER_DEVICEMAP));
  fill(device_pointer(host), 1024, 9);
  OK(CU(cuCtxSynchronize)());
  EXPECT_EQ(host[1023], 9u + 1023);
  OK(CU(cuMemHostUnregister)(host));
  EXPECT_EQ(host[1023], 9u + 1023);
}

CASE("host.memory_is_registered_once", MEMORY "cuMemHostRegister") {
  use_device();
  need(CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, "registration of host memory");
  unsigned* host = pages(16 * kPage);
  OK(CU(cuMemHostRegister)(host, 16 * kPage, 0));
  REFUSES(CU(cuMemHostRegister)(host, 16 * kPage, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  REFUSES(CU(cuMemHostRegister)(host + 2048, kPage, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  OK(CU(cuMemHostUnregister)(host));
  OK(CU(cuMemHostRegister)(host, 16 * kPage, 0));
}

CASE("host.only_registered_memory_is_unregistered", MEMORY "cuMemHostUnregister") {
  use_device();
  need(CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, "registration of host memory");
  unsigned* host = pages(16 * kPage);
  REFUSES(CU(cuMemHostUnregister)(host), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  OK(CU(cuMemHostRegister)(host, 16 * kPage, 0));
  FAILS(CU(cuMemHostUnregister)(host + 1024));
  OK(CU(cuMemHostUnregister)(host));
  REFUSES(CU(cuMemHostUnregister)(host), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}

CASE("host.no_bytes_are_registered", MEMORY "cuMemHostRegister") {
  use_device();
  need(CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, "registration of host memory");
  REFUSES(CU(cuMemHostRegister)(pages(kPage), 0, 0), CUDA_ERROR_INVALID_VALUE);
}

CASE("managed.both_sides_use_one_address", MEMORY "cuMemAllocManaged") {
  use_device();
  need(CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, "managed memory");
  CUdeviceptr memory = 0;
  OK(CU(cuMemAllocManaged)(&memory, kMiB, CU_MEM_ATTACH_GLOBAL));
  auto* words = reinterpret_cast<unsigned*>(memory);
  for (unsigned i = 0; i < 1024; ++i) words[i] = i;
  affine(memory, 1024, 2, 1);
  OK(CU(cuCtxSynchronize)());
  for (unsigned i = 0; i < 1024; ++i) EXPECT_EQ(words[i], 2 * i + 1);
  OK(CU(cuMemFree)(memory));
}

CASE("managed.its_kind_is_told", "CUDA Driver API, Unified Addressing: cuPointerGetAttribute") {
  use_device();
  need(CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, "managed memory");
  CUdeviceptr memory = 0;
  int managed = -1;
  OK(CU(cuMemAllocManaged)(&memory, kMiB, CU_MEM_ATTACH_GLOBAL));
  OK(CU(cuPointerGetAttribute)(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, memory));
  EXPECT_EQ(managed, 1);
  cudaPointerAttributes told{};
  OK(RT(cudaPointerGetAttributes)(&told, reinterpret_cast<void*>(memory)));
  EXPECT_EQ(told.type, cudaMemoryTypeManaged);
}

CASE("managed.flags_and_sizes_are_checked", MEMORY "cuMemAllocManaged") {
  use_device();
  need(CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, "managed memory");
  CUdeviceptr memory = 0;
  REFUSES(CU(cuMemAllocManaged)(&memory, 0, CU_MEM_ATTACH_GLOBAL), CUDA_ERROR_INVALID_VALUE);
  REFUSES(CU(cuMemAllocManaged)(&memory, kMiB, 0), CUDA_ERROR_INVALID_VALUE);
}

CASE("managed.copies_and_memsets_take_it", MEMORY "cuMemAllocManaged, cuMemcpy") {
  use_device();
  need(CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, "managed memory");
  CUdeviceptr memory = 0;
  OK(CU(cuMemAllocManaged)(&memory, kMiB, CU_MEM_ATTACH_GLOBAL));
  const CUdeviceptr plain = allocate(kMiB);
  OK(CU(cuMemsetD32)(memory, 6, 1024));
  OK(CU(cuMemcpy)(plain, memory, 4096));
  OK(CU(cuCtxSynchronize)());
  EXPECT_EQ(read_word(plain + 4092), 6u);
  EXPECT_EQ(*reinterpret_cast<unsigned*>(memory), 6u);
}

}  // namespace conformance
