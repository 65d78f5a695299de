// Every form of a copy and of a memset.

#include <algorithm>

#include "tests/sim/faults/device.h"

namespace tidepool::faults {
namespace {

constexpr std::size_t kBytes = kWords * sizeof(unsigned);

void fill(std::vector<unsigned>* words, unsigned value) {
  for (unsigned i = 0; i < words->size(); ++i) (*words)[i] = value + i;
}

CUdeviceptr address(std::vector<unsigned>* words) {
  return reinterpret_cast<CUdeviceptr>(words->data());
}

/// kBytes in four rows without gaps, from host memory where `from` is null.
template <class Copy>
Copy rows(CUdeviceptr to, CUdeviceptr from, const void* host) {
  Copy copy{};
  copy.srcMemoryType = host != nullptr ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
  copy.srcHost = host;
  copy.srcDevice = from;
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = to;
  copy.srcPitch = copy.dstPitch = copy.WidthInBytes = kBytes / 4;
  copy.Height = 4;
  return copy;
}

CUDA_MEMCPY3D box(CUdeviceptr to, CUdeviceptr from, const void* host) {
  auto copy = rows<CUDA_MEMCPY3D>(to, from, host);
  copy.srcHeight = copy.dstHeight = copy.Height = 2;
  copy.Depth = 2;
  return copy;
}

void batches(const Device& device, CUdeviceptr to, CUdeviceptr from, unsigned value) {
  CUmemcpyAttributes how{};
  how.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  std::size_t first = 0, failed = 0, size = kBytes;
  CALL(cuMemcpyBatchAsync)
  (&to, &from, &size, std::size_t{1}, &how, &first, std::size_t{1}, &failed, device.stream);
  device.expect(to, value);
  device.write(from, value + 1);
  CALL(cuMemcpyBatchAsync_v2)(&to, &from, &size, std::size_t{1}, &how, &first, std::size_t{1}, device.stream);
  device.expect(to, value + 1);
  CUDA_MEMCPY3D_BATCH_OP op{};
  op.src.type = op.dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
  op.src.op.ptr.ptr = from;
  op.dst.op.ptr.ptr = to;
  op.extent = {kBytes, 1, 1};
  op.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  device.write(from, value + 2);
  CALL(cuMemcpy3DBatchAsync)(std::size_t{1}, &op, &failed, 0ull, device.stream);
  device.expect(to, value + 2);
  device.write(from, value + 3);
  CALL(cuMemcpy3DBatchAsync_v2)(std::size_t{1}, &op, 0ull, device.stream);
  device.expect(to, value + 3);
}

}  // namespace

void copies(const Device& device, unsigned round) {
  const Memory one(2 * kMiB);
  const Memory two(3 * kMiB);
  const Pinned pinned;
  std::vector<unsigned> host(kWords);
  unsigned value = 100 * round;
  const auto next = [&] { fill(&host, ++value), std::copy(host.begin(), host.end(), pinned.words); };
  const CUstream stream = device.stream;

  next(), CALL(cuMemcpyHtoD_v2)(one.at, static_cast<const void*>(host.data()), kBytes);
  CALL(cuMemcpyDtoD_v2)(two.at, one.at, kBytes);
  CALL(cuCtxSynchronize)();
  device.expect(two.at, value);
  next(), CALL(cuMemcpy)(one.at, address(&host), kBytes);
  CALL(cuMemcpyPeer)(two.at, device.context, one.at, device.context, kBytes);
  CALL(cuCtxSynchronize)();
  device.expect(two.at, value);
  next();
  const auto flat = rows<CUDA_MEMCPY2D>(one.at, 0, host.data());
  CALL(cuMemcpy2D_v2)(&flat);
  device.expect(one.at, value);
  next(), CALL(cuMemcpy2DUnaligned_v2)(&flat);
  device.expect(one.at, value);
  next();
  const CUDA_MEMCPY3D deep = box(one.at, 0, host.data());
  CALL(cuMemcpy3D_v2)(&deep);
  device.expect(one.at, value);

  next(), CALL(cuMemcpyHtoDAsync_v2)(one.at, static_cast<const void*>(pinned.words), kBytes, stream);
  CALL(cuMemcpyDtoDAsync_v2)(two.at, one.at, kBytes, stream);
  device.expect(two.at, value);
  next(), CALL(cuMemcpyAsync)(one.at, pinned.at(), kBytes, stream);
  CALL(cuMemcpyPeerAsync)(two.at, device.context, one.at, device.context, kBytes, stream);
  device.expect(two.at, value);
  const auto flat_async = rows<CUDA_MEMCPY2D>(two.at, one.at, nullptr);
  device.write(one.at, ++value);
  CALL(cuMemcpy2DAsync_v2)(&flat_async, stream);
  device.expect(two.at, value);
  const CUDA_MEMCPY3D deep_async = box(two.at, one.at, nullptr);
  device.write(one.at, ++value);
  CALL(cuMemcpy3DAsync_v2)(&deep_async, stream);
  CALL(cuMemcpyDtoHAsync_v2)(static_cast<void*>(pinned.words), two.at, kBytes, stream);
  device.wait();
  for (unsigned i = 0; i < kWords; ++i) EXPECT(pinned.words[i] == value + i);
  device.write(one.at, ++value);
  batches(device, two.at, one.at, value);
}

void memsets(const Device& device, unsigned round) {
  const Memory memory(2 * kMiB);
  const CUdeviceptr at = memory.at;
  const CUstream stream = device.stream;
  const std::size_t two = 2;
  const auto byte = static_cast<unsigned char>(round);
  const auto half = static_cast<unsigned short>(3 * round);
  const auto word = [&](unsigned index) {
    device.wait();
    unsigned read = 0;
    CALL(cuMemcpyDtoH_v2)(static_cast<void*>(&read), at + 4 * std::size_t{index}, sizeof read);
    return read;
  };
  // Twice the same places: once at once, once in the stream.
  for (const unsigned add : {0u, 1u}) {
    const auto b = static_cast<unsigned char>(byte + add);
    const auto h = static_cast<unsigned short>(half + add);
    const unsigned w = round + add;
    if (add == 0) {
      CALL(cuMemsetD8_v2)(at, b, std::size_t{4});
      CALL(cuMemsetD16_v2)(at + 4, h, two);
      CALL(cuMemsetD32_v2)(at + 8, w, two);
      CALL(cuMemsetD2D8_v2)(at + 16, std::size_t{4}, b, std::size_t{4}, two);
      CALL(cuMemsetD2D16_v2)(at + 24, std::size_t{4}, h, two, two);
      CALL(cuMemsetD2D32_v2)(at + 32, std::size_t{4}, w, std::size_t{1}, two);
      CALL(cuCtxSynchronize)();
    } else {
      CALL(cuMemsetD8Async)(at, b, std::size_t{4}, stream);
      CALL(cuMemsetD16Async)(at + 4, h, two, stream);
      CALL(cuMemsetD32Async)(at + 8, w, two, stream);
      CALL(cuMemsetD2D8Async)(at + 16, std::size_t{4}, b, std::size_t{4}, two, stream);
      CALL(cuMemsetD2D16Async)(at + 24, std::size_t{4}, h, two, two, stream);
      CALL(cuMemsetD2D32Async)(at + 32, std::size_t{4}, w, std::size_t{1}, two, stream);
    }
    for (const unsigned i : {0u, 4u, 5u}) EXPECT(word(i) == b * 0x01010101u);
    for (const unsigned i : {1u, 6u, 7u}) EXPECT(word(i) == h * 0x00010001u);
    for (const unsigned i : {2u, 3u, 8u, 9u}) EXPECT(word(i) == w);
  }
}

}  // namespace tidepool::faults
