// Copies of rows and slices, and memsets.

#include <cstring>

#include "tests/conformance/device.h"

#define COPY "CUDA Driver API, Memory Management: "
#define SYNC "CUDA Driver API, API synchronization behavior, Memset"

namespace conformance {
namespace {

/// What a copy of rows or slices has in common here: from `src` to `dst`, `width` bytes of `height` rows.
template <class Copy>
Copy between(CUmemorytype from, const void* src, CUmemorytype to, const void* dst) {
  Copy copy{};
  copy.srcMemoryType = from;
  copy.dstMemoryType = to;
  copy.srcHost = src;
  copy.srcDevice = reinterpret_cast<CUdeviceptr>(src);
  copy.dstHost = const_cast<void*>(dst);
  copy.dstDevice = reinterpret_cast<CUdeviceptr>(dst);
  return copy;
}

const void* pointer(CUdeviceptr address) {
  return reinterpret_cast<const void*>(address);
}

std::vector<unsigned char> bytes_of(CUdeviceptr from, std::size_t count) {
  std::vector<unsigned char> bytes(count);
  OK(CU(cuCtxSynchronize)());
  OK(CU(cuMemcpyDtoH)(bytes.data(), from, count));
  return bytes;
}

CUdeviceptr filled(std::size_t bytes, unsigned char value) {
  const CUdeviceptr memory = allocate(bytes);
  OK(CU(cuMemsetD8)(memory, value, bytes));
  return memory;
}

constexpr auto kHost = CU_MEMORYTYPE_HOST;
constexpr auto kDevice = CU_MEMORYTYPE_DEVICE;

/// Copies 5 rows of 10 bytes from (3, 1) of rows of 32 bytes to (7, 2) of rows of 64 bytes.
CUDA_MEMCPY2D window(CUmemorytype from, const void* src, CUmemorytype to, const void* dst) {
  auto copy = between<CUDA_MEMCPY2D>(from, src, to, dst);
  copy.srcXInBytes = 3;
  copy.srcY = 1;
  copy.srcPitch = 32;
  copy.dstXInBytes = 7;
  copy.dstY = 2;
  copy.dstPitch = 64;
  copy.WidthInBytes = 10;
  copy.Height = 5;
  return copy;
}

unsigned char source_byte(std::size_t x, std::size_t y) {
  return static_cast<unsigned char>(1 + y * 32 + x);
}

std::vector<unsigned char> source() {
  std::vector<unsigned char> bytes(32 * 6);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = source_byte(i % 32, i / 32);
  return bytes;
}

/// Expects the window, and zeros around it.
void expect_window(const std::vector<unsigned char>& bytes) {
  for (std::size_t y = 0; y < 8; ++y) {
    for (std::size_t x = 0; x < 64; ++x) {
      const bool inside = x >= 7 && x < 17 && y >= 2 && y < 7;
      const unsigned char want = inside ? source_byte(x - 7 + 3, y - 2 + 1) : 0;
      if (bytes[y * 64 + x] != want)
        fail(__FILE__, __LINE__, "byte " + std::to_string(x) + " of row " + std::to_string(y));
    }
  }
}

}  // namespace

CASE("copy2d.a_window_goes_from_host_to_device", COPY "cuMemcpy2D") {
  use_device();
  const CUdeviceptr memory = filled(64 * 8, 0);
  const std::vector<unsigned char> in = source();
  const CUDA_MEMCPY2D copy = window(kHost, in.data(), kDevice, pointer(memory));
  OK(CU(cuMemcpy2D)(&copy));
  expect_window(bytes_of(memory, 64 * 8));
}

CASE("copy2d.a_window_goes_from_device_to_host", COPY "cuMemcpy2D") {
  use_device();
  const CUdeviceptr memory = allocate(32 * 6);
  const std::vector<unsigned char> in = source();
  OK(CU(cuMemcpyHtoD)(memory, in.data(), in.size()));
  std::vector<unsigned char> out(64 * 8, 0);
  const CUDA_MEMCPY2D copy = window(kDevice, pointer(memory), kHost, out.data());
  OK(CU(cuMemcpy2D)(&copy));
  expect_window(out);
}

CASE("copy2d.any_pitch_works_unaligned", COPY "cuMemcpy2DUnaligned") {
  use_device();
  const CUdeviceptr one = allocate(32 * 6);
  const CUdeviceptr two = filled(64 * 8, 0);
  const std::vector<unsigned char> in = source();
  OK(CU(cuMemcpyHtoD)(one, in.data(), in.size()));
  const CUDA_MEMCPY2D copy = window(kDevice, pointer(one), kDevice, pointer(two));
  OK(CU(cuMemcpy2DUnaligned)(&copy));
  expect_window(bytes_of(two, 64 * 8));
}

CASE_ORDER("copy2d.the_asynchronous_form_follows_its_stream", COPY "cuMemcpy2DAsync") {
  use_device();
  const CUstream stream = make_stream(CU_STREAM_NON_BLOCKING);
  CUdeviceptr one = 0;
  std::size_t pitch = 0;
  OK(CU(cuMemAllocPitch)(&one, &pitch, 400, 16, 4));
  const CUdeviceptr two = allocate(400 * 16);
  for (unsigned y = 0; y < 16; ++y) slow_fill(one + y * pitch, 100, 1 + 100 * y, stream);
  auto copy = between<CUDA_MEMCPY2D>(kDevice, pointer(one), CU_MEMORYTYPE_UNIFIED, pointer(two));
  copy.srcPitch = pitch;
  copy.dstPitch = copy.WidthInBytes = 400;
  copy.Height = 16;
  OK(CU(cuMemcpy2DAsync)(&copy, stream));
  fill(one, 100, 9000, stream);
  EXPECT_WORDS(two, 1600, 1);
}

CASE("copy2d.rows_are_not_wider_than_the_pitch", COPY "cuMemcpy2D") {
  use_device();
  const CUdeviceptr memory = filled(64 * 8, 0);
  const std::vector<unsigned char> in = source();
  CUDA_MEMCPY2D copy = window(kHost, in.data(), kDevice, pointer(memory));
  copy.srcPitch = 12;
  REFUSES(CU(cuMemcpy2D)(&copy), CUDA_ERROR_INVALID_VALUE);
  copy = window(kHost, in.data(), kDevice, pointer(memory));
  copy.dstPitch = 16;
  REFUSES(CU(cuMemcpy2D)(&copy), CUDA_ERROR_INVALID_VALUE);
}

CASE("copy3d.slices_have_pitch_and_height", COPY "cuMemcpy3D") {
  use_device();
  // 2 slices of 3 rows of 4 bytes, out of slices of 5 rows of 8 bytes, into slices of 4 rows of 16 bytes.
  std::vector<unsigned char> in(3 * 5 * 8);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<unsigned char>(i);
  const CUdeviceptr memory = filled(3 * 4 * 16, 255);
  auto copy = between<CUDA_MEMCPY3D>(kHost, in.data(), kDevice, pointer(memory));
  copy.srcXInBytes = 2;
  copy.srcY = 1;
  copy.srcZ = 1;
  copy.srcPitch = 8;
  copy.srcHeight = 5;
  copy.dstXInBytes = 6;
  copy.dstY = 1;
  copy.dstZ = 1;
  copy.dstPitch = 16;
  copy.dstHeight = 4;
  copy.WidthInBytes = 4;
  copy.Height = 3;
  copy.Depth = 2;
  OK(CU(cuMemcpy3D)(&copy));
  const std::vector<unsigned char> out = bytes_of(memory, 3 * 4 * 16);
  for (std::size_t z = 0; z < 3; ++z) {
    for (std::size_t y = 0; y < 4; ++y) {
      for (std::size_t x = 0; x < 16; ++x) {
        const bool inside = z >= 1 && y >= 1 && x >= 6 && x < 10;
        const std::size_t want = inside ? ((z - 1 + 1) * 5 + (y - 1 + 1)) * 8 + (x - 6 + 2) : 255;
        EXPECT_EQ(std::size_t{out[(z * 4 + y) * 16 + x]}, want);
      }
    }
  }
}

CASE_ORDER("copy3d.the_asynchronous_form_follows_its_stream", COPY "cuMemcpy3DAsync") {
  use_device();
  const CUstream stream = make_stream(CU_STREAM_NON_BLOCKING);
  const CUdeviceptr one = allocate(64 * kKiB);
  const CUdeviceptr two = allocate(64 * kKiB);
  slow_fill(one, 16384, 4, stream);
  auto copy = between<CUDA_MEMCPY3D>(kDevice, pointer(one), kDevice, pointer(two));
  copy.srcPitch = copy.dstPitch = copy.WidthInBytes = 1024;
  copy.srcHeight = copy.dstHeight = copy.Height = 8;
  copy.Depth = 8;
  OK(CU(cuMemcpy3DAsync)(&copy, stream));
  affine(two, 16384, 1, 1, stream);
  EXPECT_WORDS(two, 16384, 5);
}

CASE("copy2d.the_runtimes_form_is_the_same",
     "CUDA Runtime API, Memory Management: cudaMemcpy2D, cudaMemcpy2DAsync") {
  use_device();
  const CUdeviceptr memory = filled(64 * 8, 0);
  const std::vector<unsigned char> in = source();
  auto* to = reinterpret_cast<unsigned char*>(memory) + 2 * 64 + 7;
  OK(RT(cudaMemcpy2D)(to, 64, in.data() + 32 + 3, 32, 10, 5, cudaMemcpyHostToDevice));
  expect_window(bytes_of(memory, 64 * 8));
  std::vector<unsigned char> out(64 * 8, 0);
  OK(RT(cudaMemcpy2DAsync)(out.data() + 2 * 64 + 7, 64, to, 64, 10, 5, cudaMemcpyDeviceToHost, nullptr));
  expect_window(out);
  FAILS(RT(cudaMemcpy2D)(to, 8, in.data(), 32, 10, 5, cudaMemcpyHostToDevice));
}

CASE("memset.values_of_8_16_and_32_bits", COPY "cuMemsetD8, cuMemsetD16, cuMemsetD32") {
  use_device();
  const CUdeviceptr memory = filled(64, 0);
  OK(CU(cuMemsetD8)(memory + 1, 0xab, 3));
  OK(CU(cuMemsetD16)(memory + 6, 0x1234, 2));
  OK(CU(cuMemsetD32)(memory + 12, 0xdeadbeef, 2));
  const std::vector<unsigned char> bytes = bytes_of(memory, 24);
  const unsigned char want[24] = {0,    0xab, 0xab, 0xab, 0,    0,    0x34, 0x12, 0x34, 0x12, 0, 0,
                                  0xef, 0xbe, 0xad, 0xde, 0xef, 0xbe, 0xad, 0xde, 0,    0,    0, 0};
  EXPECT(std::memcmp(bytes.data(), want, 24) == 0);
}

CASE("memset.addresses_are_aligned_to_the_value", COPY "cuMemsetD16, cuMemsetD32") {
  use_device();
  const CUdeviceptr memory = filled(64, 0);
  FAILS(CU(cuMemsetD16)(memory + 1, 1, 1));
  FAILS(CU(cuMemsetD32)(memory + 2, 1, 1));
  OK(CU(cuMemsetD16)(memory + 2, 1, 1));
}

CASE("memset.rows_leave_the_rest_of_the_pitch", COPY "cuMemsetD2D8, cuMemsetD2D16, cuMemsetD2D32") {
  use_device();
  const CUdeviceptr memory = filled(3 * 512 * 4, 0);
  OK(CU(cuMemsetD2D8)(memory, 512, 7, 5, 4));
  OK(CU(cuMemsetD2D16)(memory + 512 * 4, 512, 0x0707, 5, 4));
  OK(CU(cuMemsetD2D32)(memory + 2 * 512 * 4, 512, 0x07070707, 5, 4));
  const std::vector<unsigned char> bytes = bytes_of(memory, 3 * 512 * 4);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const std::size_t width = 5u << (i / (512 * 4));
    EXPECT_EQ(unsigned{bytes[i]}, i % 512 < width ? 7u : 0u);
  }
}

CASE_ORDER("memset.asynchronous_forms_follow_their_stream", COPY "cuMemsetD32Async, cuMemsetD2D8Async") {
  use_device();
  const CUstream stream = make_stream(CU_STREAM_NON_BLOCKING);
  const CUdeviceptr memory = allocate(4 * kKiB);
  slow_fill(memory, 1024, 3, stream);
  OK(CU(cuMemsetD32Async)(memory, 20, 512, stream));
  OK(CU(cuMemsetD2D8Async)(memory + 4 * 512, 512, 0, 4, 4, stream));
  affine(memory, 1024, 1, 1, stream);
  const std::vector<unsigned> words = read_words(memory, 1024);
  EXPECT_EQ(words[511], 21u);
  EXPECT_EQ(words[512], 1u);
  EXPECT_EQ(words[513], 3u + 513 + 1);
  EXPECT_EQ(words[640], 1u);
}

CASE_ORDER("memset.the_synchronous_form_uses_the_legacy_stream",
           "CUDA Driver API, Stream synchronization behavior") {
  use_device();
  const CUstream stream = make_stream();
  const CUdeviceptr memory = allocate(4 * kKiB);
  slow_fill(memory, 1024, 3, stream);
  OK(CU(cuMemsetD32)(memory, 30, 1024));
  affine(memory, 1024, 1, 1, stream);
  for (const unsigned word : read_words(memory, 1024)) EXPECT_EQ(word, 31u);
}

CASE_ORDER("memset.of_pinned_host_memory_is_over_on_return", SYNC) {
  use_device();
  unsigned* host = pinned_words(1024);
  const auto memory = reinterpret_cast<CUdeviceptr>(host);
  slow_fill(memory, 1024, 3);
  OK(CU(cuMemsetD32)(memory, 77, 1024));
  EXPECT_EQ(host[0], 77u);
  EXPECT_EQ(host[1023], 77u);
}

CASE("memset.the_runtimes_form_sets_bytes",
     "CUDA Runtime API, Memory Management: cudaMemset, cudaMemsetAsync") {
  use_device();
  const CUdeviceptr memory = filled(64, 0);
  OK(RT(cudaMemset)(reinterpret_cast<void*>(memory), 0x105, 8));
  OK(RT(cudaMemsetAsync)(reinterpret_cast<void*>(memory + 4), 6, 4, nullptr));
  EXPECT_EQ(read_word(memory), 0x05050505u);
  EXPECT_EQ(read_word(memory + 4), 0x06060606u);
  EXPECT_EQ(read_word(memory + 8), 0u);
}

}  // namespace conformance
