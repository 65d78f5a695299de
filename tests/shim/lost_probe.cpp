// Loses the device, then goes through the doors and prints what each call answers: once for memory that may
// be anywhere by now, once for memory that was never used.

#include <cuda.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

constexpr std::size_t kBytes = std::size_t{4} << 20;
constexpr std::size_t kSmall = 4096;

void need(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  std::fprintf(stderr, "lost_probe: %s: %d\n", what, result);
  std::exit(EXIT_FAILURE);
}
#define NEED(call) need(call, #call)

/// Prints what the call answers now, and the second time.
template <class Call>
void tell(const char* name, Call&& call) {
  const CUresult first = call();
  std::printf("%s %d %d\n", name, first, call());
}
#define TELL(...) tell(#__VA_ARGS__, [&] { return __VA_ARGS__; })

struct Memory {
  CUdeviceptr used, unused, small, ordered;
};

CUstream g_stream = nullptr;
CUmemoryPool g_pool = nullptr;

/// A memset of memory that is unmapped before it runs: it waits for a word until then.
void lose_device() {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  const CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  constexpr std::size_t kGranule = std::size_t{2} << 20;
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr at = 0;
  CUdeviceptr word = 0;
  void* host = nullptr;
  NEED(cuMemAddressReserve(&at, kGranule, 0, 0, 0));
  NEED(cuMemCreate(&handle, kGranule, &properties, 0));
  NEED(cuMemMap(at, kGranule, 0, handle, 0));
  NEED(cuMemSetAccess(at, kGranule, &access, 1));
  NEED(cuMemHostAlloc(&host, sizeof(unsigned), CU_MEMHOSTALLOC_DEVICEMAP));
  volatile unsigned* const go = static_cast<unsigned*>(host);
  *go = 0;
  NEED(cuMemHostGetDevicePointer(&word, host, 0));
  NEED(cuStreamWaitValue32(g_stream, word, 1, CU_STREAM_WAIT_VALUE_EQ));
  NEED(cuMemsetD8Async(at, 1, kSmall, g_stream));
  NEED(cuMemUnmap(at, kGranule));
  *go = 1;
}

void ask(const Memory& m) {
  std::size_t size = 0, pitch = 0;
  CUdeviceptr at = 0;
  unsigned value = 0;
  CUpointer_attribute which = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
  void* out = &value;
  cuuint64_t held = 0;
  TELL(cuMemGetInfo(&size, &pitch));
  TELL(cuMemGetAddressRange(&at, &size, m.used));
  TELL(cuMemGetAddressRange(&at, &size, m.small + 100));
  TELL(cuPointerGetAttribute(&value, which, m.used));
  TELL(cuPointerGetAttribute(&held, CU_POINTER_ATTRIBUTE_BUFFER_ID, m.unused));
  TELL(cuPointerGetAttributes(1, &which, &out, m.unused));
  TELL(cuMemPoolGetAttribute(g_pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &held));
  TELL(cuMemPoolTrimTo(g_pool, 0));
  TELL(cuDeviceTotalMem(&size, 0));
}

void allocate() {
  CUdeviceptr at = 0;
  std::size_t pitch = 0;
  TELL(cuMemAlloc(&at, kBytes));
  TELL(cuMemAlloc(&at, kSmall));
  TELL(cuMemAllocPitch(&at, &pitch, 1000, 100, 4));
  TELL(cuMemAllocAsync(&at, kBytes, g_stream));
  TELL(cuMemAllocAsync(&at, kBytes, nullptr));
  TELL(cuMemAllocFromPoolAsync(&at, kBytes, g_pool, g_stream));
}

void use(const Memory& m) {
  std::vector<unsigned char> host(kSmall);
  CUDA_MEMCPY2D rows{};
  rows.srcMemoryType = rows.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  rows.srcDevice = m.used;
  rows.dstDevice = m.unused;
  rows.srcPitch = rows.dstPitch = 128;
  rows.WidthInBytes = 64;
  rows.Height = 8;
  for (const CUdeviceptr at : {m.used, m.unused, m.small, m.ordered}) {
    TELL(cuMemcpyHtoD(at, host.data(), kSmall));
    TELL(cuMemcpyDtoH(host.data(), at, kSmall));
    TELL(cuMemcpyDtoD(at, m.used, kSmall));
    TELL(cuMemcpyHtoDAsync(at, host.data(), kSmall, g_stream));
    TELL(cuMemcpyDtoHAsync(host.data(), at, kSmall, g_stream));
    TELL(cuMemcpyAsync(at, m.used, kSmall, g_stream));
    TELL(cuMemsetD8(at, 1, kSmall));
    TELL(cuMemsetD32Async(at, 1, kSmall / 4, g_stream));
    TELL(cuMemsetD2D8(at, 128, 1, 64, 8));
  }
  TELL(cuMemcpy2D(&rows));
  TELL(cuMemcpy2DAsync(&rows, g_stream));
  TELL(cuStreamWriteValue32(g_stream, m.used, 1, 0));
}

void make_graphs(const Memory& m) {
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  CUgraphNode node = nullptr;
  CUcontext context = nullptr;
  CUDA_MEMSET_NODE_PARAMS set{};
  set.dst = m.unused;
  set.elementSize = 1;
  set.width = kSmall;
  set.height = 1;
  TELL(cuCtxGetCurrent(&context));
  TELL(cuGraphCreate(&graph, 0));
  TELL(cuGraphAddMemsetNode(&node, graph, nullptr, 0, &set, context));
  TELL(cuGraphInstantiate(&exec, graph, 0));
  TELL(cuGraphLaunch(exec, g_stream));
  TELL(cuStreamBeginCapture(g_stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  TELL(cuStreamEndCapture(g_stream, &graph));
}

void create() {
  CUmemGenericAllocationHandle handle = 0;
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  CUdeviceptr at = 0;
  TELL(cuMemCreate(&handle, kBytes, &properties, 0));
  TELL(cuMemAllocManaged(&at, kBytes, CU_MEM_ATTACH_GLOBAL));
}

void end(const Memory& m) {
  TELL(cuMemFreeAsync(m.ordered, g_stream));
  TELL(cuMemFreeAsync(m.used, nullptr));
  TELL(cuMemFree(m.used));
  TELL(cuMemFree(m.unused));
  TELL(cuMemFree(m.small));
  TELL(cuMemFree(m.used + 64));
  TELL(cuMemPoolDestroy(g_pool));
  TELL(cuStreamDestroy(g_stream));
  TELL(cuCtxSynchronize());
}

}  // namespace

int main() {
  CUcontext context = nullptr;
  NEED(cuInit(0));
  NEED(cuDevicePrimaryCtxRetain(&context, 0));
  NEED(cuCtxSetCurrent(context));
  NEED(cuStreamCreate(&g_stream, CU_STREAM_NON_BLOCKING));
  CUmemPoolProps pool{};
  pool.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  pool.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  NEED(cuMemPoolCreate(&g_pool, &pool));

  // Twice as much as the budget that the test gives: some of it is on the host.
  Memory m{};
  std::array<CUdeviceptr, 8> others{};
  NEED(cuMemAlloc(&m.used, kBytes));
  NEED(cuMemAlloc(&m.unused, kBytes));
  NEED(cuMemAlloc(&m.small, kSmall));
  NEED(cuMemAllocAsync(&m.ordered, kBytes, g_stream));
  NEED(cuMemsetD8(m.used, 1, kBytes));
  NEED(cuMemsetD8(m.small, 1, kSmall));
  NEED(cuMemsetD8Async(m.ordered, 1, kBytes, g_stream));
  for (CUdeviceptr& other : others) {
    NEED(cuMemAlloc(&other, kBytes));
    NEED(cuMemsetD8Async(other, 2, kBytes, g_stream));
  }
  NEED(cuCtxSynchronize());

  lose_device();
  TELL(cuCtxSynchronize());
  allocate();
  ask(m);
  use(m);
  make_graphs(m);
  create();
  end(m);
  return 0;
}
