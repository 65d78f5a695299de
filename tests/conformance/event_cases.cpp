// Events, waits, and operations of streams on memory.

#include "tests/conformance/device.h"

#define EVENT "CUDA Driver API, Event Management: "
#define STREAM "CUDA Driver API, Stream Management: "
#define MEMOP "CUDA Driver API, Stream Memory Operations: "

namespace conformance {
namespace {

constexpr unsigned kMany = 1 << 14;

void need_memops() {
  use_device();
  // Since CUDA 12 every device has the 32-bit forms; the attribute of the 64-bit ones tells of a real device.
  need(CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, "stream memory operations");
}

CUdeviceptr zeroed(std::size_t bytes) {
  const CUdeviceptr memory = allocate(bytes);
  OK(CU(cuMemsetD8)(memory, 0, bytes));
  OK(CU(cuCtxSynchronize)());
  return memory;
}

}  // namespace

CASE("event.flags_are_checked", EVENT "cuEventCreate") {
  use_device();
  CUevent event = nullptr;
  REFUSES(CU(cuEventCreate)(&event, 0x100), CUDA_ERROR_INVALID_VALUE);
  for (const unsigned flags : {CU_EVENT_DEFAULT, CU_EVENT_BLOCKING_SYNC, CU_EVENT_DISABLE_TIMING}) {
    OK(CU(cuEventCreate)(&event, flags));
    OK(CU(cuEventDestroy)(event));
  }
}

CASE("event.one_that_was_never_recorded_is_over", EVENT "cuEventRecord, cuEventQuery, cuEventSynchronize") {
  use_device();
  const CUevent event = make_event();
  OK(CU(cuEventQuery)(event));
  OK(CU(cuEventSynchronize)(event));
  const CUdeviceptr memory = allocate(4 * kKiB);
  const CUstream stream = make_stream();
  OK(CU(cuStreamWaitEvent)(stream, event, 0));
  fill(memory, 64, 1, stream);
  EXPECT_WORDS(memory, 64, 1);
}

CASE_ORDER("event.synchronize_waits_for_the_work_before_it", EVENT "cuEventSynchronize") {
  use_device();
  const CUstream stream = make_stream(CU_STREAM_NON_BLOCKING);
  unsigned* host = pinned_words(64);
  for (const unsigned flags : {CU_EVENT_DEFAULT, CU_EVENT_BLOCKING_SYNC, CU_EVENT_DISABLE_TIMING}) {
    const CUevent event = make_event(flags);
    host[63] = 0;
    slow_fill(reinterpret_cast<CUdeviceptr>(host), 64, 5, stream);
    OK(CU(cuEventRecord)(event, stream));
    OK(CU(cuEventSynchronize)(event));
    EXPECT_EQ(host[63], 5u + 63);
    OK(CU(cuEventQuery)(event));
  }
}

CASE_ORDER("event.a_query_says_success_only_when_it_is_over", EVENT "cuEventQuery") {
  use_device();
  const CUstream stream = make_stream(CU_STREAM_NON_BLOCKING);
  const CUevent event = make_event();
  unsigned* host = pinned_words(64);
  slow_fill(reinterpret_cast<CUdeviceptr>(host), 64, 6, stream);
  OK(CU(cuEventRecord)(event, stream));
  CUresult result = CUDA_ERROR_NOT_READY;
  while (result == CUDA_ERROR_NOT_READY) result = CU(cuEventQuery)(event);
  OK(result);
  EXPECT_EQ(host[63], 6u + 63);
}

CASE_ORDER("event.a_wait_orders_two_streams", STREAM "cuStreamWaitEvent") {
  use_device();
  const CUstream one = make_stream(CU_STREAM_NON_BLOCKING);
  const CUstream two = make_stream(CU_STREAM_NON_BLOCKING);
  const CUevent event = make_event();
  const CUdeviceptr memory = allocate(4 * kMany);
  for (unsigned i = 0; i < 4; ++i) {
    slow_fill(memory, kMany, i, one);
    OK(CU(cuEventRecord)(event, one));
    OK(CU(cuStreamWaitEvent)(two, event, 0));
    affine(memory, kMany, 1, 10, two);
    OK(CU(cuEventRecord)(event, two));
    OK(CU(cuStreamWaitEvent)(one, event, 0));
    affine(memory, kMany, 1, 100, one);
    EXPECT_WORDS(memory, kMany, i + 110);
  }
}

CASE_ORDER("event.a_wait_takes_the_record_of_its_time", EVENT "cuEventRecord") {
  use_device();
  const CUstream one = make_stream(CU_STREAM_NON_BLOCKING);
  const CUstream two = make_stream(CU_STREAM_NON_BLOCKING);
  const CUevent event = make_event();
  const CUstream other = make_stream(CU_STREAM_NON_BLOCKING);
  const CUdeviceptr memory = allocate(8 * kMany);
  for (unsigned i = 0; i < 6; ++i) {
    slow_fill(memory, kMany, i, one);
    OK(CU(cuEventRecord)(event, one));
    OK(CU(cuStreamWaitEvent)(two, event, 0));
    OK(CU(cuEventRecord)(event, other));
    copy_words(memory, memory + 4 * kMany, kMany, two);
    EXPECT_WORDS(memory + 4 * kMany, kMany, i);
  }
}

CASE_ORDER("event.the_last_record_counts", EVENT "cuEventRecord") {
  use_device();
  const CUstream stream = make_stream(CU_STREAM_NON_BLOCKING);
  const CUevent event = make_event();
  unsigned* host = pinned_words(64);
  OK(CU(cuEventRecord)(event, stream));
  slow_fill(reinterpret_cast<CUdeviceptr>(host), 64, 9, stream);
  OK(CU(cuEventRecord)(event, stream));
  OK(CU(cuEventSynchronize)(event));
  EXPECT_EQ(host[63], 9u + 63);
}

CASE_ORDER("event.recorded_in_the_legacy_stream_it_covers_blocking_ones",
           EVENT "cuEventRecord, default stream") {
  use_device();
  const CUevent event = make_event();
  unsigned* host = pinned_words(64);
  slow_fill(reinterpret_cast<CUdeviceptr>(host), 64, 11, make_stream());
  OK(CU(cuEventRecord)(event, nullptr));
  OK(CU(cuEventSynchronize)(event));
  EXPECT_EQ(host[63], 11u + 63);
}

CASE_ORDER("event.destroying_it_does_not_undo_a_wait", EVENT "cuEventDestroy") {
  use_device();
  const CUstream one = make_stream(CU_STREAM_NON_BLOCKING);
  const CUstream two = make_stream(CU_STREAM_NON_BLOCKING);
  const CUevent event = make_event();
  const CUdeviceptr memory = allocate(8 * kMany);
  slow_fill(memory, kMany, 3, one);
  OK(CU(cuEventRecord)(event, one));
  OK(CU(cuStreamWaitEvent)(two, event, 0));
  OK(CU(cuEventDestroy)(event));
  copy_words(memory, memory + 4 * kMany, kMany, two);
  EXPECT_WORDS(memory + 4 * kMany, kMany, 3);
}

CASE("event.it_is_recorded_in_its_own_context", EVENT "cuEventRecord") {
  use_device();
  const CUevent event = make_event();
  CUcontext other = nullptr;
  OK(CU(cuCtxCreate)(&other, nullptr, 0, 0));
  REFUSES(CU(cuEventRecord)(event, make_stream()), CUDA_ERROR_INVALID_HANDLE);
}

CASE("event.external_records_are_for_capture", EVENT "cuEventRecordWithFlags") {
  use_device();
  const CUstream stream = make_stream();
  const CUevent event = make_event();
  OK(CU(cuEventRecordWithFlags)(event, stream, CU_EVENT_RECORD_DEFAULT));
  FAILS(CU(cuEventRecordWithFlags)(event, stream, CU_EVENT_RECORD_EXTERNAL));
  FAILS(CU(cuEventRecordWithFlags)(event, stream, 0x100));
  FAILS(CU(cuStreamWaitEvent)(stream, event, CU_EVENT_WAIT_EXTERNAL));
  FAILS(CU(cuStreamWaitEvent)(stream, event, 0x100));
}

CASE_ORDER("event.elapsed_time_goes_forward", EVENT "cuEventElapsedTime") {
  use_device();
  const CUstream stream = make_stream(CU_STREAM_NON_BLOCKING);
  const CUevent start = make_event(CU_EVENT_DEFAULT);
  const CUevent middle = make_event(CU_EVENT_DEFAULT);
  const CUevent end = make_event(CU_EVENT_DEFAULT);
  const CUdeviceptr memory = allocate(16 * kMiB);
  unsigned* host = pinned_words(4 * kMiB);
  OK(CU(cuEventRecord)(start, stream));
  OK(CU(cuMemcpyHtoDAsync)(memory, host, 16 * kMiB, stream));
  OK(CU(cuEventRecord)(middle, stream));
  OK(CU(cuMemcpyDtoHAsync)(host, memory, 16 * kMiB, stream));
  OK(CU(cuEventRecord)(end, stream));
  OK(CU(cuEventSynchronize)(end));
  float first = -1;
  float second = -1;
  float whole = -1;
  OK(CU(cuEventElapsedTime)(&first, start, middle));
  OK(CU(cuEventElapsedTime)(&second, middle, end));
  OK(CU(cuEventElapsedTime)(&whole, start, end));
  // 16 MiB in less than 20 microseconds would be 800 GB/s, more than any link has.
  EXPECT(first > 0.02f && second > 0.02f);
  EXPECT(whole > 0.99f * (first + second) && whole < 1.01f * (first + second) + 0.01f);
}

CASE("event.elapsed_time_needs_timing_and_records", EVENT "cuEventElapsedTime") {
  use_device();
  const CUevent timed = make_event(CU_EVENT_DEFAULT);
  const CUevent untimed = make_event(CU_EVENT_DISABLE_TIMING);
  const CUevent unrecorded = make_event(CU_EVENT_DEFAULT);
  OK(CU(cuEventRecord)(timed, nullptr));
  OK(CU(cuEventRecord)(untimed, nullptr));
  OK(CU(cuCtxSynchronize)());
  float ms = 0;
  REFUSES(CU(cuEventElapsedTime)(&ms, timed, untimed), CUDA_ERROR_INVALID_HANDLE);
  REFUSES(CU(cuEventElapsedTime)(&ms, timed, unrecorded), CUDA_ERROR_INVALID_HANDLE);
  OK(CU(cuEventElapsedTime)(&ms, timed, timed));
}

CASE("event.the_runtimes_events_are_the_drivers", "CUDA Runtime API, Event Management") {
  use_device();
  cudaEvent_t event = nullptr;
  float ms = -1;
  OK(RT(cudaEventCreate)(&event));
  OK(RT(cudaEventRecord)(event, nullptr));
  OK(CU(cuEventSynchronize)(event));
  OK(RT(cudaEventQuery)(event));
  OK(RT(cudaEventElapsedTime)(&ms, event, event));
  OK(RT(cudaEventDestroy)(event));
}

CASE_ORDER("memop.a_value_is_written_in_order", MEMOP "cuStreamWriteValue32, cuStreamWriteValue64") {
  need_memops();
  const CUstream stream = make_stream(CU_STREAM_NON_BLOCKING);
  const CUdeviceptr memory = zeroed(64);
  slow_fill(memory, 8, 100, stream);
  OK(CU(cuStreamWriteValue32)(stream, memory, 7, CU_STREAM_WRITE_VALUE_DEFAULT));
  OK(CU(cuStreamWriteValue64)(stream, memory + 8, 0x500000006ull, CU_STREAM_WRITE_VALUE_DEFAULT));
  affine(memory, 8, 1, 1, stream);
  const std::vector<unsigned> words = read_words(memory, 8);
  EXPECT(words[0] == 8 && words[1] == 102 && words[2] == 7 && words[3] == 6 && words[4] == 105);
}

CASE_ORDER("memop.a_wait_blocks_until_the_value_is_there", MEMOP "cuStreamWaitValue32") {
  need_memops();
  const CUstream one = make_stream(CU_STREAM_NON_BLOCKING);
  const CUstream two = make_stream(CU_STREAM_NON_BLOCKING);
  const CUdeviceptr flag = zeroed(64);
  const CUdeviceptr memory = zeroed(4 * kMany);
  slow_fill(memory, kMany, 5, one);
  OK(CU(cuStreamWriteValue32)(one, flag, 1, CU_STREAM_WRITE_VALUE_DEFAULT));
  OK(CU(cuStreamWaitValue32)(two, flag, 1, CU_STREAM_WAIT_VALUE_GEQ));
  affine(memory, kMany, 1, 10, two);
  EXPECT_WORDS(memory, kMany, 15);
}

CASE_ORDER("memop.each_condition_is_met", MEMOP "cuStreamWaitValue32, CUstreamWaitValue_flags") {
  need_memops();
  const CUstream stream = make_stream(CU_STREAM_NON_BLOCKING);
  const CUdeviceptr flag = zeroed(64);
  const CUdeviceptr memory = zeroed(64);
  OK(CU(cuStreamWriteValue32)(stream, flag, 6, 0));
  OK(CU(cuStreamWaitValue32)(stream, flag, 6, CU_STREAM_WAIT_VALUE_EQ));
  OK(CU(cuStreamWaitValue32)(stream, flag, 5, CU_STREAM_WAIT_VALUE_GEQ));
  // Greater or equal by the sign of the difference: 6 comes after 0xffffffff.
  OK(CU(cuStreamWaitValue32)(stream, flag, 0xffffffffu, CU_STREAM_WAIT_VALUE_GEQ));
  OK(CU(cuStreamWaitValue32)(stream, flag, 2, CU_STREAM_WAIT_VALUE_AND));
  if (attribute(CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR) != 0)
    OK(CU(cuStreamWaitValue32)(stream, flag, 0xfffffff0u, CU_STREAM_WAIT_VALUE_NOR));
  fill(memory, 1, 9, stream);
  EXPECT_EQ(read_word(memory), 9u);
}

CASE_ORDER("memop.the_host_can_let_a_stream_go_on", MEMOP "cuStreamWaitValue32") {
  need_memops();
  const CUstream stream = make_stream(CU_STREAM_NON_BLOCKING);
  unsigned* host = pinned_words(2);
  host[0] = host[1] = 0;
  const auto flag = reinterpret_cast<CUdeviceptr>(host);
  OK(CU(cuStreamWaitValue32)(stream, flag, 3, CU_STREAM_WAIT_VALUE_GEQ));
  OK(CU(cuStreamWriteValue32)(stream, flag + 4, 1, 0));
  REFUSES(CU(cuStreamQuery)(stream), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(*static_cast<volatile unsigned*>(host + 1), 0u);
  *static_cast<volatile unsigned*>(host) = 3;
  OK(CU(cuStreamSynchronize)(stream));
  EXPECT_EQ(*static_cast<volatile unsigned*>(host + 1), 1u);
}

CASE_ORDER("memop.a_batch_runs_in_its_order", MEMOP "cuStreamBatchMemOp") {
  need_memops();
  const CUstream stream = make_stream(CU_STREAM_NON_BLOCKING);
  const CUdeviceptr memory = zeroed(64);
  CUstreamBatchMemOpParams ops[3] = {};
  ops[0].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  ops[0].writeValue.address = memory;
  ops[0].writeValue.value = 4;
  ops[1].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
  ops[1].waitValue.address = memory;
  ops[1].waitValue.value = 4;
  ops[1].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
  ops[2].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  ops[2].writeValue.address = memory;
  ops[2].writeValue.value = 5;
  OK(CU(cuStreamBatchMemOp)(stream, 3, ops, 0));
  EXPECT_EQ(read_word(memory), 5u);
  REFUSES(CU(cuStreamBatchMemOp)(stream, 3, ops, 1), CUDA_ERROR_INVALID_VALUE);
  std::vector<CUstreamBatchMemOpParams> many(256, ops[0]);
  FAILS(CU(cuStreamBatchMemOp)(stream, 256, many.data(), 0));
  OK(CU(cuStreamBatchMemOp)(stream, 255, many.data(), 0));
}

}  // namespace conformance
