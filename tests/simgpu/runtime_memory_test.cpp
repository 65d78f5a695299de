// Memory, copies and memsets of the runtime. Documentation: CUDA Runtime API, pages "Memory Management",
// "Unified Addressing" and "Peer Device Memory Access".

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <numeric>
#include <vector>

#include "tests/simgpu/runtime_process.h"

namespace {

using namespace simgpu_test;

cudaExtent box(std::size_t width, std::size_t height, std::size_t depth) {
  return {width, height, depth};
}
cudaPos at(std::size_t x, std::size_t y, std::size_t z) {
  return {x, y, z};
}
cudaPitchedPtr pitched(void* pointer, std::size_t pitch, std::size_t width, std::size_t height) {
  return {pointer, pitch, width, height};
}

std::vector<unsigned char> numbers(std::size_t n) {
  std::vector<unsigned char> bytes(n);
  std::iota(bytes.begin(), bytes.end(), static_cast<unsigned char>(1));
  return bytes;
}

std::vector<unsigned char> read(const void* from, std::size_t n) {
  std::vector<unsigned char> bytes(n);
  RT(cudaMemcpy(bytes.data(), from, n, cudaMemcpyDefault));
  return bytes;
}

/// How many of the bytes of a pitched allocation have a value.
std::size_t count(const cudaPitchedPtr& p, std::size_t slices, unsigned char value) {
  const auto bytes = read(p.ptr, p.pitch * p.ysize * slices);
  return static_cast<std::size_t>(std::count(bytes.begin(), bytes.end(), value));
}

}  // namespace

TEST_CASE("runtime: memory of no bytes is a null pointer, and freeing that does nothing") {
  on_device(runtime_setup(), [] {
    void* block = &block;
    RT(cudaMalloc(&block, 0));
    EXPECT(block == nullptr);
    RT(cudaFree(nullptr));
    RT(cudaFreeHost(nullptr));
    RT_RESULT(cudaMalloc(nullptr, 1), cudaErrorInvalidValue);
    RT(cudaMalloc(&block, 1));
    RT(cudaFree(block));
    RT_RESULT(cudaFree(block), cudaErrorInvalidValue);
    return 0;
  });
}

TEST_CASE("runtime: pitched memory has its rows a pitch apart") {
  on_device(runtime_setup(), [] {
    void* rows = nullptr;
    std::size_t pitch = 0;
    RT(cudaMallocPitch(&rows, &pitch, 100, 8));
    EXPECT(pitch >= 100);
    cudaPitchedPtr p{};
    RT(cudaMalloc3D(&p, box(100, 8, 3)));
    EXPECT(p.ptr != nullptr && p.pitch >= 100 && p.xsize == 100 && p.ysize == 8);
    cudaPitchedPtr kept{reinterpret_cast<void*>(1), 2, 3, 4};
    RT_RESULT(cudaMalloc3D(&kept, box(1 << 20, std::size_t{1} << 40, std::size_t{1} << 40)),
              cudaErrorMemoryAllocation);
    EXPECT(kept.pitch == 2);
    RT_RESULT(cudaMalloc3D(nullptr, box(1, 1, 1)), cudaErrorInvalidValue);
    return 0;
  });
}

TEST_CASE("runtime: a memset of slices touches its box and nothing else") {
  on_device(runtime_setup(), [] {
    cudaPitchedPtr p{};
    RT(cudaMalloc3D(&p, box(64, 8, 3)));
    RT(cudaMemset(p.ptr, 0, p.pitch * 8 * 3));
    RT(cudaMemset3D(p, 0x107, box(10, 5, 3)));  // only the low byte counts
    EXPECT(count(p, 3, 7) == 10 * 5 * 3);
    const auto bytes = read(p.ptr, p.pitch * 8 * 3);
    EXPECT(bytes[0] == 7 && bytes[9] == 7 && bytes[10] == 0);
    EXPECT(bytes[p.pitch * 4] == 7 && bytes[p.pitch * 5] == 0 && bytes[p.pitch * 8] == 7);
    RT(cudaMemset3D(p, 9, box(10, 8, 2)));
    EXPECT(count(p, 3, 9) == 10 * 8 * 2);
    RT(cudaMemset3DAsync(p, 5, box(3, 2, 2), nullptr));
    RT(cudaDeviceSynchronize());
    EXPECT(count(p, 3, 5) == 3 * 2 * 2);
    RT(cudaMemset3D(p, 1, box(0, 8, 2)));
    EXPECT(count(p, 3, 1) == 0);
    RT_RESULT(cudaMemset3D(p, 1, box(p.pitch + 1, 1, 1)), cudaErrorInvalidValue);
    return 0;
  });
}

TEST_CASE("runtime: a copy of slices takes a box out of one layout and puts it into another") {
  on_device(runtime_setup(), [] {
    // 3 slices of 4 rows of 16 bytes on the host; a box of 2 x 3 rows of 5 bytes goes to (7, 1, 0) on the
    // device.
    auto host = numbers(16 * 4 * 3);
    cudaPitchedPtr p{};
    RT(cudaMalloc3D(&p, box(32, 6, 2)));
    RT(cudaMemset(p.ptr, 0, p.pitch * 6 * 2));
    cudaMemcpy3DParms c{};
    c.srcPtr = pitched(host.data(), 16, 16, 4);
    c.srcPos = at(2, 1, 1);
    c.dstPtr = p;
    c.dstPos = at(7, 1, 0);
    c.extent = box(5, 3, 2);
    c.kind = cudaMemcpyHostToDevice;
    RT(cudaMemcpy3D(&c));
    const auto bytes = read(p.ptr, p.pitch * 6 * 2);
    for (std::size_t z = 0; z < 2; ++z)
      for (std::size_t y = 0; y < 3; ++y)
        for (std::size_t x = 0; x < 5; ++x)
          EXPECT(bytes[(z * 6 + y + 1) * p.pitch + x + 7] == host[((z + 1) * 4 + y + 1) * 16 + x + 2]);
    EXPECT(bytes[p.pitch + 6] == 0 && bytes[p.pitch + 12] == 0 && bytes[7] == 0);
    // The same box by way of an asynchronous copy, back to the host.
    std::vector<unsigned char> back(5 * 3 * 2);
    cudaMemcpy3DParms out{};
    out.srcPtr = p;
    out.srcPos = c.dstPos;
    out.dstPtr = pitched(back.data(), 5, 5, 3);
    out.extent = c.extent;
    out.kind = cudaMemcpyDefault;
    RT(cudaMemcpy3DAsync(&out, nullptr));
    RT(cudaDeviceSynchronize());
    EXPECT(back[0] == host[16 * 5 + 2] && back[29] == host[(2 * 4 + 3) * 16 + 6]);
    return 0;
  });
}

TEST_CASE("runtime: a copy in an unknown direction is refused by the runtime's own word") {
  on_device(runtime_setup(), [] {
    char a = 0;
    char b = 0;
    const auto wrong = static_cast<cudaMemcpyKind>(7);
    RT_RESULT(cudaMemcpy(&a, &b, 1, wrong), cudaErrorInvalidMemcpyDirection);
    RT_RESULT(cudaMemcpyAsync(&a, &b, 1, wrong, nullptr), cudaErrorInvalidMemcpyDirection);
    RT_RESULT(cudaMemcpy2D(&a, 1, &b, 1, 1, 1, wrong), cudaErrorInvalidMemcpyDirection);
    RT_RESULT(cudaMemcpy2DAsync(&a, 1, &b, 1, 1, 1, wrong, nullptr), cudaErrorInvalidMemcpyDirection);
    cudaMemcpy3DParms c{};
    c.kind = wrong;
    RT_RESULT(cudaMemcpy3D(&c), cudaErrorInvalidMemcpyDirection);
    RT_RESULT(cudaMemcpy3D(nullptr), cudaErrorInvalidValue);
    RT_RESULT(cudaMemcpy3DAsync(nullptr, nullptr), cudaErrorInvalidValue);
    c.kind = cudaMemcpyDefault;
    c.srcArray = reinterpret_cast<cudaArray_t>(1);
    RT_RESULT(cudaMemcpy3D(&c), cudaErrorNotSupported);
    return 0;
  });
}

TEST_CASE("runtime: copies between devices name both") {
  on_device(runtime_setup(2), [] {
    const auto bytes = numbers(1000);
    void* first = nullptr;
    void* second = nullptr;
    RT(cudaMalloc(&first, bytes.size()));
    RT(cudaMemcpy(first, bytes.data(), bytes.size(), cudaMemcpyHostToDevice));
    RT(cudaDeviceSynchronize());
    RT(cudaSetDevice(1));
    RT(cudaMalloc(&second, bytes.size()));
    RT(cudaMemcpyPeer(second, 1, first, 0, bytes.size()));
    EXPECT(read(second, bytes.size()) == bytes);
    RT(cudaMemset(second, 0, bytes.size()));
    RT(cudaDeviceSynchronize());
    RT(cudaMemcpyPeerAsync(second, 1, first, 0, bytes.size(), nullptr));
    RT(cudaDeviceSynchronize());
    EXPECT(read(second, bytes.size()) == bytes);
    RT_RESULT(cudaMemcpyPeer(second, 2, first, 0, 1), cudaErrorInvalidDevice);
    RT_RESULT(cudaMemcpyPeer(second, 1, first, -1, 1), cudaErrorInvalidDevice);
    return 0;
  });
}

TEST_CASE("runtime: peer access is switched on and off once, and never for the device itself") {
  on_device(runtime_setup(2), [] {
    int can = 0;
    RT(cudaDeviceCanAccessPeer(&can, 0, 1));
    EXPECT(can == 1);
    RT_RESULT(cudaDeviceDisablePeerAccess(1), cudaErrorPeerAccessNotEnabled);
    RT(cudaDeviceEnablePeerAccess(1, 0));
    RT_RESULT(cudaDeviceEnablePeerAccess(1, 0), cudaErrorPeerAccessAlreadyEnabled);
    RT(cudaDeviceDisablePeerAccess(1));
    RT_RESULT(cudaDeviceEnablePeerAccess(0, 0), cudaErrorInvalidDevice);
    RT_RESULT(cudaDeviceEnablePeerAccess(2, 0), cudaErrorInvalidDevice);
    RT_RESULT(cudaDeviceEnablePeerAccess(1, 1), cudaErrorInvalidValue);
    return 0;
  });
}

TEST_CASE("runtime: pointers say what they are") {
  on_device(runtime_setup(), [] {
    void* device = nullptr;
    void* pinned = nullptr;
    int local = 0;
    cudaPointerAttributes a{};
    RT(cudaMalloc(&device, 64));
    RT(cudaHostAlloc(&pinned, 64, cudaHostAllocMapped));
    RT(cudaPointerGetAttributes(&a, static_cast<char*>(device) + 9));
    EXPECT(a.type == cudaMemoryTypeDevice && a.devicePointer == static_cast<char*>(device) + 9);
    RT(cudaPointerGetAttributes(&a, static_cast<char*>(pinned) + 9));
    EXPECT(a.type == cudaMemoryTypeHost && a.hostPointer == static_cast<char*>(pinned) + 9);
    EXPECT(a.devicePointer != nullptr);
    RT(cudaPointerGetAttributes(&a, &local));
    EXPECT(a.type == cudaMemoryTypeUnregistered && a.hostPointer == &local);
    RT_RESULT(cudaPointerGetAttributes(nullptr, device), cudaErrorInvalidValue);
    return 0;
  });
}
