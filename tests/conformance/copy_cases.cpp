// Copies: every form, and when they return.

#include <cstring>

#include "tests/conformance/device.h"

#define COPY "CUDA Driver API, Memory Management: "
#define SYNC "CUDA Driver API, API synchronization behavior, Memcpy, "

namespace conformance {
namespace {

std::vector<unsigned> counted(std::size_t words, unsigned first) {
  std::vector<unsigned> v(words);
  for (std::size_t i = 0; i < words; ++i) v[i] = first + static_cast<unsigned>(i);
  return v;
}

constexpr unsigned kMany = 1 << 18;  ///< words of copies that take time

}  // namespace

CASE("copy.bytes_go_where_they_should", COPY "cuMemcpyHtoD, cuMemcpyDtoD, cuMemcpyDtoH") {
  use_device();
  const CUdeviceptr one = allocate(kMiB);
  const CUdeviceptr two = allocate(kMiB);
  const std::vector<unsigned> in = counted(kMiB / 4, 0x81000003);  // the last byte, too, is not 0
  OK(CU(cuMemcpyHtoD)(one, in.data(), kMiB));
  OK(CU(cuMemcpyDtoD)(two, one, kMiB));
  std::vector<unsigned> out(kMiB / 4);
  OK(CU(cuMemcpyDtoH)(out.data(), two, kMiB));
  EXPECT(in == out);
}

CASE("copy.any_byte_may_be_the_first", COPY "cuMemcpyHtoD, cuMemcpyDtoD, cuMemcpyDtoH") {
  use_device();
  const CUdeviceptr memory = allocate(kMiB);
  OK(CU(cuMemsetD8)(memory, 0, kMiB));
  const std::string text = "seventeen letters";
  std::string back(text.size(), ' ');
  OK(CU(cuMemcpyHtoD)(memory + 1001, text.data(), text.size()));
  OK(CU(cuMemcpyDtoD)(memory + 7003, memory + 1001, text.size()));
  OK(CU(cuMemcpyDtoH)(back.data(), memory + 7003, back.size()));
  EXPECT_EQ(back, text);
  unsigned char around[2] = {9, 9};
  OK(CU(cuMemcpyDtoH)(&around[0], memory + 7002, 1));
  OK(CU(cuMemcpyDtoH)(&around[1], memory + 7003 + text.size(), 1));
  EXPECT(around[0] == 0 && around[1] == 0);
}

CASE("copy.the_direction_follows_from_the_addresses", COPY "cuMemcpy") {
  use_device();
  const CUdeviceptr memory = allocate(kMiB);
  const std::vector<unsigned> in = counted(1024, 5);
  std::vector<unsigned> out(1024);
  OK(CU(cuMemcpy)(memory, reinterpret_cast<CUdeviceptr>(in.data()), 4096));
  OK(CU(cuMemcpy)(memory + 8192, memory, 4096));
  OK(CU(cuMemcpy)(reinterpret_cast<CUdeviceptr>(out.data()), memory + 8192, 4096));
  EXPECT(in == out);
  OK(CU(cuMemcpy)(reinterpret_cast<CUdeviceptr>(out.data()), reinterpret_cast<CUdeviceptr>(in.data() + 512),
                  2048));
  EXPECT_EQ(out[0], 5u + 512);
}

CASE("copy.asynchronous_forms_copy_the_same", COPY "cuMemcpyAsync, cuMemcpyHtoDAsync, cuMemcpyDtoDAsync") {
  use_device();
  const CUstream stream = make_stream();
  const CUdeviceptr memory = allocate(64 * kKiB);
  unsigned* in = pinned_words(1024);
  unsigned* out = pinned_words(2048);
  for (unsigned i = 0; i < 1024; ++i) in[i] = 8 + i;
  OK(CU(cuMemcpyHtoDAsync)(memory, in, 4096, stream));
  OK(CU(cuMemcpyDtoDAsync)(memory + 8192, memory, 4096, stream));
  OK(CU(cuMemcpyAsync)(memory + 16384, memory + 8192, 4096, stream));
  OK(CU(cuMemcpyDtoHAsync)(out, memory + 16384, 4096, stream));
  OK(CU(cuMemcpyAsync)(reinterpret_cast<CUdeviceptr>(out + 1024), memory + 16384, 4096, stream));
  OK(CU(cuStreamSynchronize)(stream));
  for (unsigned i = 0; i < 2048; ++i) EXPECT_EQ(out[i], 8 + i % 1024);
}

CASE_ORDER("copy.a_pageable_source_is_free_on_return", SYNC "Synchronous: pageable host memory to device") {
  use_device();
  const CUdeviceptr memory = allocate(4 * kMany);
  std::vector<unsigned> in = counted(kMany, 1);
  OK(CU(cuMemcpyHtoD)(memory, in.data(), 4 * kMany));
  std::memset(in.data(), 0xee, 4 * kMany);
  EXPECT_WORDS(memory, kMany, 1);
}

CASE_ORDER("copy.a_pageable_source_of_an_asynchronous_copy_is_free_too",
           SYNC "Asynchronous: pageable host memory to device memory") {
  use_device();
  const CUstream stream = make_stream(CU_STREAM_NON_BLOCKING);
  const CUdeviceptr memory = allocate(4 * kMany);
  slow_fill(memory, 64, 100, stream);
  std::vector<unsigned> in = counted(kMany, 1);
  OK(CU(cuMemcpyHtoDAsync)(memory, in.data(), 4 * kMany, stream));
  std::memset(in.data(), 0xee, 4 * kMany);
  EXPECT_WORDS(memory, kMany, 1);
}

CASE_ORDER("copy.a_pinned_source_has_been_read_on_return", SYNC "Synchronous: pinned host memory to device") {
  use_device();
  const CUdeviceptr memory = allocate(4 * kMany);
  unsigned* in = pinned_words(kMany);
  for (unsigned i = 0; i < kMany; ++i) in[i] = 1 + i;
  slow_fill(memory, 64, 100);
  OK(CU(cuMemcpyHtoD)(memory, in, 4 * kMany));
  std::memset(in, 0xee, 4 * kMany);
  EXPECT_WORDS(memory, kMany, 1);
}

CASE_ORDER("copy.to_the_host_is_over_on_return",
           SYNC "Synchronous: device to pageable or pinned host memory") {
  use_device();
  const CUdeviceptr memory = allocate(4 * kMany);
  std::vector<unsigned> pageable(64);
  unsigned* pinned = pinned_words(64);
  slow_fill(memory, kMany, 5);
  OK(CU(cuMemcpyDtoH)(pageable.data(), memory, 256));
  EXPECT(pageable == counted(64, 5));
  slow_fill(memory, kMany, 6);
  OK(CU(cuMemcpyDtoH)(pinned, memory, 256));
  EXPECT_EQ(pinned[63], 6u + 63);
}

CASE_ORDER("copy.asynchronous_to_pageable_memory_is_over_on_return",
           SYNC "Asynchronous: device to pageable") {
  use_device();
  const CUstream stream = make_stream(CU_STREAM_NON_BLOCKING);
  const CUdeviceptr memory = allocate(4 * kMany);
  std::vector<unsigned> out(64);
  slow_fill(memory, kMany, 7, stream);
  OK(CU(cuMemcpyDtoHAsync)(out.data(), memory, 256, stream));
  EXPECT(out == counted(64, 7));
}

CASE_ORDER("copy.host_to_host_is_over_on_return", SYNC "Asynchronous: any host memory to any host memory") {
  use_device();
  const CUstream stream = make_stream(CU_STREAM_NON_BLOCKING);
  unsigned* one = pinned_words(64);
  unsigned* two = pinned_words(64);
  slow_fill(reinterpret_cast<CUdeviceptr>(one), 64, 9, stream);
  OK(CU(cuMemcpyAsync)(reinterpret_cast<CUdeviceptr>(two), reinterpret_cast<CUdeviceptr>(one), 256, stream));
  EXPECT_EQ(two[0], 9u);
  EXPECT_EQ(two[63], 9u + 63);
}

CASE_ORDER("copy.it_follows_the_work_before_it_in_its_stream", "CUDA C++ Programming Guide, Streams") {
  use_device();
  const CUstream stream = make_stream(CU_STREAM_NON_BLOCKING);
  const CUdeviceptr one = allocate(4 * kMany);
  const CUdeviceptr two = allocate(4 * kMany);
  slow_fill(one, kMany, 3, stream);
  OK(CU(cuMemcpyDtoDAsync)(two, one, 4 * kMany, stream));
  fill(one, kMany, 9, stream);
  affine(two, kMany, 1, 10, stream);
  EXPECT_WORDS(two, kMany, 13);
  EXPECT_WORDS(one, kMany, 9);
}

CASE_ORDER("copy.synchronous_forms_use_the_legacy_stream",
           "CUDA Driver API, Stream synchronization behavior") {
  use_device();
  const CUstream stream = make_stream();
  const CUdeviceptr one = allocate(4 * kMany);
  const CUdeviceptr two = allocate(4 * kMany);
  slow_fill(one, kMany, 3, stream);
  OK(CU(cuMemcpyDtoD)(two, one, 4 * kMany));
  fill(one, kMany, 50, stream);
  affine(two, kMany, 1, 1, stream);
  EXPECT_WORDS(two, kMany, 4);
}

CASE("copy.peer_forms_work_within_one_device", COPY "cuMemcpyPeer, cuMemcpyPeerAsync") {
  const CUcontext context = use_device();
  const CUdeviceptr one = allocate(4 * kKiB);
  const CUdeviceptr two = allocate(4 * kKiB);
  fill(one, 1024, 21);
  OK(CU(cuMemcpyPeer)(two, context, one, context, 4 * kKiB));
  EXPECT_WORDS(two, 1024, 21);
  fill(one, 1024, 22);
  OK(CU(cuMemcpyPeerAsync)(two, context, one, context, 4 * kKiB, nullptr));
  EXPECT_WORDS(two, 1024, 22);
}

CASE("copy.it_crosses_the_border_of_mappings", "CUDA Driver API, Virtual Memory Management: cuMemMap") {
  use_device();
  const std::size_t unit = granularity();
  const CUdeviceptr base = reserve(2 * unit);
  map_memory(base, unit, create_memory(unit));
  map_memory(base + unit, unit, create_memory(unit));
  const std::vector<unsigned> in = counted(1024, 40);
  OK(CU(cuMemcpyHtoD)(base + unit - 2048, in.data(), 4096));
  EXPECT_WORDS(base + unit - 2048, 1024, 40);
}

CASE("copy.the_runtime_takes_a_direction", "CUDA Runtime API, Memory Management: cudaMemcpy") {
  use_device();
  const std::vector<unsigned> in = counted(1024, 60);
  std::vector<unsigned> out(1024);
  auto* memory = reinterpret_cast<void*>(allocate(4 * kKiB));
  OK(RT(cudaMemcpy)(memory, in.data(), 4096, cudaMemcpyHostToDevice));
  OK(RT(cudaMemcpy)(out.data(), memory, 4096, cudaMemcpyDefault));
  EXPECT(in == out);
  REFUSES(RT(cudaMemcpy)(memory, in.data(), 4096, static_cast<cudaMemcpyKind>(7)),
          cudaErrorInvalidMemcpyDirection, cudaErrorInvalidValue);
}

CASE_ORDER("copy.the_runtimes_asynchronous_form_is_ordered",
           "CUDA Runtime API, Memory Management: cudaMemcpyAsync") {
  use_device();
  const CUstream stream = make_stream(CU_STREAM_NON_BLOCKING);
  const CUdeviceptr memory = allocate(4 * kMany);
  unsigned* out = pinned_words(64);
  slow_fill(memory, kMany, 70, stream);
  OK(RT(cudaMemcpyAsync)(out, reinterpret_cast<void*>(memory), 256, cudaMemcpyDeviceToHost, stream));
  OK(RT(cudaStreamSynchronize)(stream));
  EXPECT_EQ(out[63], 70u + 63);
}

}  // namespace conformance
