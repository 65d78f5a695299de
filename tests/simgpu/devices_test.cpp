// Several devices in one process. Documentation: CUDA Driver API, pages "Device Management", "Peer Context
// Memory Access" and "Unified Addressing".

#include <catch2/catch.hpp>
#include <string>

#include "simgpu/kernel.h"
#include "tests/simgpu/device_process.h"

namespace {

using namespace simgpu_test;

DeviceSetup two_devices() {
  DeviceSetup setup;
  setup.devices = 2;
  return setup;
}

CUcontext use(int ordinal) {
  CUcontext context = nullptr;
  OK(cuDevicePrimaryCtxRetain(&context, ordinal));
  OK(cuCtxSetCurrent(context));
  return context;
}

struct Increment {
  template <class C>
  static void run(C& c, int* value) {
    c.writes(value, sizeof(int));
    c.phase([&](unsigned) { ++*value; });
  }
};

CUresult increment(CUdeviceptr value) {
  const CUfunction kernel = make_kernel("increment", simgpu::kernel_body<Increment, int*>());
  void* params[] = {&value};
  OK(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr));
  return cuCtxSynchronize();
}

}  // namespace

TEST_CASE("devices: each has its ordinal, bus, identity and memory") {
  REQUIRE(on_device(two_devices(), [] {
            int count = 0;
            OK(cuDeviceGetCount(&count));
            EXPECT(count == 2);
            CUdevice dev = -1;
            EXPECT_RESULT(cuDeviceGet(&dev, 2), CUDA_ERROR_INVALID_DEVICE);
            EXPECT_RESULT(cuDeviceGet(&dev, -1), CUDA_ERROR_INVALID_DEVICE);
            std::string bus[2];
            CUuuid uuid[2];
            for (int i = 0; i < 2; ++i) {
              char text[16];
              OK(cuDeviceGetPCIBusId(text, sizeof text, i));
              bus[i] = text;
              OK(cuDeviceGetByPCIBusId(&dev, text));
              EXPECT(dev == i);
              OK(cuDeviceGetUuid(&uuid[i], i));
            }
            EXPECT(bus[0] != bus[1]);
            EXPECT(std::string(uuid[0].bytes, 16) != std::string(uuid[1].bytes, 16));
            use(1);
            OK(cuCtxGetDevice(&dev));
            EXPECT(dev == 1);
            CUdeviceptr a = 0;
            OK(cuMemAlloc(&a, 40 * kMiB));
            std::size_t free = 0;
            std::size_t total = 0;
            OK(cuMemGetInfo(&free, &total));
            EXPECT(total - free == 40 * kMiB);
            int ordinal = -1;
            OK(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, a));
            EXPECT(ordinal == 1);
            use(0);
            OK(cuMemGetInfo(&free, &total));
            EXPECT(total == free);
            OK(cuMemAlloc(&a, 40 * kMiB));
            return 0;
          }) == 0);
}

TEST_CASE("devices: plain memory of another device needs peer access, one way") {
  REQUIRE(on_device(two_devices(), [] {
            const CUcontext first = use(0);
            CUdeviceptr there = 0;
            OK(cuMemAlloc(&there, 4));
            OK(cuMemsetD32(there, 6, 1));
            OK(cuCtxSynchronize());
            const CUcontext second = use(1);
            int can = 0;
            OK(cuDeviceCanAccessPeer(&can, 1, 0));
            EXPECT(can == 1);
            OK(cuDeviceCanAccessPeer(&can, 1, 1));
            EXPECT(can == 0);
            EXPECT_RESULT(cuCtxEnablePeerAccess(second, 0), CUDA_ERROR_INVALID_CONTEXT);
            EXPECT_RESULT(cuCtxEnablePeerAccess(first, 1), CUDA_ERROR_INVALID_VALUE);
            EXPECT_RESULT(cuCtxDisablePeerAccess(first), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
            OK(cuCtxEnablePeerAccess(first, 0));
            EXPECT_RESULT(cuCtxEnablePeerAccess(first, 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
            OK(increment(there));
            int value = 0;
            OK(cuMemcpyDtoH(&value, there, 4));
            EXPECT(value == 7);
            OK(cuCtxDisablePeerAccess(first));
            EXPECT_RESULT(increment(there), CUDA_ERROR_ILLEGAL_ADDRESS);
            return 0;
          }) == 0);
}

TEST_CASE("devices: an error in one device's context leaves the other usable") {
  REQUIRE(on_device(two_devices(), [] {
            use(0);
            CUdeviceptr value = 0;
            OK(cuMemAlloc(&value, 4));
            use(1);
            EXPECT_RESULT(increment(value), CUDA_ERROR_ILLEGAL_ADDRESS);
            return 0;
          }) == 0);
  REQUIRE(on_device(two_devices(), [] {
            const CUcontext first = use(0);
            const CUcontext second = use(1);
            CUdeviceptr theirs = 0;
            OK(cuMemAlloc(&theirs, 4));
            OK(cuMemsetD32(theirs, 1, 1));
            OK(cuCtxSynchronize());
            EXPECT(first != second);
            OK(cuCtxPushCurrent(first));
            EXPECT_RESULT(increment(theirs), CUDA_ERROR_ILLEGAL_ADDRESS);
            return 0;
          }) == 0);
}

TEST_CASE("devices: a mapping is reached by copies and memsets of the devices that have access") {
  REQUIRE(on_device(two_devices(), [] {
            use(0);
            CUmemAllocationProp prop{};
            prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
            prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
            prop.location.id = 1;
            CUmemGenericAllocationHandle handle = 0;
            OK(cuMemCreate(&handle, kFrame, &prop, 0));
            CUdeviceptr base = 0;
            OK(cuMemAddressReserve(&base, kFrame, 0, 0, 0));
            OK(cuMemMap(base, kFrame, 0, handle, 0));
            CUmemAccessDesc access{};
            access.location = prop.location;
            access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
            OK(cuMemSetAccess(base, kFrame, &access, 1));
            use(1);
            OK(cuMemsetD32(base, 1, 16));
            std::uint32_t word = 0;
            OK(cuMemcpyDtoH(&word, base, sizeof word));
            EXPECT(word == 1);
            use(0);
            OK(cuMemsetD32Async(base, 2, 16, nullptr));
            EXPECT_RESULT(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
            return 0;
          }) == 0);
}
