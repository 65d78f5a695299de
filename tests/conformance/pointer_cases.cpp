// What an address is.

#include <array>

#include "tests/conformance/device.h"

#define POINTER "CUDA Driver API, Unified Addressing: "

namespace conformance {
namespace {

template <class T>
T told(CUpointer_attribute which, CUdeviceptr address) {
  T value{};
  const CUresult result = CU(cuPointerGetAttribute)(&value, which, address);
  if (result != CUDA_SUCCESS) {
    fail(__FILE__, __LINE__,
         "attribute " + std::to_string(which) + " gives " + std::to_string(result) + ", not success");
  }
  return value;
}

CUdeviceptr address_of(const void* pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}

/// Expects that an address of a reservation without memory is not called mapped. The documentation names the
/// value 0; drivers have been seen that refuse the question.
void expect_unmapped(CUdeviceptr address) {
  int mapped = 0;
  REFUSES(REMARK(CU(cuPointerGetAttribute)(&mapped, CU_POINTER_ATTRIBUTE_MAPPED, address)), CUDA_SUCCESS,
          CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(mapped, 0);
  CUdeviceptr start = 0;
  REMARK(CU(cuPointerGetAttribute)(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address));
}

}  // namespace

CASE("pointer.device_memory_says_so", POINTER "cuPointerGetAttribute") {
  const CUcontext context = use_device();
  const CUdeviceptr memory = allocate(kMiB);
  for (const CUdeviceptr address : {memory, memory + 12345}) {
    EXPECT_EQ(told<unsigned>(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address), unsigned{CU_MEMORYTYPE_DEVICE});
    EXPECT(told<CUcontext>(CU_POINTER_ATTRIBUTE_CONTEXT, address) == context);
    EXPECT_EQ(told<int>(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address), 0);
    EXPECT_EQ(told<CUdeviceptr>(CU_POINTER_ATTRIBUTE_DEVICE_POINTER, address), address);
    EXPECT_EQ(told<int>(CU_POINTER_ATTRIBUTE_IS_MANAGED, address), 0);
    EXPECT_EQ(told<int>(CU_POINTER_ATTRIBUTE_MAPPED, address), 1);
    EXPECT_EQ(told<CUdeviceptr>(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address), memory);
    EXPECT_EQ(told<std::size_t>(CU_POINTER_ATTRIBUTE_RANGE_SIZE, address), kMiB);
  }
}

CASE("pointer.device_memory_has_no_host_pointer", POINTER "cuPointerGetAttribute") {
  use_device();
  void* host = nullptr;
  REFUSES(CU(cuPointerGetAttribute)(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, allocate(kMiB)),
          CUDA_ERROR_INVALID_VALUE);
}

CASE("pointer.host_memory_says_so", POINTER "cuPointerGetAttribute") {
  use_device();
  unsigned* host = pinned_words(1024);
  const CUdeviceptr inside = address_of(host + 100);
  EXPECT_EQ(told<unsigned>(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, inside), unsigned{CU_MEMORYTYPE_HOST});
  EXPECT(told<void*>(CU_POINTER_ATTRIBUTE_HOST_POINTER, inside) == host + 100);
  EXPECT_EQ(told<CUdeviceptr>(CU_POINTER_ATTRIBUTE_DEVICE_POINTER, inside), inside);
  EXPECT_EQ(told<int>(CU_POINTER_ATTRIBUTE_IS_MANAGED, inside), 0);
}

CASE("pointer.other_addresses_are_refused", POINTER "cuPointerGetAttribute") {
  use_device();
  unsigned local = 0;
  unsigned type = 0;
  REFUSES(CU(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address_of(&local)),
          CUDA_ERROR_INVALID_VALUE);
  int managed = 0;
  REFUSES(CU(cuPointerGetAttribute)(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address_of(&local)),
          CUDA_ERROR_INVALID_VALUE);
}

CASE("pointer.freed_memory_is_refused", POINTER "cuPointerGetAttribute") {
  use_device();
  const CUdeviceptr memory = allocate(64 * kMiB);
  OK(CU(cuMemFree)(memory));
  unsigned type = 0;
  REFUSES(CU(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, memory + 32 * kMiB),
          CUDA_ERROR_INVALID_VALUE);
}

CASE("pointer.several_at_once_never_fail_for_the_address", POINTER "cuPointerGetAttributes") {
  use_device();
  unsigned local = 0;
  unsigned type = 99;
  CUdeviceptr device = 99;
  static unsigned kUntold = 0;
  void* host = &kUntold;
  std::array<CUpointer_attribute, 3> which{CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                           CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
                                           CU_POINTER_ATTRIBUTE_HOST_POINTER};
  std::array<void*, 3> data{&type, &device, &host};
  OK(CU(cuPointerGetAttributes)(3, which.data(), data.data(), address_of(&local)));
  const auto say = [&](const char* name, bool none, bool itself, bool kept) {
    remark(std::string(name) + (none     ? " is none"
                                : itself ? " is the address"
                                : kept   ? " is kept"
                                         : " is else"));
  };
  const int pageable = attribute(CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS);
  remark("pageable memory access is " + std::to_string(pageable) + "; type is " + std::to_string(type));
  say("device pointer", device == 0, device == address_of(&local), device == 99);
  say("host pointer", host == nullptr, host == &local, host == &kUntold);
  // Where kernels can use any memory of the host, its address is an address of the device.
  const bool usable = pageable != 0 && device == address_of(&local) && host == &local;
  EXPECT(usable || (type == 0 && device == 0 && host == nullptr));
  const CUdeviceptr memory = allocate(kMiB);
  host = &local;
  OK(CU(cuPointerGetAttributes)(3, which.data(), data.data(), memory));
  EXPECT(type == CU_MEMORYTYPE_DEVICE && device == memory && host == nullptr);
}

CASE("pointer.no_id_is_used_twice", POINTER "cuPointerGetAttribute, CU_POINTER_ATTRIBUTE_BUFFER_ID") {
  use_device();
  std::vector<unsigned long long> ids;
  for (int i = 0; i < 6; ++i) {
    const CUdeviceptr memory = allocate(kMiB);
    const auto id = told<unsigned long long>(CU_POINTER_ATTRIBUTE_BUFFER_ID, memory);
    EXPECT_EQ(told<unsigned long long>(CU_POINTER_ATTRIBUTE_BUFFER_ID, memory + 1000), id);
    for (const unsigned long long earlier : ids) EXPECT(earlier != id);
    ids.push_back(id);
    if (i % 2 == 0) OK(CU(cuMemFree)(memory));
  }
}

CASE("pointer.a_reservation_is_told_whole",
     POINTER "cuPointerGetAttribute, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR") {
  use_device();
  const std::size_t unit = granularity();
  const CUdeviceptr base = reserve(4 * unit);
  const CUdeviceptr inside = base + 2 * unit;
  map_memory(inside, unit, create_memory(unit));
  EXPECT_EQ(told<CUdeviceptr>(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, inside + 10), base);
  EXPECT_EQ(told<std::size_t>(CU_POINTER_ATTRIBUTE_RANGE_SIZE, inside + 10), 4 * unit);
}

CASE("pointer.a_mapping_is_told_by_the_address_range",
     POINTER "cuPointerGetAttribute; cuMemGetAddressRange") {
  use_device();
  const std::size_t unit = granularity();
  const CUdeviceptr base = reserve(4 * unit);
  map_memory(base + unit, 2 * unit, create_memory(2 * unit));
  CUdeviceptr start = 0;
  std::size_t bytes = 0;
  OK(CU(cuMemGetAddressRange)(&start, &bytes, base + 2 * unit));
  EXPECT_EQ(start, base + unit);
  EXPECT_EQ(bytes, 2 * unit);
}

CASE("pointer.only_mapped_addresses_are_mapped",
     POINTER "cuPointerGetAttribute, CU_POINTER_ATTRIBUTE_MAPPED") {
  use_device();
  const std::size_t unit = granularity();
  const CUdeviceptr base = reserve(2 * unit);
  map_memory(base, unit, create_memory(unit));
  EXPECT_EQ(told<int>(CU_POINTER_ATTRIBUTE_MAPPED, base + 5), 1);
  expect_unmapped(base + unit + 5);
  OK(CU(cuMemUnmap)(base, unit));
  expect_unmapped(base + 5);
}

CASE("pointer.mapped_memory_is_device_memory", POINTER "cuPointerGetAttribute") {
  use_device();
  const std::size_t unit = granularity();
  const CUdeviceptr base = reserve(unit);
  map_memory(base, unit, create_memory(unit));
  EXPECT_EQ(told<unsigned>(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, base), unsigned{CU_MEMORYTYPE_DEVICE});
  EXPECT_EQ(told<int>(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, base), 0);
}

CASE("pointer.ipc_is_for_plain_memory", POINTER "cuPointerGetAttribute, IS_LEGACY_CUDA_IPC_CAPABLE") {
  use_device();
  need(CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED, "IPC handles");
  const std::size_t unit = granularity();
  const CUdeviceptr base = reserve(unit);
  map_memory(base, unit, create_memory(unit));
  EXPECT_EQ(told<int>(CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, allocate(kMiB)), 1);
  EXPECT_EQ(told<int>(CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, base), 0);
}

CASE("pointer.handle_types_are_told", POINTER "cuPointerGetAttribute, ALLOWED_HANDLE_TYPES") {
  use_device();
  need(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, "export of memory as a descriptor");
  const std::size_t unit = granularity();
  const CUdeviceptr base = reserve(2 * unit);
  map_memory(base, unit, create_memory(unit, true));
  map_memory(base + unit, unit, create_memory(unit, false));
  constexpr unsigned long long kDescriptor = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  EXPECT_EQ(told<unsigned long long>(CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, base), kDescriptor);
  EXPECT_EQ(told<unsigned long long>(CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, base + unit), 0ull);
}

CASE("pointer.the_runtime_tells_kinds", "CUDA Runtime API, Unified Addressing: cudaPointerGetAttributes") {
  use_device();
  unsigned local = 0;
  cudaPointerAttributes a{};
  OK(RT(cudaPointerGetAttributes)(&a, &local));
  EXPECT_EQ(a.type, cudaMemoryTypeUnregistered);
  auto* memory = reinterpret_cast<char*>(allocate(kMiB)) + 77;
  OK(RT(cudaPointerGetAttributes)(&a, memory));
  EXPECT(a.type == cudaMemoryTypeDevice && a.device == 0 && a.devicePointer == memory &&
         a.hostPointer == nullptr);
  unsigned* host = pinned_words(64);
  OK(RT(cudaPointerGetAttributes)(&a, host + 3));
  EXPECT(a.type == cudaMemoryTypeHost && a.hostPointer == host + 3 && a.devicePointer == host + 3);
}

}  // namespace conformance
