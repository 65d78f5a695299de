// How long memory behind handles lives, and what touching an address without memory does.

#include "tests/conformance/device.h"

#define VMM "CUDA Driver API, Virtual Memory Management: "

namespace conformance {
namespace {

std::size_t prepare() {
  use_device();
  return granularity();
}

/// Expects that a kernel that writes there breaks the context for good.
void expect_fault(CUdeviceptr address) {
  fill(address, 64, 1);
  REFUSES(CU(cuCtxSynchronize)(), CUDA_ERROR_ILLEGAL_ADDRESS);
  REFUSES(CU(cuCtxSynchronize)(), CUDA_ERROR_ILLEGAL_ADDRESS);
}

}  // namespace

CASE("vmm.a_handle_may_be_released_while_it_is_mapped", VMM "cuMemRelease") {
  const std::size_t unit = prepare();
  const CUdeviceptr base = reserve(2 * unit);
  const auto handle = create_memory(unit);
  map_memory(base, unit, handle);
  map_memory(base + unit, unit, handle);
  OK(CU(cuMemRelease)(handle));
  fill(base, 64, 61);
  EXPECT_WORDS(base + unit, 64, 61);
  OK(CU(cuMemUnmap)(base, unit));
  EXPECT_WORDS(base + unit, 64, 61);
}

CASE("vmm.bytes_stay_while_a_handle_is_held", VMM "cuMemUnmap, cuMemRelease") {
  const std::size_t unit = prepare();
  const CUdeviceptr base = reserve(2 * unit);
  const auto handle = create_memory(unit);
  map_memory(base, unit, handle);
  fill(base, static_cast<unsigned>(unit / 4), 71);
  OK(CU(cuCtxSynchronize)());
  OK(CU(cuMemUnmap)(base, unit));
  map_memory(base + unit, unit, handle);
  EXPECT_WORDS(base + unit, unit / 4, 71);
}

CASE("vmm.retain_gives_the_handle_that_was_mapped", VMM "cuMemRetainAllocationHandle") {
  const std::size_t unit = prepare();
  const CUdeviceptr base = reserve(2 * unit);
  const auto one = create_memory(unit);
  const auto two = create_memory(unit);
  OK(CU(cuMemMap)(base, unit, 0, one, 0));
  OK(CU(cuMemMap)(base + unit, unit, 0, two, 0));
  CUmemGenericAllocationHandle got = 0;
  OK(CU(cuMemRetainAllocationHandle)(&got, reinterpret_cast<void*>(base + unit / 2)));
  EXPECT_EQ(got, one);
  OK(CU(cuMemRetainAllocationHandle)(&got, reinterpret_cast<void*>(base + unit)));
  EXPECT_EQ(got, two);
}

CASE("vmm.retain_counts", VMM "cuMemRetainAllocationHandle") {
  const std::size_t unit = prepare();
  const CUdeviceptr base = reserve(2 * unit);
  const auto handle = create_memory(unit);
  map_memory(base, unit, handle);
  fill(base, 64, 81);
  OK(CU(cuCtxSynchronize)());
  CUmemGenericAllocationHandle again = 0;
  OK(CU(cuMemRetainAllocationHandle)(&again, reinterpret_cast<void*>(base)));
  OK(CU(cuMemRelease)(handle));
  OK(CU(cuMemUnmap)(base, unit));
  map_memory(base + unit, unit, again);
  EXPECT_WORDS(base + unit, 64, 81);
  OK(CU(cuMemRelease)(again));
}

CASE("vmm.retain_works_after_the_last_release", VMM "cuMemRetainAllocationHandle") {
  const std::size_t unit = prepare();
  const CUdeviceptr base = reserve(2 * unit);
  const auto handle = create_memory(unit);
  map_memory(base, unit, handle);
  OK(CU(cuMemRelease)(handle));
  CUmemGenericAllocationHandle again = 0;
  OK(CU(cuMemRetainAllocationHandle)(&again, reinterpret_cast<void*>(base)));
  map_memory(base + unit, unit, again);
  fill(base, 64, 91);
  EXPECT_WORDS(base + unit, 64, 91);
}

CASE("vmm.retain_needs_a_mapping", VMM "cuMemRetainAllocationHandle") {
  const std::size_t unit = prepare();
  CUmemGenericAllocationHandle got = 0;
  FAILS(CU(cuMemRetainAllocationHandle)(&got, reinterpret_cast<void*>(reserve(unit))));
}

CASE("vmm.plain_memory_is_no_mapping", VMM "cuMemRetainAllocationHandle, cuMemUnmap, cuMemSetAccess") {
  const std::size_t unit = prepare();
  const CUdeviceptr memory = allocate(2 * unit);
  fill(memory, 64, 7);
  CUmemGenericAllocationHandle got = 0;
  FAILS(CU(cuMemRetainAllocationHandle)(&got, reinterpret_cast<void*>(memory)));
  FAILS(CU(cuMemUnmap)(memory, unit));
  FAILS(set_access(memory, unit, CU_MEM_ACCESS_FLAGS_PROT_READ));
  EXPECT_WORDS(memory, 64, 7);
  fill(memory, 64, 8);
  EXPECT_WORDS(memory, 64, 8);
}

CASE_ALONE("vmm.a_handle_takes_memory_and_gives_it_back", VMM "cuMemCreate, cuMemRelease") {
  const std::size_t unit = prepare();
  const std::size_t bytes = (64 * kMiB + unit - 1) / unit * unit;
  const std::size_t before = free_bytes();
  const auto handle = create_memory(bytes);
  EXPECT(free_bytes() + bytes <= before);
  OK(CU(cuMemRelease)(handle));
  EXPECT(free_bytes() + bytes / 2 > before);
}

CASE_ALONE("vmm.memory_lives_until_the_last_mapping_and_handle", VMM "cuMemRelease") {
  const std::size_t unit = prepare();
  const std::size_t bytes = (64 * kMiB + unit - 1) / unit * unit;
  const std::size_t before = free_bytes();
  const CUdeviceptr base = reserve(2 * bytes);
  const auto handle = create_memory(bytes);
  map_memory(base, bytes, handle);
  map_memory(base + bytes, bytes, handle);
  OK(CU(cuMemRelease)(handle));
  EXPECT(free_bytes() + bytes <= before);
  OK(CU(cuMemUnmap)(base, bytes));
  EXPECT(free_bytes() + bytes <= before);
  OK(CU(cuMemUnmap)(base + bytes, bytes));
  EXPECT(free_bytes() + bytes / 2 > before);
}

CASE_ALONE("vmm.a_second_mapping_takes_no_more_memory", VMM "cuMemMap") {
  const std::size_t unit = prepare();
  const std::size_t bytes = (64 * kMiB + unit - 1) / unit * unit;
  const CUdeviceptr base = reserve(2 * bytes);
  const auto handle = create_memory(bytes);
  map_memory(base, bytes, handle);
  const std::size_t once = free_bytes();
  map_memory(base + bytes, bytes, handle);
  EXPECT(free_bytes() + bytes / 2 > once);
}

CASE("vmm.a_kernel_on_a_bare_reservation_faults",
     VMM "cuMemAddressReserve; Programming Guide, Error Checking") {
  expect_fault(reserve(prepare()));
}

CASE("vmm.a_kernel_on_a_mapping_without_access_faults", VMM "cuMemMap, note on accessibility") {
  const std::size_t unit = prepare();
  const CUdeviceptr base = reserve(unit);
  OK(CU(cuMemMap)(base, unit, 0, create_memory(unit), 0));
  expect_fault(base);
}

CASE("vmm.a_kernel_after_unmap_faults", VMM "cuMemUnmap") {
  const std::size_t unit = prepare();
  const CUdeviceptr base = reserve(unit);
  map_memory(base, unit, create_memory(unit));
  fill(base, 64, 1);
  OK(CU(cuCtxSynchronize)());
  OK(CU(cuMemUnmap)(base, unit));
  expect_fault(base);
}

CASE("vmm.access_can_be_taken_away", VMM "cuMemSetAccess") {
  const std::size_t unit = prepare();
  const CUdeviceptr base = reserve(unit);
  map_memory(base, unit, create_memory(unit));
  OK(set_access(base, unit, CU_MEM_ACCESS_FLAGS_PROT_NONE));
  unsigned long long access = 99;
  const CUmemLocation here{CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  OK(CU(cuMemGetAccess)(&access, &here, base));
  EXPECT_EQ(access, 0ull);
  expect_fault(base);
}

}  // namespace conformance
