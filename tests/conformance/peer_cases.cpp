// Several devices. All skip where there is one.

#include "tests/conformance/device.h"

#define PEER "CUDA Driver API, Peer Context Memory Access: "

namespace conformance {
namespace {

struct Pair {
  CUcontext first = nullptr;
  CUcontext second = nullptr;
};

/// The primary contexts of two devices; the first is current.
Pair two_devices() {
  Pair pair;
  pair.first = use_device();
  int count = 0;
  OK(CU(cuDeviceGetCount)(&count));
  if (count < 2) skip("there is one device");
  OK(CU(cuDevicePrimaryCtxRetain)(&pair.second, 1));
  return pair;
}

void go(CUcontext context) {
  OK(CU(cuCtxSetCurrent)(context));
}

void need_peers() {
  int can = 0;
  OK(CU(cuDeviceCanAccessPeer)(&can, 0, 1));
  if (can == 0) skip("the devices cannot reach each other's memory");
}

}  // namespace

CASE("peer.each_device_has_its_own_context",
     "CUDA Driver API, Primary Context Management: cuDevicePrimaryCtxRetain") {
  const Pair pair = two_devices();
  EXPECT(pair.first != pair.second);
  CUdevice device = -1;
  go(pair.second);
  OK(CU(cuCtxGetDevice)(&device));
  EXPECT_EQ(device, 1);
  int told = -1;
  OK(CU(cuPointerGetAttribute)(&told, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, allocate(kMiB)));
  EXPECT_EQ(told, 1);
}

CASE("peer.the_runtime_switches_devices", "CUDA Runtime API, Device Management: cudaSetDevice") {
  const Pair pair = two_devices();
  CUcontext now = nullptr;
  OK(RT(cudaSetDevice)(1));
  OK(RT(cudaFree)(nullptr));
  OK(CU(cuCtxGetCurrent)(&now));
  EXPECT(now == pair.second);
  OK(RT(cudaSetDevice)(0));
  OK(RT(cudaFree)(nullptr));
  OK(CU(cuCtxGetCurrent)(&now));
  EXPECT(now == pair.first);
}

CASE_ALONE("peer.each_device_has_its_own_memory", "CUDA Driver API, Memory Management: cuMemGetInfo") {
  const Pair pair = two_devices();
  const std::size_t first = free_bytes();
  go(pair.second);
  const std::size_t second = free_bytes();
  allocate(64 * kMiB);
  EXPECT(free_bytes() + 64 * kMiB <= second);
  go(pair.first);
  EXPECT(free_bytes() + 32 * kMiB > first);
}

CASE_ORDER("peer.memory_is_copied_between_devices", "CUDA Driver API, Memory Management: cuMemcpyPeerAsync") {
  const Pair pair = two_devices();
  const CUdeviceptr from = allocate(kMiB);
  const CUstream stream = make_stream(CU_STREAM_NON_BLOCKING);
  go(pair.second);
  const CUdeviceptr to = allocate(kMiB);
  go(pair.first);
  slow_fill(from, 4096, 3, stream);
  OK(CU(cuMemcpyPeerAsync)(to, pair.second, from, pair.first, 16384, stream));
  fill(from, 4096, 100, stream);
  OK(CU(cuStreamSynchronize)(stream));
  go(pair.second);
  EXPECT_WORDS(to, 4096, 3);
  OK(CU(cuMemcpyPeer)(from, pair.first, to, pair.second, 16384));
  OK(CU(cuCtxSynchronize)());
  go(pair.first);
  EXPECT_WORDS(from, 4096, 3);
}

CASE("peer.mappings_are_copied_between_devices", "CUDA Driver API, Memory Management: cuMemcpyPeerAsync") {
  const Pair pair = two_devices();
  const std::size_t unit = granularity();
  CUdeviceptr at[2] = {};
  for (int device = 0; device < 2; ++device) {
    go(device == 0 ? pair.first : pair.second);
    CUmemAllocationProp prop = device_memory();
    prop.location.id = device;
    CUmemGenericAllocationHandle handle = 0;
    OK(CU(cuMemCreate)(&handle, unit, &prop, 0));
    at[device] = reserve(unit);
    OK(CU(cuMemMap)(at[device], unit, 0, handle, 0));
    CUmemAccessDesc desc{};
    desc.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    desc.location.id = device;
    desc.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    OK(CU(cuMemSetAccess)(at[device], unit, &desc, 1));
    fill(at[device], 1024, 7 + static_cast<unsigned>(device));
    OK(CU(cuCtxSynchronize)());
  }
  // Each end is reached in the context that is named for it: neither device has been let in by the other.
  go(pair.first);
  const CUstream stream = make_stream(CU_STREAM_NON_BLOCKING);
  OK(CU(cuMemcpyPeerAsync)(at[1], pair.second, at[0], pair.first, 4096, stream));
  OK(CU(cuStreamSynchronize)(stream));
  go(pair.second);
  EXPECT_WORDS(at[1], 1024, 7);
}

CASE_ORDER("peer.events_order_streams_of_two_devices",
           "CUDA Driver API, Stream Management: cuStreamWaitEvent") {
  const Pair pair = two_devices();
  unsigned* host = nullptr;
  void* memory = nullptr;
  OK(CU(cuMemHostAlloc)(&memory, 4 * kKiB, CU_MEMHOSTALLOC_PORTABLE));
  host = static_cast<unsigned*>(memory);
  const auto out = reinterpret_cast<CUdeviceptr>(host);
  const CUstream one = make_stream(CU_STREAM_NON_BLOCKING);
  const CUevent event = make_event();
  slow_fill(out, 1024, 5, one);
  OK(CU(cuEventRecord)(event, one));
  go(pair.second);
  const CUstream two = make_stream(CU_STREAM_NON_BLOCKING);
  OK(CU(cuStreamWaitEvent)(two, event, 0));
  affine(out, 1024, 1, 10, two);
  OK(CU(cuStreamSynchronize)(two));
  for (unsigned i = 0; i < 1024; ++i) EXPECT_EQ(host[i], 15 + i);
}

CASE("peer.streams_belong_to_a_device",
     "CUDA Driver API, Stream Management: cuStreamGetDevice; cuEventRecord") {
  const Pair pair = two_devices();
  go(pair.second);
  CUdevice device = -1;
  const CUstream stream = make_stream();
  OK(CU(cuStreamGetDevice)(stream, &device));
  EXPECT_EQ(device, 1);
  go(pair.first);
  REFUSES(CU(cuEventRecord)(make_event(), stream), CUDA_ERROR_INVALID_HANDLE);
}

CASE("peer.access_is_enabled_once", PEER "cuCtxEnablePeerAccess") {
  const Pair pair = two_devices();
  need_peers();
  REFUSES(CU(cuCtxEnablePeerAccess)(pair.first, 0), CUDA_ERROR_INVALID_CONTEXT);
  REFUSES(CU(cuCtxEnablePeerAccess)(pair.second, 1), CUDA_ERROR_INVALID_VALUE);
  REFUSES(CU(cuCtxDisablePeerAccess)(pair.second), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
  OK(CU(cuCtxEnablePeerAccess)(pair.second, 0));
  REFUSES(CU(cuCtxEnablePeerAccess)(pair.second, 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
  OK(CU(cuCtxDisablePeerAccess)(pair.second));
}

CASE("peer.kernels_reach_the_peers_memory", PEER "cuCtxEnablePeerAccess") {
  const Pair pair = two_devices();
  need_peers();
  go(pair.second);
  const CUdeviceptr memory = allocate(kMiB);
  go(pair.first);
  OK(CU(cuCtxEnablePeerAccess)(pair.second, 0));
  fill(memory, 1024, 9);
  OK(CU(cuCtxSynchronize)());
  go(pair.second);
  EXPECT_WORDS(memory, 1024, 9);
}

CASE("peer.what_cannot_be_reached_is_not_enabled", PEER "cuCtxEnablePeerAccess") {
  const Pair pair = two_devices();
  int can = 0;
  OK(CU(cuDeviceCanAccessPeer)(&can, 0, 1));
  if (can == 0) REFUSES(CU(cuCtxEnablePeerAccess)(pair.second, 0), CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
}

CASE("peer.a_managed_variable_is_one_for_all_devices",
     "CUDA C++ Programming Guide, __managed__ Memory Space Specifier") {
  const Pair pair = two_devices();
  for (int device = 0; device < 2; ++device) {
    int managed = 0;
    OK(CU(cuDeviceGetAttribute)(&managed, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, device));
    if (managed == 0) skip("a device has no managed memory");
  }
  unsigned by = 10;
  void* params[] = {&by};
  for (const CUcontext context : {pair.first, pair.second}) {
    go(context);
    launch(kAddToManaged, 1, nullptr, params);
    OK(CU(cuCtxSynchronize)());
  }
  EXPECT_EQ(managed_words()[0], 23u);
  EXPECT_EQ(managed_words()[3], 26u);
}

CASE("peer.access_to_mappings_is_by_device", "CUDA Driver API, Virtual Memory Management: cuMemSetAccess") {
  const Pair pair = two_devices();
  const std::size_t unit = granularity();
  CUmemAllocationProp prop = device_memory();
  prop.location.id = 1;
  CUmemGenericAllocationHandle handle = 0;
  OK(CU(cuMemCreate)(&handle, unit, &prop, 0));
  const CUdeviceptr base = reserve(unit);
  OK(CU(cuMemMap)(base, unit, 0, handle, 0));
  CUmemAccessDesc desc{};
  desc.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  desc.location.id = 1;
  desc.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  OK(CU(cuMemSetAccess)(base, unit, &desc, 1));
  unsigned long long access = 99;
  const CUmemLocation first{CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  OK(CU(cuMemGetAccess)(&access, &first, base));
  EXPECT_EQ(access, 0ull);
  go(pair.second);
  fill(base, 64, 2);
  EXPECT_WORDS(base, 64, 2);
}

}  // namespace conformance
