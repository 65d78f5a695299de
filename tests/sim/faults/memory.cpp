// Memory of each kind, and the questions about it.

#include "tests/sim/faults/device.h"

namespace tidepool::faults {
namespace {

constexpr CUmemLocation kHere{CU_MEM_LOCATION_TYPE_DEVICE, {0}};
constexpr CUmemAccessDesc kReadWrite{kHere, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

}  // namespace

void plain_memory(const Device& device, unsigned round) {
  std::size_t free = 0, total = 0, pitch = 0, size = 0;
  CUdeviceptr base = 0, pitched = 0, managed = 0;
  const Memory block(3 * kMiB);
  CALL(cuMemAllocPitch_v2)(&pitched, &pitch, std::size_t{1000}, std::size_t{3000}, 4u);
  CALL(cuMemAllocManaged)(&managed, kMiB, unsigned{CU_MEM_ATTACH_GLOBAL});
  CALL(cuMemGetInfo_v2)(&free, &total);
  EXPECT(free <= total);
  CALL(cuDeviceTotalMem_v2)(&total, 0);
  CALL(cuMemGetAddressRange_v2)(&base, &size, block.at + 5);
  EXPECT(base == block.at && size == 3 * kMiB);
  CUdeviceptr start = 0;
  CALL(cuPointerGetAttribute)(static_cast<void*>(&start), CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, pitched + 7);
  EXPECT(start == pitched);
  CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_RANGE_SIZE};
  void* out[] = {&size};
  CALL(cuPointerGetAttributes)
  (1u, static_cast<CUpointer_attribute*>(which), static_cast<void**>(out), block.at);
  EXPECT(size == 3 * kMiB);
  // Of memory that Tidepool does not manage the driver is asked.
  CALL(cuMemGetAddressRange_v2)(&base, &size, managed + 5);
  EXPECT(base == managed && size == kMiB);
  device.write(block.at, round);
  device.write(pitched, round + 1);
  device.write(managed, round + 2);
  device.expect(block.at, round);
  device.expect(pitched, round + 1);
  device.expect(managed, round + 2);
  CALL(cuMemFree_v2)(managed);
  CALL(cuMemFree_v2)(pitched);
}

void memory_of_pools(const Device& device, unsigned round) {
  CUdeviceptr async = 0, pooled = 0, other = 0;
  CALL(cuMemAllocAsync)(&async, 2 * kMiB, device.stream);
  CUmemoryPool pool = nullptr, before = nullptr, first = nullptr;
  CUmemPoolProps props{};
  props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  props.location = kHere;
  CALL(cuMemPoolCreate)(&pool, &props);
  cuuint64_t threshold = 1 << 20;
  CALL(cuMemPoolSetAttribute)(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, static_cast<void*>(&threshold));
  CALL(cuMemPoolSetAccess)(pool, &kReadWrite, std::size_t{1});
  CALL(cuMemAllocFromPoolAsync)(&pooled, 3 * kMiB, pool, device.stream);
  device.write(async, round);
  device.write(pooled, round + 1);
  cuuint64_t used = 0;
  CALL(cuMemPoolGetAttribute)(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, static_cast<void*>(&used));
  EXPECT(used == 3 * kMiB);
  CUmemLocation here = kHere;
  CALL(cuDeviceGetDefaultMemPool)(&first, 0);
  CALL(cuDeviceGetMemPool)(&before, 0);
  CALL(cuDeviceSetMemPool)(0, pool);
  CALL(cuMemAllocAsync)(&other, 2 * kMiB, device.stream);
  device.write(other, round + 2);
  CALL(cuMemSetMemPool)(&here, CU_MEM_ALLOCATION_TYPE_PINNED, before);
  device.expect(async, round);
  device.expect(pooled, round + 1);
  device.expect(other, round + 2);
  CALL(cuMemFreeAsync)(other, device.stream);
  CALL(cuMemFreeAsync)(pooled, device.stream);
  CALL(cuMemFreeAsync)(async, device.stream);
  device.wait();
  CALL(cuMemPoolTrimTo)(pool, std::size_t{0});
  CALL(cuMemPoolDestroy)(pool);
}

void memory_that_is_shared(const Device& device, unsigned round) {
  CUmemoryPool pool = nullptr, before = nullptr;
  CUmemPoolProps props{};
  props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  props.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  props.location = kHere;
  CUdeviceptr one = 0, two = 0;
  CALL(cuMemPoolCreate)(&pool, &props);
  CALL(cuDeviceGetMemPool)(&before, 0);
  CALL(cuDeviceSetMemPool)(0, pool);
  CALL(cuMemAllocAsync)(&one, 2 * kMiB, device.stream);
  CALL(cuDeviceSetMemPool)(0, before);
  CALL(cuMemAllocFromPoolAsync)(&two, 2 * kMiB, pool, device.stream);
  device.write(one, round);
  device.write(two, round + 1);
  device.expect(one, round);
  device.expect(two, round + 1);
  CALL(cuMemFreeAsync)(two, device.stream);
  CALL(cuMemFreeAsync)(one, device.stream);
  device.wait();
  CALL(cuMemPoolDestroy)(pool);
}

void own_mappings(const Device& device, unsigned round) {
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location = kHere;
  std::size_t unit = 0;
  CALL(cuMemGetAllocationGranularity)(&unit, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  CUmemGenericAllocationHandle handle = 0, again = 0;
  CUdeviceptr at = 0;
  CALL(cuMemCreate)(&handle, unit, &prop, 0ull);
  CALL(cuMemAddressReserve)(&at, unit, std::size_t{0}, CUdeviceptr{0}, 0ull);
  CALL(cuMemMap)(at, unit, std::size_t{0}, handle, 0ull);
  CALL(cuMemSetAccess)(at, unit, &kReadWrite, std::size_t{1});
  CALL(cuMemRetainAllocationHandle)(&again, reinterpret_cast<void*>(at));
  CALL(cuMemRelease)(again);
  device.write(at, round);
  device.expect(at, round);
  CALL(cuMemUnmap)(at, unit);
  CALL(cuMemRelease)(handle);
  CALL(cuMemAddressFree)(at, unit);
}

void operations_on_words(const Device& device, unsigned round) {
  const Memory words(2 * kMiB);
  device.write(words.at, round);
  CALL(cuStreamWriteValue32_v2)(device.stream, words.at, round + 1, 0u);
  CALL(cuStreamWriteValue64_v2)(device.stream, words.at + 8, cuuint64_t{round}, 0u);
  CALL(cuStreamWaitValue32_v2)(device.stream, words.at, round + 1, unsigned{CU_STREAM_WAIT_VALUE_EQ});
  CALL(cuStreamWaitValue64_v2)
  (device.stream, words.at + 8, cuuint64_t{round}, unsigned{CU_STREAM_WAIT_VALUE_GEQ});
  CUstreamBatchMemOpParams both[2] = {};
  both[0].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  both[0].writeValue.address = words.at + 4;
  both[0].writeValue.value = 5;
  both[1].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
  both[1].waitValue.address = words.at + 4;
  both[1].waitValue.value = 5;
  CALL(cuStreamBatchMemOp_v2)(device.stream, 2u, static_cast<CUstreamBatchMemOpParams*>(both), 0u);
  device.wait();
  unsigned read[4] = {};
  CALL(cuMemcpyDtoH_v2)(static_cast<void*>(read), words.at, sizeof read);
  EXPECT(read[0] == round + 1 && read[1] == 5 && read[2] == round && read[3] == 0);
}

}  // namespace tidepool::faults
