// Batches of copies.

#include <cstdint>

#include "tests/conformance/device.h"

#define BATCH "CUDA Driver API, Memory Management: cuMemcpyBatchAsync"
#define BOXES "CUDA Driver API, Memory Management: cuMemcpy3DBatchAsync"

namespace conformance {
namespace {

constexpr unsigned kMany = 1 << 18;  ///< words of work that takes time

CUdeviceptr address_of(const void* host) {
  return reinterpret_cast<CUdeviceptr>(host);
}

CUmemcpyAttributes access(CUmemcpySrcAccessOrder order) {
  CUmemcpyAttributes how{};
  how.srcAccessOrder = order;
  return how;
}

/// Two copies of 4 KiB each, from device memory with 1000 and 2000 in it to memory that is zero.
struct Pair {
  CUstream stream = make_stream();
  CUdeviceptr source = allocate(8 * kKiB);
  CUdeviceptr target = allocate(8 * kKiB);
  CUdeviceptr from[2] = {source, source + 4096};
  CUdeviceptr to[2] = {target, target + 4096};
  std::size_t sizes[2] = {4096, 4096};
  CUmemcpyAttributes how[2] = {access(CU_MEMCPY_SRC_ACCESS_ORDER_STREAM),
                               access(CU_MEMCPY_SRC_ACCESS_ORDER_STREAM)};
  std::size_t first[3] = {0, 1, 2};

  Pair() {
    fill(source, 1024, 1000);
    fill(source + 4096, 1024, 2000);
    OK(CU(cuMemsetD32)(target, 0, 2048));
    OK(CU(cuCtxSynchronize)());
  }
  CUresult copy(std::size_t attributes) {
    return CU(cuMemcpyBatchAsync)(to, from, sizes, 2, how, first, attributes, stream);
  }
  void expect_untouched() const {
    EXPECT_EQ(read_word(target), 0u);
    EXPECT_EQ(read_word(target + 4096), 0u);
  }
};

/// A box of 8 × 2 × 2 bytes out of rows of 16 and layers of 4 rows.
CUDA_MEMCPY3D_BATCH_OP box(CUdeviceptr to, CUdeviceptr from) {
  CUDA_MEMCPY3D_BATCH_OP op{};
  op.src.type = op.dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
  op.src.op.ptr.ptr = from;
  op.src.op.ptr.rowLength = 16;
  op.src.op.ptr.layerHeight = 4;
  op.dst.op.ptr.ptr = to;
  op.extent = {8, 2, 2};
  op.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  return op;
}

}  // namespace

CASE("copy.a_batch_copies_each_of_its_parts", BATCH) {
  use_device();
  const CUstream stream = make_stream();
  const CUdeviceptr memory = allocate(64 * kKiB);
  unsigned* host = pinned_words(1024);
  for (unsigned i = 0; i < 1024; ++i) host[i] = 30 + i;
  CUdeviceptr to[] = {memory, memory + 8192};
  CUdeviceptr from[] = {address_of(host), address_of(host + 512)};
  std::size_t sizes[] = {2048, 1024};
  CUmemcpyAttributes how = access(CU_MEMCPY_SRC_ACCESS_ORDER_STREAM);
  std::size_t first = 0;
  OK(CU(cuMemcpyBatchAsync)(to, from, sizes, 2, &how, &first, 1, stream));
  EXPECT_WORDS(memory, 512, 30);
  EXPECT_WORDS(memory + 8192, 256, 30 + 512);
}

CASE_ORDER("copy.a_batch_runs_in_stream_order", BATCH) {
  use_device();
  const CUstream stream = make_stream();
  const CUdeviceptr one = allocate(4 * kMany);
  const CUdeviceptr two = allocate(4 * kMany);
  slow_fill(one, kMany, 5, stream);
  CUdeviceptr to[] = {two, two + 2 * kMany};
  CUdeviceptr from[] = {one, one + 2 * kMany};
  std::size_t sizes[] = {2 * kMany, 2 * kMany};
  CUmemcpyAttributes how = access(CU_MEMCPY_SRC_ACCESS_ORDER_STREAM);
  std::size_t first = 0;
  OK(CU(cuMemcpyBatchAsync)(to, from, sizes, 2, &how, &first, 1, stream));
  affine(two, kMany, 1, 1, stream);
  EXPECT_WORDS(two, kMany, 6);
}

CASE_ORDER("copy.a_batch_writes_in_stream_order_whatever_the_source", BATCH ", CUmemcpySrcAccessOrder") {
  use_device();
  const CUstream stream = make_stream();
  const CUdeviceptr memory = allocate(4 * kMany);
  const std::vector<unsigned> in(kMany, 8);
  for (const auto order : {CU_MEMCPY_SRC_ACCESS_ORDER_STREAM, CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL,
                           CU_MEMCPY_SRC_ACCESS_ORDER_ANY}) {
    slow_fill(memory, kMany, 100, stream);
    CUdeviceptr to = memory;
    CUdeviceptr from = address_of(in.data());
    std::size_t bytes = 4 * kMany;
    CUmemcpyAttributes how = access(order);
    std::size_t first = 0;
    OK(CU(cuMemcpyBatchAsync)(&to, &from, &bytes, 1, &how, &first, 1, stream));
    OK(CU(cuStreamSynchronize)(stream));
    EXPECT_EQ(read_word(memory), 8u);
    EXPECT_EQ(read_word(memory + 4 * (kMany - 1)), 8u);
  }
}

CASE_ORDER("copy.a_batch_may_read_its_source_during_the_call", BATCH ", CUmemcpySrcAccessOrder") {
  use_device();
  const CUstream stream = make_stream();
  const CUdeviceptr memory = allocate(4 * kMany);
  unsigned* pinned = pinned_words(4);
  unsigned local[] = {70, 71, 72, 73};
  for (unsigned i = 0; i < 4; ++i) pinned[i] = 80 + i;
  slow_fill(memory, kMany, 0, stream);
  CUdeviceptr to[] = {memory, memory + 16};
  CUdeviceptr from[] = {address_of(local), address_of(pinned)};
  std::size_t sizes[] = {16, 16};
  CUmemcpyAttributes how = access(CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL);
  std::size_t first = 0;
  OK(CU(cuMemcpyBatchAsync)(to, from, sizes, 2, &how, &first, 1, stream));
  for (unsigned i = 0; i < 4; ++i) local[i] = pinned[i] = 9;
  EXPECT_WORDS(memory, 4, 70);
  EXPECT_WORDS(memory + 16, 4, 80);
}

CASE_ORDER("copy.a_batch_sees_what_the_stream_wrote_before", BATCH ", CUmemcpySrcAccessOrder") {
  use_device();
  const CUstream stream = make_stream();
  const CUdeviceptr one = allocate(4 * kMany);
  const CUdeviceptr two = allocate(4 * kMany);
  unsigned* pinned = pinned_words(kMany);
  pinned[0] = pinned[kMany - 1] = 0;
  slow_fill(one, kMany, 40, stream);
  OK(CU(cuMemcpyDtoHAsync)(pinned, one, 4 * kMany, stream));
  CUdeviceptr to = two;
  CUdeviceptr from = address_of(pinned);
  std::size_t bytes = 4 * kMany;
  CUmemcpyAttributes how = access(CU_MEMCPY_SRC_ACCESS_ORDER_STREAM);
  std::size_t first = 0;
  OK(CU(cuMemcpyBatchAsync)(&to, &from, &bytes, 1, &how, &first, 1, stream));
  EXPECT_WORDS(two, kMany, 40);
}

CASE_ORDER("copy.attributes_of_a_batch_begin_where_they_say", BATCH ", attrsIdxs") {
  use_device();
  const CUstream stream = make_stream();
  const CUdeviceptr one = allocate(4 * kMany);
  const CUdeviceptr two = allocate(4 * kMany);
  unsigned* pinned = pinned_words(2);
  OK(CU(cuMemsetD32)(one, 0, kMany));
  OK(CU(cuCtxSynchronize)());
  slow_fill(one, kMany, 3, stream);
  pinned[0] = 50;
  pinned[1] = 51;
  // The first two must wait for the fill, the last two must not need their source after the call.
  CUdeviceptr to[] = {two, two + 4, two + 8, two + 12};
  CUdeviceptr from[] = {one, one + 4, address_of(pinned), address_of(pinned + 1)};
  std::size_t sizes[] = {4, 4, 4, 4};
  CUmemcpyAttributes how[] = {access(CU_MEMCPY_SRC_ACCESS_ORDER_STREAM),
                              access(CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL)};
  std::size_t first[] = {0, 2};
  OK(CU(cuMemcpyBatchAsync)(to, from, sizes, 4, how, first, 2, stream));
  pinned[0] = pinned[1] = 0;
  const std::vector<unsigned> out = read_words(two, 4);
  EXPECT(out[0] == 3 && out[1] == 4 && out[2] == 50 && out[3] == 51);
}

CASE("copy.a_batch_needs_an_access_order", BATCH) {
  use_device();
  Pair pair;
  pair.how[1] = access(CU_MEMCPY_SRC_ACCESS_ORDER_INVALID);
  REFUSES(pair.copy(2), CUDA_ERROR_INVALID_VALUE);
  pair.how[1] = access(static_cast<CUmemcpySrcAccessOrder>(4));
  REFUSES(pair.copy(2), CUDA_ERROR_INVALID_VALUE);
  pair.expect_untouched();
  pair.how[1] = access(CU_MEMCPY_SRC_ACCESS_ORDER_ANY);
  OK(pair.copy(2));
  EXPECT_WORDS(pair.target, 1024, 1000);
  EXPECT_WORDS(pair.target + 4096, 1024, 2000);
}

CASE("copy.attributes_of_a_batch_are_counted", BATCH ", attrsIdxs, numAttrs") {
  use_device();
  Pair pair;
  CUmemcpyAttributes three[] = {pair.how[0], pair.how[0], pair.how[0]};
  FAILS(CU(cuMemcpyBatchAsync)(pair.to, pair.from, pair.sizes, 2, three, pair.first, 3, pair.stream));
  FAILS(CU(cuMemcpyBatchAsync)(pair.to, pair.from, pair.sizes, 2, nullptr, nullptr, 0, pair.stream));
  pair.first[0] = 1;
  FAILS(pair.copy(1));
  pair.first[0] = pair.first[1] = 0;
  FAILS(pair.copy(2));
  pair.first[1] = 2;
  FAILS(pair.copy(2));
  pair.expect_untouched();
}

CASE("copy.a_batch_with_one_wrong_address_is_refused", BATCH) {
  use_device();
  Pair pair;
  pair.to[1] = 0;
  FAILS(pair.copy(1));
}

CASE("copy.a_batch_takes_hints", BATCH ", srcLocHint, flags") {
  use_device();
  Pair pair;
  pair.how[0].flags = CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE;
  pair.how[0].srcLocHint = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  pair.how[0].dstLocHint = {CU_MEM_LOCATION_TYPE_HOST, {0}};
  OK(pair.copy(1));
  EXPECT_WORDS(pair.target + 4096, 1024, 2000);
}

CASE("copy.a_batch_is_not_for_the_legacy_stream", BATCH ", hStream") {
  use_device();
  Pair pair;
  pair.stream = nullptr;
  FAILS(pair.copy(1));
  pair.stream = CU_STREAM_LEGACY;
  FAILS(pair.copy(1));
  pair.expect_untouched();
  pair.stream = CU_STREAM_PER_THREAD;
  OK(pair.copy(1));
  EXPECT_WORDS(pair.target, 1024, 1000);
}

CASE("copy.the_first_form_of_a_batch_tells_which_copy_failed", BATCH " of CUDA 12, failIdx") {
  use_device();
  Pair pair;
  using First = CUresult (*)(CUdeviceptr*, CUdeviceptr*, std::size_t*, std::size_t, CUmemcpyAttributes*,
                             std::size_t*, std::size_t, std::size_t*, CUstream);
  const auto copy = driver<First>("cuMemcpyBatchAsync");
  std::size_t failed = 77;
  pair.to[1] = 0;
  FAILS(copy(pair.to, pair.from, pair.sizes, 2, pair.how, pair.first, 1, &failed, pair.stream));
  EXPECT_EQ(failed, std::size_t{1});
  pair.to[1] = pair.target + 4096;
  FAILS(copy(pair.to, pair.from, pair.sizes, 2, pair.how, pair.first, 0, &failed, pair.stream));
  EXPECT_EQ(failed, SIZE_MAX);
  OK(copy(pair.to, pair.from, pair.sizes, 2, pair.how, pair.first, 1, &failed, pair.stream));
  EXPECT_WORDS(pair.target, 1024, 1000);
}

CASE("copy.the_runtime_copies_batches", "CUDA Runtime API, Memory Management: cudaMemcpyBatchAsync") {
  use_device();
  const Pair pair;
  void* to[] = {reinterpret_cast<void*>(pair.target), reinterpret_cast<void*>(pair.target + 4096)};
  const void* from[] = {reinterpret_cast<void*>(pair.source + 4096), reinterpret_cast<void*>(pair.source)};
  cudaMemcpyAttributes how{};
  how.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  std::size_t first = 0;
  OK(RT(cudaMemcpyBatchAsync)(to, from, pair.sizes, 2, &how, &first, 1, pair.stream));
  EXPECT_WORDS(pair.target, 1024, 2000);
  EXPECT_WORDS(pair.target + 4096, 1024, 1000);
  how.srcAccessOrder = cudaMemcpySrcAccessOrderInvalid;
  REFUSES(RT(cudaMemcpyBatchAsync)(to, from, pair.sizes, 2, &how, &first, 1, pair.stream),
          cudaErrorInvalidValue);
}

CASE("copy3d.a_batch_copies_boxes", BOXES) {
  use_device();
  const CUstream stream = make_stream();
  unsigned char in[128], out[64] = {};
  for (unsigned i = 0; i < sizeof in; ++i) in[i] = static_cast<unsigned char>(i);
  const CUdeviceptr source = allocate(4 * kKiB);
  const CUdeviceptr target = allocate(4 * kKiB);
  OK(CU(cuMemcpyHtoD)(source, in, sizeof in));
  CUDA_MEMCPY3D_BATCH_OP ops[] = {box(target, source + 4), box(target + 32, source + 36)};
  OK(CU(cuMemcpy3DBatchAsync)(2, ops, 0, stream));
  OK(CU(cuStreamSynchronize)(stream));
  OK(CU(cuMemcpyDtoH)(out, target, sizeof out));
  // Zero stands for rows and layers without gaps.
  for (unsigned i = 0; i < 64; ++i) {
    const unsigned box = i / 32, z = i / 16 % 2, y = i / 8 % 2, x = i % 8;
    EXPECT_EQ(unsigned{out[i]}, box * 32 + z * 64 + y * 16 + x + 4);
  }
}

CASE("copy3d.a_batch_refuses_what_is_no_box", BOXES) {
  use_device();
  const CUstream stream = make_stream();
  const CUdeviceptr source = allocate(4 * kKiB);
  const CUdeviceptr target = allocate(4 * kKiB);
  const auto refused = [&](const std::function<void(CUDA_MEMCPY3D_BATCH_OP*)>& spoil) {
    CUDA_MEMCPY3D_BATCH_OP ops[] = {box(target, source), box(target + 32, source)};
    spoil(&ops[1]);
    FAILS(CU(cuMemcpy3DBatchAsync)(2, ops, 0, stream));
  };
  refused([](CUDA_MEMCPY3D_BATCH_OP* op) { op->extent.width = 0; });
  refused([](CUDA_MEMCPY3D_BATCH_OP* op) { op->extent.height = 0; });
  refused([](CUDA_MEMCPY3D_BATCH_OP* op) { op->extent.depth = 0; });
  refused([](CUDA_MEMCPY3D_BATCH_OP* op) { op->src.op.ptr.rowLength = 7; });
  refused([](CUDA_MEMCPY3D_BATCH_OP* op) { op->dst.op.ptr.layerHeight = 1; });
  refused([](CUDA_MEMCPY3D_BATCH_OP* op) { op->srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_INVALID; });
  CUDA_MEMCPY3D_BATCH_OP good = box(target, source);
  FAILS(CU(cuMemcpy3DBatchAsync)(1, &good, 1, stream));
  FAILS(CU(cuMemcpy3DBatchAsync)(1, &good, 0, nullptr));
  OK(CU(cuMemcpy3DBatchAsync)(1, &good, 0, stream));
  OK(CU(cuStreamSynchronize)(stream));
}

CASE_ORDER("copy3d.a_batch_runs_in_stream_order", BOXES) {
  use_device();
  const CUstream stream = make_stream();
  const CUdeviceptr one = allocate(4 * kMany);
  const CUdeviceptr two = allocate(4 * kMany);
  slow_fill(one, kMany, 5, stream);
  CUDA_MEMCPY3D_BATCH_OP op = box(two, one);
  op.extent = {4 * kMany, 1, 1};
  op.src.op.ptr.rowLength = op.src.op.ptr.layerHeight = 0;
  OK(CU(cuMemcpy3DBatchAsync)(1, &op, 0, stream));
  affine(two, kMany, 1, 2, stream);
  EXPECT_WORDS(two, kMany, 7);
}

}  // namespace conformance
