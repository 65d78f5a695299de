#include "tests/simgpu/device_tools.h"

namespace simgpu_test {

CUmemAllocationProp device_memory() {
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  return prop;
}

CUmemGenericAllocationHandle create(std::size_t bytes) {
  const CUmemAllocationProp prop = device_memory();
  CUmemGenericAllocationHandle handle = 0;
  OK(cuMemCreate(&handle, bytes, &prop, 0));
  return handle;
}

CUdeviceptr reserve(std::size_t bytes) {
  CUdeviceptr base = 0;
  OK(cuMemAddressReserve(&base, bytes, 0, 0, 0));
  return base;
}

CUresult set_access(CUdeviceptr base, std::size_t bytes, CUmemAccess_flags access) {
  CUmemAccessDesc desc{};
  desc.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  desc.flags = access;
  return cuMemSetAccess(base, bytes, &desc, 1);
}

CUstream new_stream(unsigned flags) {
  CUstream stream = nullptr;
  OK(cuStreamCreate(&stream, flags));
  return stream;
}

CUcontext context() {
  CUcontext current = nullptr;
  OK(cuCtxGetCurrent(&current));
  return current;
}

CUdeviceptr new_ints(std::size_t count) {
  CUdeviceptr memory = 0;
  OK(cuMemAlloc(&memory, count * sizeof(int)));
  OK(cuMemsetD32(memory, 0, count));
  OK(cuCtxSynchronize());
  return memory;
}

int int_at(CUdeviceptr address) {
  OK(cuCtxSynchronize());
  int value = 0;
  OK(cuMemcpyDtoH(&value, address, sizeof value));
  return value;
}

}  // namespace simgpu_test
