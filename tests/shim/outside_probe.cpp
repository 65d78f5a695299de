// A program some of whose device memory is the driver's own under Tidepool: of contexts and pools that cannot
// be managed. Run by outside_test.cpp, one case per process.

#include <atomic>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/shim/probe.h"

namespace tidepool::test {
namespace {

CUdeviceptr filled(std::size_t size) {
  CUdeviceptr at = 0;
  EXPECT(DRIVER(cuMemAlloc_v2)(&at, size) == CUDA_SUCCESS);
  EXPECT(DRIVER(cuMemsetD8_v2)(at, 1, size) == CUDA_SUCCESS);
  return at;
}

// Of a device of 256 MiB, 200 MiB were managed, and are free again.
CUcontext used_and_freed() {
  const CUcontext primary = start();
  std::vector<CUdeviceptr> blocks;
  for (int i = 0; i < 10; ++i) blocks.push_back(filled(20 * kMiB));
  EXPECT(DRIVER(cuCtxSynchronize)() == CUDA_SUCCESS);
  for (const CUdeviceptr at : blocks) EXPECT(DRIVER(cuMemFree_v2)(at) == CUDA_SUCCESS);
  return primary;
}

CUcontext own_context() {
  CUcontext context = nullptr;
  EXPECT(DRIVER(cuCtxCreate_v4)(&context, nullptr, 0, 0) == CUDA_SUCCESS);
  return context;
}

void context_room() {
  used_and_freed();
  own_context();
  (void)filled(150 * kMiB);
}

CUmemoryPool new_pool(CUmemAllocationHandleType handles) {
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.handleTypes = handles;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  CUmemoryPool pool = nullptr;
  EXPECT(DRIVER(cuMemPoolCreate)(&pool, &properties) == CUDA_SUCCESS);
  return pool;
}

// A pool for other processes.
CUmemoryPool shared_pool() {
  return new_pool(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
}

// With a budget of 64 MiB. 127 pools are managed; what comes from others has room and is right all the same.
void many_pools() {
  start();
  std::vector<CUmemoryPool> pools;
  for (int i = 0; i < 130; ++i) pools.push_back(new_pool(CU_MEM_HANDLE_TYPE_NONE));
  std::vector<CUdeviceptr> blocks(pools.size());
  for (std::size_t i = 0; i < pools.size(); ++i) {
    EXPECT(DRIVER(cuMemAllocFromPoolAsync)(&blocks[i], 4 * kMiB, pools[i], nullptr) == CUDA_SUCCESS);
    EXPECT(DRIVER(cuMemsetD8Async)(blocks[i], static_cast<unsigned char>(i), 4 * kMiB, nullptr) ==
           CUDA_SUCCESS);
  }
  for (std::size_t i = 0; i < pools.size(); ++i) {
    unsigned char byte = 255;
    EXPECT(DRIVER(cuMemcpyDtoH_v2)(&byte, blocks[i] + 3 * kMiB, 1) == CUDA_SUCCESS && byte == i);
    EXPECT(DRIVER(cuMemFreeAsync)(blocks[i], nullptr) == CUDA_SUCCESS);
    EXPECT(DRIVER(cuMemPoolDestroy)(pools[i]) == CUDA_SUCCESS);
  }
}

cuuint64_t reserved(CUmemoryPool pool) {
  cuuint64_t bytes = 0;
  EXPECT(DRIVER(cuMemPoolGetAttribute)(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &bytes) == CUDA_SUCCESS);
  return bytes;
}

// CUDA programming guide, Physical Page Caching Behavior: what is not used goes at the next wait, but for the
// threshold.
void threshold() {
  start();
  const CUmemoryPool pool = new_pool(CU_MEM_HANDLE_TYPE_NONE);
  const auto use = [&] {
    CUdeviceptr at = 0;
    EXPECT(DRIVER(cuMemAllocFromPoolAsync)(&at, 8 * kMiB, pool, nullptr) == CUDA_SUCCESS);
    EXPECT(DRIVER(cuMemFreeAsync)(at, nullptr) == CUDA_SUCCESS);
  };
  use();
  EXPECT(reserved(pool) == 8 * kMiB);
  EXPECT(DRIVER(cuStreamSynchronize)(nullptr) == CUDA_SUCCESS && reserved(pool) == 0);
  cuuint64_t most = 6 * kMiB;
  EXPECT(DRIVER(cuMemPoolSetAttribute)(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &most) == CUDA_SUCCESS);
  use();
  EXPECT(DRIVER(cuCtxSynchronize)() == CUDA_SUCCESS && reserved(pool) == 6 * kMiB);
  most = ~cuuint64_t{0};
  EXPECT(DRIVER(cuMemPoolSetAttribute)(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &most) == CUDA_SUCCESS);
  use();
  EXPECT(DRIVER(cuCtxSynchronize)() == CUDA_SUCCESS && reserved(pool) == 8 * kMiB);
  // An allocation is not given back.
  most = 0;
  EXPECT(DRIVER(cuMemPoolSetAttribute)(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &most) == CUDA_SUCCESS);
  CUdeviceptr at = 0;
  EXPECT(DRIVER(cuMemAllocFromPoolAsync)(&at, 4 * kMiB, pool, nullptr) == CUDA_SUCCESS);
  EXPECT(DRIVER(cuCtxSynchronize)() == CUDA_SUCCESS && reserved(pool) == 4 * kMiB);
}

void pool_room() {
  used_and_freed();
  CUdeviceptr at = 0;
  EXPECT(DRIVER(cuMemAllocFromPoolAsync)(&at, 150 * kMiB, shared_pool(), nullptr) == CUDA_SUCCESS);
  EXPECT(DRIVER(cuMemsetD8_v2)(at, 1, 150 * kMiB) == CUDA_SUCCESS);
}

// More than there is, and then more than any device has: nothing that is managed leaves for it.
void too_much() {
  start();
  const CUdeviceptr at = filled(100 * kMiB);
  const CUcontext primary = [] {
    CUcontext current = nullptr;
    EXPECT(DRIVER(cuCtxGetCurrent)(&current) == CUDA_SUCCESS);
    return current;
  }();
  own_context();
  CUdeviceptr none = 0;
  EXPECT(DRIVER(cuMemAlloc_v2)(&none, 400 * kMiB) == CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT(DRIVER(cuMemAlloc_v2)(&none, std::size_t{1} << 50) == CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT(DRIVER(cuCtxSetCurrent)(primary) == CUDA_SUCCESS);
  EXPECT(DRIVER(cuMemsetD8_v2)(at, 2, 100 * kMiB) == CUDA_SUCCESS);
}

// With a budget of 64 MiB. What was allocated before anything was managed counts as well.
void counted() {
  start();  // or the program's own context would be the managed one
  const CUcontext own = own_context();
  (void)filled(8 * kMiB);
  start();
  (void)filled(24 * kMiB);
  (void)filled(24 * kMiB);
  EXPECT(DRIVER(cuCtxSetCurrent)(own) == CUDA_SUCCESS);
  (void)filled(30 * kMiB);
  start();
  CUdeviceptr at = 0;
  EXPECT(DRIVER(cuMemAllocFromPoolAsync)(&at, 8 * kMiB, shared_pool(), nullptr) == CUDA_SUCCESS);
  std::size_t free = 0;
  std::size_t total = 0;
  EXPECT(DRIVER(cuMemGetInfo_v2)(&free, &total) == CUDA_SUCCESS);
  EXPECT(total == 64 * kMiB && free == 0);
}

// With a budget of 64 MiB: one thread takes much, another little, which changes what is left of the budget
// while the first is at it; a third uses all that is left.
void promised() {
  static std::atomic<bool> stop{false};
  const CUcontext primary = start();
  std::vector<CUdeviceptr> blocks;
  for (int i = 0; i < 10; ++i) blocks.push_back(filled(6 * kMiB));
  const CUcontext own = own_context();
  const auto take = [own](std::size_t size, int times) {
    EXPECT(DRIVER(cuCtxSetCurrent)(own) == CUDA_SUCCESS);
    for (int i = 0; i < times; ++i) {
      CUdeviceptr at = 0;
      EXPECT(DRIVER(cuMemAlloc_v2)(&at, size) == CUDA_SUCCESS);
      EXPECT(DRIVER(cuMemFree_v2)(at) == CUDA_SUCCESS);
    }
  };
  std::thread much([&] { take(32 * kMiB, 25); });
  std::thread little([&] {
    while (!stop) take(kMiB, 1);
  });
  std::thread user([&] {
    EXPECT(DRIVER(cuCtxSetCurrent)(primary) == CUDA_SUCCESS);
    while (!stop) {
      for (const CUdeviceptr at : blocks)
        EXPECT(DRIVER(cuMemsetD8Async)(at, 3, 6 * kMiB, nullptr) == CUDA_SUCCESS);
    }
  });
  much.join();
  stop = true;
  little.join();
  user.join();
}

CUstream capturing() {
  CUstream stream = nullptr;
  EXPECT(DRIVER(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
  EXPECT(DRIVER(cuStreamBeginCapture_v2)(stream, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
  return stream;
}

CUgraphExec instance_of(CUgraph graph) {
  CUgraphExec instance = nullptr;
  EXPECT(DRIVER(cuGraphInstantiateWithFlags)(&instance, graph, 0) == CUDA_SUCCESS);
  return instance;
}

// A graph that allocates 40 MiB and fills them; by its stream, or by hand.
CUgraph captured_graph() {
  CUstream stream = capturing();
  CUdeviceptr at = 0;
  CUgraph graph = nullptr;
  EXPECT(DRIVER(cuMemAllocAsync)(&at, 40 * kMiB, stream) == CUDA_SUCCESS);
  EXPECT(DRIVER(cuMemsetD8Async)(at, 7, 40 * kMiB, stream) == CUDA_SUCCESS);
  EXPECT(DRIVER(cuMemFreeAsync)(at, stream) == CUDA_SUCCESS);
  EXPECT(DRIVER(cuStreamEndCapture)(stream, &graph) == CUDA_SUCCESS);
  return graph;
}
CUgraph made_graph() {
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  CUgraphNode end = nullptr;
  CUDA_MEM_ALLOC_NODE_PARAMS wanted{};
  wanted.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  wanted.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  wanted.bytesize = 40 * kMiB;
  EXPECT(DRIVER(cuGraphCreate)(&graph, 0) == CUDA_SUCCESS);
  EXPECT(DRIVER(cuGraphAddMemAllocNode)(&node, graph, nullptr, 0, &wanted) == CUDA_SUCCESS);
  EXPECT(DRIVER(cuGraphAddMemFreeNode)(&end, graph, &node, 1, wanted.dptr) == CUDA_SUCCESS);
  return graph;
}

std::size_t free_memory() {
  std::size_t free = 0;
  std::size_t total = 0;
  EXPECT(DRIVER(cuMemGetInfo_v2)(&free, &total) == CUDA_SUCCESS && total == 64 * kMiB);
  return free;
}

// With a budget of 64 MiB, of which 20 MiB are in use.
void graph_memory(CUgraph (*make)()) {
  start();
  const CUdeviceptr first = filled(10 * kMiB);
  (void)filled(10 * kMiB);
  EXPECT(free_memory() == 44 * kMiB);
  CUgraph graph = make();
  CUgraphExec instance = instance_of(graph);
  EXPECT(DRIVER(cuGraphUpload)(instance, nullptr) == CUDA_SUCCESS);
  for (int round = 0; round < 3; ++round) {
    EXPECT(DRIVER(cuGraphLaunch)(instance, nullptr) == CUDA_SUCCESS);
    EXPECT(DRIVER(cuMemsetD8_v2)(first, 5, 10 * kMiB) == CUDA_SUCCESS);
    EXPECT(DRIVER(cuCtxSynchronize)() == CUDA_SUCCESS);
  }
  EXPECT(free_memory() == 4 * kMiB);
  // Other memory makes do with what is left.
  for (int i = 0; i < 4; ++i) (void)filled(10 * kMiB);

  // More than the budget has beside it.
  CUstream stream = capturing();
  CUdeviceptr at = 0;
  CUgraph unfinished = nullptr;
  EXPECT(DRIVER(cuMemAllocAsync)(&at, 40 * kMiB, stream) == CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT(DRIVER(cuStreamEndCapture)(stream, &unfinished) == CUDA_SUCCESS);
  EXPECT(DRIVER(cuGraphDestroy)(unfinished) == CUDA_SUCCESS);

  // What graphs that are gone have left is room for others, and for everybody once it is trimmed.
  EXPECT(DRIVER(cuGraphExecDestroy)(instance) == CUDA_SUCCESS);
  EXPECT(DRIVER(cuGraphDestroy)(graph) == CUDA_SUCCESS);
  graph = make();
  EXPECT(DRIVER(cuGraphDestroy)(graph) == CUDA_SUCCESS);
  EXPECT(free_memory() == 0);
  EXPECT(DRIVER(cuDeviceGraphMemTrim)(0) == CUDA_SUCCESS);
  EXPECT(free_memory() == 4 * kMiB);
}

// With a budget of 64 MiB: a program that captures again and again, each time over other memory, 160 MiB in
// all. An instance is destroyed, or given the next graph, while its launch may still be under way.
void captured_again(bool updates) {
  constexpr std::size_t kSize = 16 * kMiB;
  start();
  CUstream stream = nullptr;
  EXPECT(DRIVER(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
  std::vector<CUdeviceptr> blocks(10);
  for (CUdeviceptr& at : blocks) at = filled(kSize);
  EXPECT(DRIVER(cuCtxSynchronize)() == CUDA_SUCCESS);
  CUgraphExec instance = nullptr;
  for (int round = 0; round < 3; ++round) {
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      CUgraph graph = nullptr;
      const auto value = static_cast<unsigned char>(16 * (round + 1) + static_cast<int>(i));
      EXPECT(DRIVER(cuStreamBeginCapture_v2)(stream, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
      EXPECT(DRIVER(cuMemsetD8Async)(blocks[i], value, kSize, stream) == CUDA_SUCCESS);
      EXPECT(DRIVER(cuStreamEndCapture)(stream, &graph) == CUDA_SUCCESS);
      if (instance != nullptr && updates) {
        CUgraphExecUpdateResultInfo info{};
        EXPECT(DRIVER(cuGraphExecUpdate_v2)(instance, graph, &info) == CUDA_SUCCESS);
      } else {
        instance = instance_of(graph);
      }
      EXPECT(DRIVER(cuGraphLaunch)(instance, stream) == CUDA_SUCCESS);
      if (!updates) EXPECT(DRIVER(cuGraphExecDestroy)(instance) == CUDA_SUCCESS);
      EXPECT(DRIVER(cuGraphDestroy)(graph) == CUDA_SUCCESS);
    }
  }
  EXPECT(DRIVER(cuStreamSynchronize)(stream) == CUDA_SUCCESS);
  std::vector<unsigned char> bytes(kSize);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    EXPECT(DRIVER(cuMemcpyDtoH_v2)(bytes.data(), blocks[i], kSize) == CUDA_SUCCESS);
    for (const unsigned char byte : bytes) EXPECT(byte == 48 + i);
  }
}

// On two devices with a budget of 64 MiB each: graphs that allocate on the second while the first is current,
// by its stream and by nodes for both.
void graph_of_two() {
  CUcontext contexts[2];
  CUstream stream = nullptr;
  EXPECT(DRIVER(cuInit)(0) == CUDA_SUCCESS);
  for (const int device : {0, 1}) {
    EXPECT(DRIVER(cuDevicePrimaryCtxRetain)(&contexts[device], device) == CUDA_SUCCESS);
    EXPECT(DRIVER(cuCtxSetCurrent)(contexts[device]) == CUDA_SUCCESS);
    for (int i = 0; i < 6; ++i) (void)filled(10 * kMiB);
  }
  EXPECT(DRIVER(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
  const auto free_on = [&](int device) {
    EXPECT(DRIVER(cuCtxSetCurrent)(contexts[device]) == CUDA_SUCCESS);
    return free_memory();
  };
  EXPECT(free_on(1) == 4 * kMiB && free_on(0) == 4 * kMiB);

  CUgraph graph = nullptr;
  CUdeviceptr at = 0;
  EXPECT(DRIVER(cuStreamBeginCapture_v2)(stream, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS);
  EXPECT(DRIVER(cuMemAllocAsync)(&at, 20 * kMiB, stream) == CUDA_SUCCESS);
  EXPECT(DRIVER(cuMemFreeAsync)(at, stream) == CUDA_SUCCESS);
  EXPECT(DRIVER(cuStreamEndCapture)(stream, &graph) == CUDA_SUCCESS);
  CUgraphExec instance = instance_of(graph);
  EXPECT(DRIVER(cuGraphLaunch)(instance, stream) == CUDA_SUCCESS);
  EXPECT(DRIVER(cuStreamSynchronize)(stream) == CUDA_SUCCESS);
  EXPECT(free_on(1) == 0 && free_on(0) == 4 * kMiB);
  EXPECT(DRIVER(cuGraphExecDestroy)(instance) == CUDA_SUCCESS);
  EXPECT(DRIVER(cuGraphDestroy)(graph) == CUDA_SUCCESS);
  for (const int device : {0, 1}) EXPECT(DRIVER(cuDeviceGraphMemTrim)(device) == CUDA_SUCCESS);
  EXPECT(free_on(1) == 4 * kMiB && free_on(0) == 4 * kMiB);

  CUgraphNode before = nullptr;
  EXPECT(DRIVER(cuGraphCreate)(&graph, 0) == CUDA_SUCCESS);
  for (const int device : {0, 1}) {
    CUDA_MEM_ALLOC_NODE_PARAMS wanted{};
    wanted.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    wanted.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device}};
    wanted.bytesize = static_cast<std::size_t>(20 + 10 * device) * kMiB;
    CUgraphNode node = nullptr;
    EXPECT(DRIVER(cuGraphAddMemAllocNode)(&node, graph, &before, before != nullptr, &wanted) == CUDA_SUCCESS);
    EXPECT(DRIVER(cuGraphAddMemFreeNode)(&before, graph, &node, 1, wanted.dptr) == CUDA_SUCCESS);
  }
  instance = instance_of(graph);
  // Trimmed, it is taken again by the launch.
  for (int round = 0; round < 3; ++round) {
    EXPECT(DRIVER(cuGraphLaunch)(instance, nullptr) == CUDA_SUCCESS);
    EXPECT(DRIVER(cuCtxSynchronize)() == CUDA_SUCCESS);
  }
  for (const int device : {0, 1}) {
    EXPECT(free_on(device) == 0);
    (void)filled(10 * kMiB);
  }
}

}  // namespace
}  // namespace tidepool::test

int main(int argc, char** argv) {
  using namespace tidepool::test;  // this file is the program
  const std::string_view which = argc == 2 ? argv[1] : "";
  if (which == "context_room")
    context_room();
  else if (which == "pool_room")
    pool_room();
  else if (which == "many_pools")
    many_pools();
  else if (which == "threshold")
    threshold();
  else if (which == "too_much")
    too_much();
  else if (which == "counted")
    counted();
  else if (which == "promised")
    promised();
  else if (which == "captured_graph")
    graph_memory(&captured_graph);
  else if (which == "made_graph")
    graph_memory(&made_graph);
  else if (which == "graph_of_two")
    graph_of_two();
  else if (which == "captured_again")
    captured_again(false);
  else if (which == "updated_again")
    captured_again(true);
  else
    return 2;
  std::puts("as expected");
  return 0;
}
