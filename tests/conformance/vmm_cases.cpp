// Virtual memory management: handles, reservations, mappings and access.

#include "tests/conformance/device.h"

#define VMM "CUDA Driver API, Virtual Memory Management: "

namespace conformance {
namespace {

constexpr auto kReadWrite = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
constexpr CUmemLocation kHere{CU_MEM_LOCATION_TYPE_DEVICE, {0}};

std::size_t prepare() {
  use_device();
  return granularity();
}

}  // namespace

CASE("vmm.granularity_is_a_unit_for_everything", VMM "cuMemGetAllocationGranularity") {
  const std::size_t least = prepare();
  const CUmemAllocationProp prop = device_memory();
  std::size_t recommended = 0;
  OK(CU(cuMemGetAllocationGranularity)(&recommended, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
  EXPECT(least >= 4096 && (least & (least - 1)) == 0);
  EXPECT(recommended >= least && recommended % least == 0);
}

CASE("vmm.a_handle_is_a_multiple_of_the_granularity", VMM "cuMemCreate") {
  const std::size_t unit = prepare();
  const CUmemAllocationProp prop = device_memory();
  CUmemGenericAllocationHandle handle = 0;
  REFUSES(CU(cuMemCreate)(&handle, unit / 2, &prop, 0), CUDA_ERROR_INVALID_VALUE);
  REFUSES(CU(cuMemCreate)(&handle, unit + unit / 2, &prop, 0), CUDA_ERROR_INVALID_VALUE);
  REFUSES(CU(cuMemCreate)(&handle, 0, &prop, 0), CUDA_ERROR_INVALID_VALUE);
  OK(CU(cuMemCreate)(&handle, 3 * unit, &prop, 0));
  OK(CU(cuMemRelease)(handle));
}

CASE("vmm.flags_for_the_future_must_be_zero", VMM "cuMemCreate, cuMemMap, cuMemAddressReserve") {
  const std::size_t unit = prepare();
  const CUmemAllocationProp prop = device_memory();
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr base = 0;
  REFUSES(CU(cuMemCreate)(&handle, unit, &prop, 1), CUDA_ERROR_INVALID_VALUE);
  REFUSES(CU(cuMemAddressReserve)(&base, unit, 0, 0, 1), CUDA_ERROR_INVALID_VALUE);
  handle = create_memory(unit);
  base = reserve(unit);
  REFUSES(CU(cuMemMap)(base, unit, 0, handle, 1), CUDA_ERROR_INVALID_VALUE);
  OK(CU(cuMemMap)(base, unit, 0, handle, 0));
}

CASE("vmm.a_handle_on_no_device_is_refused", VMM "cuMemCreate") {
  const std::size_t unit = prepare();
  CUmemAllocationProp prop = device_memory();
  prop.location.id = 1000;
  CUmemGenericAllocationHandle handle = 0;
  REFUSES(CU(cuMemCreate)(&handle, unit, &prop, 0), CUDA_ERROR_INVALID_DEVICE);
  prop = device_memory();
  prop.type = CU_MEM_ALLOCATION_TYPE_INVALID;
  REFUSES(CU(cuMemCreate)(&handle, unit, &prop, 0), CUDA_ERROR_INVALID_VALUE);
}

CASE("vmm.a_handle_tells_its_properties", VMM "cuMemGetAllocationPropertiesFromHandle") {
  const std::size_t unit = prepare();
  for (const bool exportable : {false, true}) {
    if (exportable) {
      need(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
           "export of memory as a descriptor");
    }
    CUmemAllocationProp prop{};
    OK(CU(cuMemGetAllocationPropertiesFromHandle)(&prop, create_memory(unit, exportable)));
    EXPECT(prop.type == CU_MEM_ALLOCATION_TYPE_PINNED);
    EXPECT(prop.location.type == CU_MEM_LOCATION_TYPE_DEVICE && prop.location.id == 0);
    EXPECT((prop.requestedHandleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) == exportable);
  }
}

CASE("vmm.a_reservation_is_aligned_as_asked", VMM "cuMemAddressReserve") {
  const std::size_t unit = prepare();
  for (const std::size_t alignment : {unit, 8 * unit, std::size_t{1} << 30}) {
    CUdeviceptr base = 0;
    OK(CU(cuMemAddressReserve)(&base, 2 * unit, alignment, 0, 0));
    EXPECT_EQ(base % alignment, 0u);
  }
  CUdeviceptr base = 0;
  REFUSES(CU(cuMemAddressReserve)(&base, 2 * unit, 3 * unit, 0, 0), CUDA_ERROR_INVALID_VALUE);
}

CASE("vmm.a_reservation_has_whole_pages", VMM "cuMemAddressReserve") {
  const std::size_t unit = prepare();
  CUdeviceptr base = 0;
  REFUSES(CU(cuMemAddressReserve)(&base, unit + 1, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
  REFUSES(CU(cuMemAddressReserve)(&base, 0, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
}

CASE("vmm.a_hint_is_only_a_hint", VMM "cuMemAddressReserve") {
  const std::size_t unit = prepare();
  const CUdeviceptr taken = reserve(4 * unit);
  CUdeviceptr base = 0;
  OK(CU(cuMemAddressReserve)(&base, 4 * unit, 0, taken, 0));
  EXPECT(base + 4 * unit <= taken || base >= taken + 4 * unit);
}

CASE("vmm.reservations_do_not_overlap", VMM "cuMemAddressReserve") {
  const std::size_t unit = prepare();
  std::vector<CUdeviceptr> bases;
  for (int i = 0; i < 32; ++i) bases.push_back(reserve(3 * unit));
  for (const CUdeviceptr a : bases) {
    for (const CUdeviceptr b : bases) EXPECT(a == b || a + 3 * unit <= b || b + 3 * unit <= a);
  }
}

CASE("vmm.a_reservation_is_freed_whole", VMM "cuMemAddressFree") {
  const std::size_t unit = prepare();
  const CUdeviceptr base = reserve(4 * unit);
  REFUSES(CU(cuMemAddressFree)(base, 2 * unit), CUDA_ERROR_INVALID_VALUE);
  REFUSES(CU(cuMemAddressFree)(base + 2 * unit, 2 * unit), CUDA_ERROR_INVALID_VALUE);
  REFUSES(CU(cuMemAddressFree)(base, 8 * unit), CUDA_ERROR_INVALID_VALUE);
  OK(CU(cuMemAddressFree)(base, 4 * unit));
  REFUSES(CU(cuMemAddressFree)(base, 4 * unit), CUDA_ERROR_INVALID_VALUE);
}

CASE("vmm.nothing_is_mapped_in_a_freed_reservation", VMM "cuMemMap") {
  const std::size_t unit = prepare();
  const CUdeviceptr base = reserve(unit);
  const auto handle = create_memory(unit);
  OK(CU(cuMemAddressFree)(base, unit));
  REFUSES(CU(cuMemMap)(base, unit, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
}

CASE("vmm.offset_must_be_zero", VMM "cuMemMap") {
  const std::size_t unit = prepare();
  const CUdeviceptr base = reserve(4 * unit);
  const auto handle = create_memory(4 * unit);
  for (const std::size_t bytes : {unit, 3 * unit, 4 * unit}) {
    REFUSES(REMARK(CU(cuMemMap)(base, bytes, unit, handle, 0)), CUDA_ERROR_NOT_SUPPORTED,
            CUDA_ERROR_INVALID_VALUE);
  }

  OK(CU(cuMemMap)(base, 4 * unit, 0, handle, 0));
}

CASE("vmm.a_mapping_is_no_larger_than_its_handle", VMM "cuMemMap") {
  const std::size_t unit = prepare();
  const CUdeviceptr base = reserve(4 * unit);
  REFUSES(CU(cuMemMap)(base, 2 * unit, 0, create_memory(unit), 0), CUDA_ERROR_INVALID_VALUE);
}

CASE("vmm.a_mapping_is_aligned_to_the_granularity", VMM "cuMemMap") {
  const std::size_t unit = prepare();
  const CUdeviceptr base = reserve(4 * unit);
  const auto handle = create_memory(unit);
  REFUSES(CU(cuMemMap)(base + unit / 2, unit, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
  REFUSES(CU(cuMemMap)(base, unit / 2, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
  OK(CU(cuMemMap)(base + unit, unit, 0, handle, 0));
}

CASE("vmm.mappings_begin_in_a_reservation", VMM "cuMemMap") {
  const std::size_t unit = prepare();
  const CUdeviceptr base = reserve(2 * unit);
  const auto handle = create_memory(2 * unit);
  REFUSES(CU(cuMemMap)(allocate(4 * unit), 2 * unit, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
  // The range must be a reservation; not every driver sees where it ends.
  if (REMARK(CU(cuMemMap)(base + unit, 2 * unit, 0, handle, 0)) == CUDA_SUCCESS) {
    REMARK(set_access(base + unit, 2 * unit, kReadWrite));
    OK(CU(cuMemUnmap)(base + unit, 2 * unit));
  }
  OK(CU(cuMemMap)(base, 2 * unit, 0, handle, 0));
}

CASE("vmm.nothing_is_mapped_over_a_mapping", VMM "cuMemMap") {
  const std::size_t unit = prepare();
  const CUdeviceptr base = reserve(4 * unit);
  const auto one = create_memory(2 * unit);
  const auto two = create_memory(2 * unit);
  OK(CU(cuMemMap)(base + unit, 2 * unit, 0, one, 0));
  for (const std::size_t at : {std::size_t{0}, unit, 2 * unit})
    FAILS(CU(cuMemMap)(base + at, 2 * unit, 0, two, 0));
  OK(set_access(base + unit, 2 * unit, kReadWrite));
  fill(base + unit, 64, 11);
  EXPECT_WORDS(base + unit, 64, 11);
}

CASE("vmm.part_of_a_mapping_is_not_unmapped", VMM "cuMemUnmap") {
  const std::size_t unit = prepare();
  const CUdeviceptr base = reserve(2 * unit);
  map_memory(base, 2 * unit, create_memory(2 * unit));
  fill(base, 64, 21);
  fill(base + unit, 64, 22);
  OK(CU(cuCtxSynchronize)());
  FAILS(CU(cuMemUnmap)(base, unit));
  FAILS(CU(cuMemUnmap)(base + unit, unit));
  EXPECT_WORDS(base, 64, 21);
  EXPECT_WORDS(base + unit, 64, 22);
  OK(CU(cuMemUnmap)(base, 2 * unit));
}

CASE("vmm.neighbours_are_unmapped_together", VMM "cuMemUnmap") {
  const std::size_t unit = prepare();
  const CUdeviceptr base = reserve(3 * unit);
  for (std::size_t i = 0; i < 3; ++i) OK(CU(cuMemMap)(base + i * unit, unit, 0, create_memory(unit), 0));
  OK(CU(cuMemUnmap)(base, 3 * unit));
  OK(CU(cuMemAddressFree)(base, 3 * unit));
}

CASE("vmm.unmapping_what_is_not_mapped_changes_nothing", VMM "cuMemUnmap") {
  const std::size_t unit = prepare();
  const CUdeviceptr base = reserve(3 * unit);
  REMARK(CU(cuMemUnmap)(base, 2 * unit));
  map_memory(base, unit, create_memory(unit));
  fill(base, 64, 23);
  REMARK(CU(cuMemUnmap)(base + unit, 2 * unit));
  EXPECT_WORDS(base, 64, 23);
  OK(CU(cuMemMap)(base + 2 * unit, unit, 0, create_memory(unit), 0));
  OK(CU(cuMemUnmap)(base + 2 * unit, unit));
  REMARK(CU(cuMemUnmap)(base, 2 * unit));
  REMARK(CU(cuMemUnmap)(base, unit));
  OK(CU(cuMemAddressFree)(base, 3 * unit));
}

CASE("vmm.an_unmapped_range_is_a_reservation_again", VMM "cuMemUnmap") {
  const std::size_t unit = prepare();
  const CUdeviceptr base = reserve(unit);
  const auto one = create_memory(unit);
  const auto two = create_memory(unit);
  map_memory(base, unit, one);
  fill(base, 64, 31);
  OK(CU(cuCtxSynchronize)());
  OK(CU(cuMemUnmap)(base, unit));
  map_memory(base, unit, two);
  fill(base, 64, 32);
  OK(CU(cuCtxSynchronize)());
  OK(CU(cuMemUnmap)(base, unit));
  map_memory(base, unit, one);
  EXPECT_WORDS(base, 64, 31);
}

CASE("vmm.mappings_of_one_handle_are_the_same_memory", VMM "cuMemMap") {
  const std::size_t unit = prepare();
  const CUdeviceptr base = reserve(4 * unit);
  const auto handle = create_memory(unit);
  map_memory(base, unit, handle);
  map_memory(base + 2 * unit, unit, handle);
  fill(base, 1000, 41);
  EXPECT_WORDS(base + 2 * unit, 1000, 41);
  affine(base + 2 * unit, 1000, 1, 9);
  EXPECT_WORDS(base, 1000, 50);
}

CASE("vmm.several_handles_make_one_range",
     "CUDA C++ Programming Guide, Virtual Memory Management, Mapping Memory") {
  const std::size_t unit = prepare();
  const CUdeviceptr base = reserve(3 * unit);
  for (std::size_t i = 0; i < 3; ++i) OK(CU(cuMemMap)(base + i * unit, unit, 0, create_memory(unit), 0));
  OK(set_access(base, 3 * unit, kReadWrite));
  const auto words = static_cast<unsigned>(3 * unit / 4);
  fill(base, words, 1);
  EXPECT_WORDS(base + unit - 256, 128, static_cast<unsigned>(unit / 4) - 63);
  EXPECT_EQ(read_word(base + 3 * unit - 4), words);
}

CASE("vmm.access_is_absent_at_first", VMM "cuMemMap, cuMemGetAccess") {
  const std::size_t unit = prepare();
  const CUdeviceptr base = reserve(unit);
  unsigned long long access = 99;
  OK(CU(cuMemMap)(base, unit, 0, create_memory(unit), 0));
  OK(CU(cuMemGetAccess)(&access, &kHere, base));
  EXPECT_EQ(access, 0ull);
  OK(set_access(base, unit, kReadWrite));
  OK(CU(cuMemGetAccess)(&access, &kHere, base + unit / 2));
  EXPECT_EQ(access, static_cast<unsigned long long>(kReadWrite));
}

CASE("vmm.a_new_mapping_does_not_inherit_access", VMM "cuMemUnmap") {
  const std::size_t unit = prepare();
  const CUdeviceptr base = reserve(unit);
  const auto handle = create_memory(unit);
  map_memory(base, unit, handle);
  OK(CU(cuMemUnmap)(base, unit));
  OK(CU(cuMemMap)(base, unit, 0, handle, 0));
  unsigned long long access = 99;
  OK(CU(cuMemGetAccess)(&access, &kHere, base));
  EXPECT_EQ(access, 0ull);
}

CASE("vmm.access_is_set_on_ranges_that_begin_and_end_mapped", VMM "cuMemSetAccess") {
  const std::size_t unit = prepare();
  const CUdeviceptr base = reserve(4 * unit);
  FAILS(set_access(base, unit, kReadWrite));
  OK(CU(cuMemMap)(base, unit, 0, create_memory(unit), 0));
  OK(CU(cuMemMap)(base + 2 * unit, unit, 0, create_memory(unit), 0));
  FAILS(set_access(base, 2 * unit, kReadWrite));
  REMARK(set_access(base + unit, 2 * unit, kReadWrite));
  REMARK(set_access(base, 4 * unit, kReadWrite));
  OK(set_access(base, unit, kReadWrite));
  // The range must be fully mapped; not every driver sees a gap inside it.
  if (REMARK(set_access(base, 3 * unit, kReadWrite)) == CUDA_SUCCESS) {
    fill(base + 2 * unit, 64, 24);
    EXPECT_WORDS(base + 2 * unit, 64, 24);
  }
}

CASE("vmm.access_on_no_device_is_refused", VMM "cuMemSetAccess") {
  const std::size_t unit = prepare();
  const CUdeviceptr base = reserve(unit);
  OK(CU(cuMemMap)(base, unit, 0, create_memory(unit), 0));
  CUmemAccessDesc desc{};
  desc.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  desc.location.id = 1000;
  desc.flags = kReadWrite;
  FAILS(CU(cuMemSetAccess)(base, unit, &desc, 1));
}

CASE("vmm.access_is_told_of_mapped_addresses_only", VMM "cuMemGetAccess") {
  const std::size_t unit = prepare();
  unsigned long long access = 0;
  REFUSES(CU(cuMemGetAccess)(&access, &kHere, reserve(unit)), CUDA_ERROR_INVALID_VALUE);
}

}  // namespace conformance
