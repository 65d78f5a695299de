// Memory pools shared between processes.

#include <unistd.h>

#include <cstdint>

#include "tests/conformance/device.h"

#define POOL "CUDA Driver API, Stream Ordered Memory Allocator: "

namespace conformance {
namespace {

constexpr auto kDescriptor = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

void prepare() {
  use_device();
  need(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, "memory pools");
  constexpr unsigned kBit = kDescriptor;
  if ((static_cast<unsigned>(attribute(CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES)) & kBit) == 0)
    skip("the device has no pools that are shared by descriptor");
}

CUmemoryPool make_pool(CUmemAllocationHandleType type) {
  CUmemPoolProps props{};
  props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  props.handleTypes = type;
  props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemoryPool pool = nullptr;
  OK(CU(cuMemPoolCreate)(&pool, &props));
  return pool;
}

int export_pool(CUmemoryPool pool) {
  int fd = -1;
  OK(CU(cuMemPoolExportToShareableHandle)(&fd, pool, kDescriptor, 0));
  return fd;
}

CUmemoryPool import_pool(int fd) {
  CUmemoryPool pool = nullptr;
  OK(CU(cuMemPoolImportFromShareableHandle)(&pool, reinterpret_cast<void*>(static_cast<std::intptr_t>(fd)),
                                            kDescriptor, 0));
  return pool;
}

/// What the exporter of the cases below does: a pool, and memory of it with words from `first` on.
void offer(const Partner::Channel& channel, unsigned first) {
  const CUmemoryPool pool = make_pool(kDescriptor);
  const CUstream stream = make_stream();
  CUdeviceptr memory = 0;
  OK(CU(cuMemAllocFromPoolAsync)(&memory, 4 * kMiB, pool, stream));
  fill(memory, 1000, first, stream);
  OK(CU(cuStreamSynchronize)(stream));
  const int descriptor = export_pool(pool);  // only a pool that is shared already shares what is in it
  CUmemPoolPtrExportData data{};
  OK(CU(cuMemPoolExportPointer)(&data, memory));
  channel.send_descriptor(descriptor);
  channel.send(data);
  channel.receive<int>();
  EXPECT_WORDS(memory, 1000, first + 1);
}

}  // namespace

CASE("pool_share.only_pools_made_for_it_are_exported", POOL "cuMemPoolExportToShareableHandle, note") {
  prepare();
  int fd = -1;
  CUmemoryPool pool = nullptr;
  OK(CU(cuDeviceGetDefaultMemPool)(&pool, 0));
  FAILS(CU(cuMemPoolExportToShareableHandle)(&fd, pool, kDescriptor, 0));
  FAILS(CU(cuMemPoolExportToShareableHandle)(&fd, make_pool(CU_MEM_HANDLE_TYPE_NONE), kDescriptor, 0));
  OK(CU(cuMemPoolExportToShareableHandle)(&fd, make_pool(kDescriptor), kDescriptor, 0));
}

CASE("pool_share.another_process_sees_the_memory", POOL "cuMemPoolImportPointer") {
  Partner partner([](const Partner::Channel& channel) {
    prepare();
    const CUmemoryPool pool = import_pool(channel.receive_descriptor());
    auto data = channel.receive<CUmemPoolPtrExportData>();
    CUdeviceptr memory = 0;
    OK(CU(cuMemPoolImportPointer)(&memory, pool, &data));
    EXPECT_WORDS(memory, 1000, 31);
    affine(memory, 1000, 1, 1);
    OK(CU(cuCtxSynchronize)());
    OK(CU(cuMemFree)(memory));
    channel.send(1);
  });
  prepare();
  offer(partner.channel(), 31);
  partner.join();
}

CASE("pool_share.an_imported_pool_gives_no_memory", POOL "cuMemPoolImportFromShareableHandle, note") {
  Partner partner([](const Partner::Channel& channel) {
    prepare();
    const CUmemoryPool pool = import_pool(channel.receive_descriptor());
    channel.receive<CUmemPoolPtrExportData>();
    CUdeviceptr memory = 0;
    FAILS(CU(cuMemAllocFromPoolAsync)(&memory, kMiB, pool, make_stream()));
    FAILS(CU(cuDeviceSetMemPool)(0, pool));
    channel.send(1);
  });
  prepare();
  const CUmemoryPool pool = make_pool(kDescriptor);
  partner.channel().send_descriptor(export_pool(pool));
  partner.channel().send(CUmemPoolPtrExportData{});
  partner.channel().receive<int>();
  partner.join();
}

CASE("pool_share.memory_of_a_pool_that_is_not_shared_yet_has_no_export_data", POOL "cuMemPoolExportPointer") {
  prepare();
  const CUmemoryPool pool = make_pool(kDescriptor);
  const CUstream stream = make_stream();
  CUdeviceptr memory = 0;
  OK(CU(cuMemAllocFromPoolAsync)(&memory, kMiB, pool, stream));
  OK(CU(cuStreamSynchronize)(stream));
  CUmemPoolPtrExportData data{};
  REFUSES(CU(cuMemPoolExportPointer)(&data, memory), CUDA_ERROR_INVALID_VALUE);
  ::close(export_pool(pool));
  OK(CU(cuMemPoolExportPointer)(&data, memory));
}

CASE("pool_share.memory_of_no_pool_has_no_export_data", POOL "cuMemPoolExportPointer") {
  prepare();
  CUmemPoolPtrExportData data{};
  FAILS(CU(cuMemPoolExportPointer)(&data, allocate(kMiB)));
}

}  // namespace conformance
