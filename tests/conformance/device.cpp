#include "tests/conformance/device.h"

namespace conformance {

CUcontext use_device() {
  CUcontext context = nullptr;
  const CUresult started = CU(cuInit)(0);
  if (started == CUDA_ERROR_NO_DEVICE) skip("there is no device");
  OK(started);
  OK(CU(cuDevicePrimaryCtxRetain)(&context, 0));
  OK(CU(cuCtxSetCurrent)(context));
  return context;
}

int attribute(CUdevice_attribute which, CUdevice device) {
  int value = 0;
  OK(CU(cuDeviceGetAttribute)(&value, which, device));
  return value;
}

void need(CUdevice_attribute which, const char* what) {
  if (attribute(which) == 0) skip(std::string("the device has no ") + what);
}

std::size_t free_bytes() {
  std::size_t free = 0;
  std::size_t total = 0;
  OK(CU(cuMemGetInfo)(&free, &total));
  return free;
}

CUdeviceptr allocate(std::size_t bytes) {
  CUdeviceptr base = 0;
  OK(CU(cuMemAlloc)(&base, bytes));
  return base;
}

CUstream make_stream(unsigned flags) {
  CUstream stream = nullptr;
  OK(CU(cuStreamCreate)(&stream, flags));
  return stream;
}

CUevent make_event(unsigned flags) {
  CUevent event = nullptr;
  OK(CU(cuEventCreate)(&event, flags));
  return event;
}

unsigned* pinned_words(std::size_t words) {
  void* base = nullptr;
  OK(CU(cuMemHostAlloc)(&base, words * sizeof(unsigned), 0));
  return static_cast<unsigned*>(base);
}

std::vector<unsigned> read_words(CUdeviceptr from, std::size_t words) {
  std::vector<unsigned> read(words, 0xdeadbeefu);
  OK(CU(cuCtxSynchronize)());
  OK(CU(cuMemcpyDtoH)(read.data(), from, words * sizeof(unsigned)));
  return read;
}

unsigned read_word(CUdeviceptr from) {
  return read_words(from, 1)[0];
}

void expect_words(CUdeviceptr from, std::size_t words, unsigned first, const char* file, int line) {
  const std::vector<unsigned> read = read_words(from, words);
  for (std::size_t i = 0; i < words; ++i) {
    const unsigned want = first + static_cast<unsigned>(i);
    if (read[i] == want) continue;
    fail(file, line,
         "word " + std::to_string(i) + " is " + std::to_string(read[i]) + ", not " + std::to_string(want));
  }
}

CUmemAllocationProp device_memory(bool exportable) {
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  if (exportable) prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return prop;
}

std::size_t granularity() {
  need(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, "virtual memory management");
  const CUmemAllocationProp prop = device_memory();
  std::size_t bytes = 0;
  OK(CU(cuMemGetAllocationGranularity)(&bytes, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  return bytes;
}

CUmemGenericAllocationHandle create_memory(std::size_t bytes, bool exportable) {
  const CUmemAllocationProp prop = device_memory(exportable);
  CUmemGenericAllocationHandle handle = 0;
  OK(CU(cuMemCreate)(&handle, bytes, &prop, 0));
  return handle;
}

CUdeviceptr reserve(std::size_t bytes) {
  CUdeviceptr base = 0;
  OK(CU(cuMemAddressReserve)(&base, bytes, 0, 0, 0));
  return base;
}

CUresult set_access(CUdeviceptr base, std::size_t bytes, CUmemAccess_flags access) {
  CUmemAccessDesc desc{};
  desc.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  desc.flags = access;
  return CU(cuMemSetAccess)(base, bytes, &desc, 1);
}

void map_memory(CUdeviceptr base, std::size_t bytes, CUmemGenericAllocationHandle handle) {
  OK(CU(cuMemMap)(base, bytes, 0, handle, 0));
  OK(set_access(base, bytes, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
}

CUfunction function_of(const void* stub) {
  cudaFunction_t function = nullptr;
  OK(RT(cudaGetFuncBySymbol)(&function, stub));
  return function;
}

void launch(const void* stub, unsigned blocks, CUstream stream, void** params) {
  OK(CU(cuLaunchKernel)(function_of(stub), blocks, 1, 1, kBlock, 1, 1, 0, stream, params, nullptr));
}

void fill(CUdeviceptr out, unsigned count, unsigned first, CUstream stream) {
  void* params[] = {&out, &count, &first};
  launch(kFill, blocks_for(count), stream, params);
}

void slow_fill(CUdeviceptr out, unsigned count, unsigned first, CUstream stream) {
  unsigned microseconds = 20000;
  void* params[] = {&out, &count, &first, &microseconds};
  launch(kSlowFill, blocks_for(count), stream, params);
}

void affine(CUdeviceptr data, unsigned count, unsigned a, unsigned b, CUstream stream) {
  void* params[] = {&data, &count, &a, &b};
  launch(kAffine, blocks_for(count), stream, params);
}

void copy_words(CUdeviceptr in, CUdeviceptr out, unsigned count, CUstream stream) {
  void* params[] = {&in, &out, &count};
  launch(kCopy, blocks_for(count), stream, params);
}

}  // namespace conformance
