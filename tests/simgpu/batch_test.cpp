// Batched copies: what their order leaves open, and what is refused. Documentation: CUDA Driver API, page
// "Memory Management", cuMemcpyBatchAsync and cuMemcpy3DBatchAsync; CUmemcpySrcAccessOrder.

#include <catch2/catch.hpp>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/simgpu/device_tools.h"

/// The forms of CUDA 12, for which cuda.h has no name any more.
extern "C" CUresult first_batch(CUdeviceptr*, CUdeviceptr*, std::size_t*, std::size_t, CUmemcpyAttributes*,
                                std::size_t*, std::size_t, std::size_t*,
                                CUstream) __asm__("cuMemcpyBatchAsync");
extern "C" CUresult first_boxes(std::size_t, CUDA_MEMCPY3D_BATCH_OP*, std::size_t*, unsigned long long,
                                CUstream) __asm__("cuMemcpy3DBatchAsync");

namespace {

using namespace simgpu_test;

constexpr auto kStream = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
constexpr auto kDuring = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
constexpr auto kAny = CU_MEMCPY_SRC_ACCESS_ORDER_ANY;
constexpr int kSeeds = 60;

int* pinned_int(int value) {
  void* memory = nullptr;
  OK(cuMemHostAlloc(&memory, sizeof(int), 0));
  *static_cast<int*>(memory) = value;
  return static_cast<int*>(memory);
}

CUdeviceptr address_of(const void* host) {
  return reinterpret_cast<CUdeviceptr>(host);
}

/// Copies of one int each, all with the same access order.
CUresult copy_ints(std::vector<CUdeviceptr> to, std::vector<CUdeviceptr> from, CUmemcpySrcAccessOrder order,
                   CUstream stream) {
  std::vector<std::size_t> sizes(to.size(), sizeof(int));
  CUmemcpyAttributes how{};
  how.srcAccessOrder = order;
  std::size_t first = 0;
  return cuMemcpyBatchAsync(to.data(), from.data(), sizes.data(), to.size(), &how, &first, 1, stream);
}

CUDA_MEMCPY3D_BATCH_OP box(CUdeviceptr to, CUdeviceptr from) {
  CUDA_MEMCPY3D_BATCH_OP op{};
  op.src.type = op.dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
  op.src.op.ptr.ptr = from;
  op.dst.op.ptr.ptr = to;
  op.extent = {2, 2, 2};
  op.srcAccessOrder = kStream;
  return op;
}

/// Races that the device reports of a program, the same for each seed; the first in words.
struct Said {
  std::uint64_t races = 0;
  std::string text;
};
Said races_of(const std::function<void()>& program) {
  Said first;
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    Said said;
    DeviceSetup setup;
    setup.seed = seed;
    setup.afterwards = [&](const simgpu::Machine& machine) {
      const simgpu::ReportPage& page = machine.processes[0].report;
      said = {page.races_total.load(), page.races[0].text};
    };
    on_device(setup, [&] {
      program();
      OK(cuCtxSynchronize());
      return 0;
    });
    if (seed == 1) first = said;
    CHECK(said.races == first.races);
  }
  return first;
}

/// In how many of the seeds a source that earlier work of the stream sets from 1 to 2 arrives as 1.
int early_reads(CUmemcpySrcAccessOrder order) {
  return count_over_seeds(kSeeds, [order] {
    const CUstream stream = new_stream();
    const CUdeviceptr from = new_ints(1);
    const CUdeviceptr to = new_ints(1);
    OK(cuMemsetD32(from, 1, 1));
    OK(cuCtxSynchronize());
    OK(cuMemsetD32Async(from, 2, 1, stream));
    OK(copy_ints({to}, {from}, order, stream));
    return int_at(to) == 1 ? 1 : 0;
  });
}

/// In how many a source that the host sets from 1 to 2 after the call arrives as 2.
int late_reads(CUmemcpySrcAccessOrder order, bool pinned) {
  return count_over_seeds(kSeeds, [=] {
    const CUstream stream = new_stream();
    const CUdeviceptr to = new_ints(1);
    int local = 1;
    int* source = pinned ? pinned_int(1) : &local;
    OK(copy_ints({to}, {address_of(source)}, order, stream));
    *const_cast<volatile int*>(source) = 2;
    return int_at(to) == 2 ? 1 : 0;
  });
}

}  // namespace

TEST_CASE("batch: its copies run in any order, and overlapping ones are a race") {
  const int second_last = count_over_seeds(kSeeds, [] {
    const CUstream stream = new_stream();
    const CUdeviceptr to = new_ints(1);
    OK(copy_ints({to, to}, {address_of(pinned_int(1)), address_of(pinned_int(2))}, kStream, stream));
    return int_at(to) == 2 ? 1 : 0;
  });
  REQUIRE(second_last > 0);
  REQUIRE(second_last < kSeeds);
  const Said said = races_of([] {
    const CUdeviceptr to = new_ints(2);
    OK(copy_ints({to, to}, {address_of(pinned_int(1)), address_of(pinned_int(2))}, kStream, new_stream()));
  });
  REQUIRE(said.races == 1);
  REQUIRE(said.text.find("copy from host to device") != std::string::npos);
  REQUIRE(said.text.find("make two batches") != std::string::npos);
}

TEST_CASE("batch: two of one stream follow each other") {
  const auto program = [] {
    const CUstream stream = new_stream();
    const CUdeviceptr to = new_ints(3);
    OK(copy_ints({to, to + 4}, {address_of(pinned_int(1)), address_of(pinned_int(2))}, kStream, stream));
    OK(copy_ints({to + 4, to + 8}, {to, to + 4}, kStream, stream));
  };
  // Within the second batch one copy writes what the other reads.
  const Said said = races_of(program);
  REQUIRE(said.races == 1);
  const int wrong = count_over_seeds(kSeeds, [] {
    const CUstream stream = new_stream();
    const CUdeviceptr to = new_ints(2);
    OK(copy_ints({to}, {address_of(pinned_int(5))}, kStream, stream));
    OK(copy_ints({to + 4}, {to}, kStream, stream));
    return int_at(to + 4) == 5 ? 0 : 1;
  });
  REQUIRE(wrong == 0);
}

TEST_CASE("batch: only a source in stream order sees the stream's earlier work") {
  REQUIRE(early_reads(kStream) == 0);
  REQUIRE(early_reads(kDuring) > 0);
  const int any = early_reads(kAny);
  REQUIRE(any > 0);
  REQUIRE(any < kSeeds);
}

TEST_CASE("batch: only a source that is read during the call may change after it") {
  for (const bool pinned : {true, false}) {
    REQUIRE(late_reads(kDuring, pinned) == 0);
    for (const auto order : {kStream, kAny}) {
      const int late = late_reads(order, pinned);
      REQUIRE(late > 0);
      REQUIRE(late < kSeeds);
    }
  }
}

TEST_CASE("batch: a source that may be read early and is still written is a race") {
  const auto races = [](CUmemcpySrcAccessOrder order) {
    return races_of([order] {
      const CUstream stream = new_stream();
      const CUdeviceptr from = new_ints(1);
      const CUdeviceptr to = new_ints(1);
      OK(cuMemsetD32Async(from, 2, 1, stream));
      OK(copy_ints({to}, {from}, order, stream));
    });
  };
  REQUIRE(races(kStream).races == 0);
  for (const auto order : {kDuring, kAny}) {
    const Said said = races(order);
    REQUIRE(said.races == 1);
    REQUIRE(said.text.find("copy's early read of its source") != std::string::npos);
  }
}

TEST_CASE("batch: a copy to pageable memory is over on return, one to pinned memory need not be") {
  const int late = count_over_seeds(kSeeds, [] {
    const CUstream stream = new_stream();
    const CUdeviceptr from = new_ints(1);
    OK(cuMemsetD32Async(from, 6, 1, stream));
    int local = 0;
    OK(copy_ints({address_of(&local)}, {from}, kStream, stream));
    EXPECT(local == 6);
    int* pinned = pinned_int(0);
    OK(copy_ints({address_of(pinned)}, {from}, kStream, stream));
    const bool was_late = *const_cast<volatile int*>(pinned) != 6;
    OK(cuStreamSynchronize(stream));
    EXPECT(*const_cast<volatile int*>(pinned) == 6);
    return was_late ? 1 : 0;
  });
  REQUIRE(late > 0);
  REQUIRE(late < kSeeds);
}

TEST_CASE("batch: copies of no bytes are none, and a batch of none is refused") {
  on_device({}, [] {
    const CUstream stream = new_stream();
    const CUdeviceptr memory = new_ints(2);
    CUdeviceptr to[] = {memory, memory + 4};
    CUdeviceptr from[] = {address_of(pinned_int(3)), address_of(pinned_int(4))};
    std::size_t sizes[] = {0, 4};
    CUmemcpyAttributes how{};
    how.srcAccessOrder = kAny;
    std::size_t first = 0;
    OK(cuMemcpyBatchAsync(to, from, sizes, 2, &how, &first, 1, stream));
    EXPECT(int_at(memory) == 0 && int_at(memory + 4) == 4);
    EXPECT_RESULT(cuMemcpyBatchAsync(to, from, sizes, 0, &how, &first, 1, stream), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuMemcpyBatchAsync(nullptr, from, sizes, 2, &how, &first, 1, stream),
                  CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuMemcpyBatchAsync(to, from, nullptr, 2, &how, &first, 1, stream),
                  CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(cuMemcpy3DBatchAsync(0, nullptr, 0, stream), CUDA_ERROR_INVALID_VALUE);
    return 0;
  });
}

TEST_CASE("batch: one wrong copy is named, and none is made") {
  on_device({}, [] {
    const CUstream stream = new_stream();
    const CUdeviceptr memory = new_ints(16);
    CUdeviceptr to[] = {memory, 0};
    CUdeviceptr from[] = {address_of(pinned_int(3)), address_of(pinned_int(4))};
    std::size_t sizes[] = {4, 4};
    CUmemcpyAttributes how[2] = {};
    how[0].srcAccessOrder = kStream;
    std::size_t first[] = {0, 1};
    std::size_t failed = 99;
    const auto copy = [&](std::size_t attributes) {
      return first_batch(to, from, sizes, 2, how, first, attributes, &failed, stream);
    };
    EXPECT_RESULT(copy(1), CUDA_ERROR_INVALID_VALUE);
    EXPECT(failed == 1);
    to[1] = memory + 4;
    failed = 99;
    EXPECT_RESULT(copy(2), CUDA_ERROR_INVALID_VALUE);
    EXPECT(failed == 1);
    how[1] = how[0];
    how[1].flags = 2;
    EXPECT_RESULT(copy(2), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(copy(3), CUDA_ERROR_INVALID_VALUE);
    EXPECT(failed == SIZE_MAX);
    EXPECT_RESULT(first_batch(to, from, sizes, 2, how, first, 3, nullptr, stream), CUDA_ERROR_INVALID_VALUE);
    EXPECT(int_at(memory) == 0 && int_at(memory + 4) == 0);

    CUDA_MEMCPY3D_BATCH_OP ops[] = {box(memory, memory + 4), box(memory, 0)};
    EXPECT_RESULT(first_boxes(2, ops, &failed, 0, stream), CUDA_ERROR_INVALID_VALUE);
    EXPECT(failed == 1);
    ops[1].src.type = CU_MEMCPY_OPERAND_TYPE_ARRAY;
    EXPECT_RESULT(first_boxes(2, ops, &failed, 0, stream), CUDA_ERROR_NOT_SUPPORTED);
    ops[0].src.type = static_cast<CUmemcpy3DOperandType>(3);
    EXPECT_RESULT(first_boxes(2, ops, &failed, 0, stream), CUDA_ERROR_INVALID_VALUE);
    EXPECT(failed == 0);
    return 0;
  });
}

TEST_CASE("batch: a capture is broken by it, and the legacy stream refuses it") {
  on_device({}, [] {
    const CUstream stream = new_stream();
    const CUdeviceptr memory = new_ints(2);
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    EXPECT_RESULT(copy_ints({memory}, {memory + 4}, kStream, stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    CUgraph graph = nullptr;
    EXPECT_RESULT(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    EXPECT_RESULT(copy_ints({memory}, {memory + 4}, kStream, nullptr), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(copy_ints({memory}, {memory + 4}, kStream, CU_STREAM_LEGACY), CUDA_ERROR_INVALID_VALUE);
    EXPECT_RESULT(copy_ints({memory}, {memory + 4}, kStream, reinterpret_cast<CUstream>(0x77)),
                  CUDA_ERROR_INVALID_HANDLE);
    return 0;
  });
}

TEST_CASE("batch: more copies than lanes arrive") {
  on_device({}, [] {
    constexpr std::size_t kMany = 700;
    const CUdeviceptr to = new_ints(kMany);
    std::vector<int> source(kMany);
    std::vector<CUdeviceptr> tos, froms;
    for (std::size_t i = 0; i < kMany; ++i) {
      source[i] = static_cast<int>(i);
      tos.push_back(to + i * sizeof(int));
      froms.push_back(address_of(&source[i]));
    }
    for (const auto order : {kStream, kDuring, kAny}) {
      const CUstream stream = new_stream();
      OK(cuMemsetD32(to, 0, kMany));
      OK(cuCtxSynchronize());
      OK(copy_ints(tos, froms, order, stream));
      OK(cuStreamSynchronize(stream));
      std::vector<int> back(kMany);
      OK(cuMemcpyDtoH(back.data(), to, kMany * sizeof(int)));
      EXPECT(back == source);
      OK(cuStreamDestroy(stream));
    }
    return 0;
  });
}

TEST_CASE("batch: a copy of rows beyond all addresses is refused") {
  on_device({}, [] {
    const CUstream stream = new_stream();
    const CUdeviceptr memory = new_ints(64);
    CUDA_MEMCPY3D_BATCH_OP op = box(memory, memory + 128);
    op.src.op.ptr.rowLength = std::size_t{1} << 62;
    EXPECT_RESULT(cuMemcpy3DBatchAsync(1, &op, 0, stream), CUDA_ERROR_INVALID_VALUE);
    // (height - 1) * pitch is 0 in 64 bits.
    CUDA_MEMCPY2D rows{};
    rows.srcMemoryType = rows.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    rows.srcDevice = memory;
    rows.dstDevice = memory + 128;
    rows.srcPitch = std::size_t{1} << 63;
    rows.WidthInBytes = 4;
    rows.Height = 3;
    EXPECT_RESULT(cuMemcpy2DAsync(&rows, stream), CUDA_ERROR_INVALID_VALUE);
    return 0;
  });
}
