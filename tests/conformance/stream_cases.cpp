// Streams: what they are, and the order that they and host functions promise.

#include <array>
#include <cstdint>
#include <thread>

#include "tests/conformance/device.h"

#define STREAM "CUDA Driver API, Stream Management: "
#define IMPLICIT "CUDA Driver API, Stream synchronization behavior, "
#define EXECUTION "CUDA Driver API, Execution Control: "

namespace conformance {
namespace {

constexpr unsigned kMany = 1 << 14;

unsigned long long id_of(CUstream stream) {
  unsigned long long id = 0;
  OK(CU(cuStreamGetId)(stream, &id));
  return id;
}

/// Host functions note their number here.
std::vector<int> g_seen;

void note(void* number) {
  g_seen.push_back(static_cast<int>(reinterpret_cast<std::intptr_t>(number)));
}

void queue_note(CUstream stream, int number) {
  OK(CU(cuLaunchHostFunc)(stream, &note, reinterpret_cast<void*>(static_cast<std::intptr_t>(number))));
}

}  // namespace

CASE("stream.flags_are_told", STREAM "cuStreamCreate, cuStreamGetFlags") {
  use_device();
  unsigned flags = 99;
  OK(CU(cuStreamGetFlags)(make_stream(), &flags));
  EXPECT_EQ(flags, unsigned{CU_STREAM_DEFAULT});
  OK(CU(cuStreamGetFlags)(make_stream(CU_STREAM_NON_BLOCKING), &flags));
  EXPECT_EQ(flags, unsigned{CU_STREAM_NON_BLOCKING});
  CUstream stream = nullptr;
  REFUSES(CU(cuStreamCreate)(&stream, 0x100), CUDA_ERROR_INVALID_VALUE);
}

CASE("stream.priorities_are_clamped", STREAM "cuStreamCreateWithPriority") {
  use_device();
  int least = 0;
  int greatest = 0;
  OK(CU(cuCtxGetStreamPriorityRange)(&least, &greatest));
  const std::array<std::array<int, 2>, 4> tries{
      {{greatest, greatest}, {least, least}, {greatest - 100, greatest}, {least + 100, least}}};
  for (const auto& [asked, want] : tries) {
    CUstream stream = nullptr;
    int got = 99;
    OK(CU(cuStreamCreateWithPriority)(&stream, CU_STREAM_NON_BLOCKING, asked));
    OK(CU(cuStreamGetPriority)(stream, &got));
    EXPECT_EQ(got, want);
  }
}

CASE("stream.ids_are_never_used_twice", STREAM "cuStreamGetId") {
  use_device();
  const CUstream one = make_stream();
  const unsigned long long first = id_of(one);
  EXPECT_EQ(id_of(one), first);
  OK(CU(cuStreamDestroy)(one));
  EXPECT(id_of(make_stream()) != first);
  EXPECT_EQ(id_of(nullptr), id_of(CU_STREAM_LEGACY));
  EXPECT(id_of(CU_STREAM_PER_THREAD) != id_of(CU_STREAM_LEGACY));
}

CASE("stream.each_thread_has_its_per_thread_stream", IMPLICIT "Per-thread default stream") {
  const CUcontext context = use_device();
  const unsigned long long mine = id_of(CU_STREAM_PER_THREAD);
  EXPECT_EQ(id_of(CU_STREAM_PER_THREAD), mine);
  std::thread([&] {
    OK(CU(cuCtxSetCurrent)(context));
    EXPECT(id_of(CU_STREAM_PER_THREAD) != mine);
  }).join();
}

CASE("stream.its_context_and_device_are_told", STREAM "cuStreamGetCtx, cuStreamGetDevice") {
  const CUcontext context = use_device();
  CUcontext told = nullptr;
  CUdevice device = -1;
  OK(CU(cuStreamGetCtx)(make_stream(), &told));
  EXPECT(told == context);
  OK(CU(cuStreamGetDevice)(make_stream(), &device));
  EXPECT_EQ(device, 0);
}

CASE_ORDER("stream.work_of_one_stream_runs_in_order", "CUDA C++ Programming Guide, Streams") {
  use_device();
  const CUstream stream = make_stream(CU_STREAM_NON_BLOCKING);
  const CUdeviceptr memory = allocate(4 * kMany);
  fill(memory, kMany, 1, stream);
  unsigned factor = 1;
  unsigned sum = 0;
  for (unsigned i = 0; i < 20; ++i) {
    affine(memory, kMany, 3, i, stream);
    factor *= 3;
    sum = sum * 3 + i;
  }
  const std::vector<unsigned> words = read_words(memory, kMany);
  for (unsigned i = 0; i < kMany; ++i) EXPECT_EQ(words[i], (1 + i) * factor + sum);
}

CASE_ORDER("stream.synchronize_waits_for_its_work", STREAM "cuStreamSynchronize") {
  use_device();
  for (const unsigned flags : {CU_STREAM_DEFAULT, CU_STREAM_NON_BLOCKING}) {
    const CUstream stream = make_stream(flags);
    unsigned* host = pinned_words(64);
    slow_fill(reinterpret_cast<CUdeviceptr>(host), 64, 5, stream);
    OK(CU(cuStreamSynchronize)(stream));
    EXPECT_EQ(host[63], 5u + 63);
  }
}

CASE_ORDER("stream.a_query_says_success_only_when_it_is_over", STREAM "cuStreamQuery") {
  use_device();
  const CUstream stream = make_stream(CU_STREAM_NON_BLOCKING);
  unsigned* host = pinned_words(64);
  OK(CU(cuStreamQuery)(stream));
  slow_fill(reinterpret_cast<CUdeviceptr>(host), 64, 6, stream);
  CUresult result = CUDA_ERROR_NOT_READY;
  while (result == CUDA_ERROR_NOT_READY) result = CU(cuStreamQuery)(stream);
  OK(result);
  EXPECT_EQ(host[63], 6u + 63);
}

CASE_ORDER("stream.the_legacy_stream_waits_for_blocking_ones", IMPLICIT "Legacy default stream") {
  use_device();
  const CUstream one = make_stream();
  const CUstream two = make_stream();
  const CUdeviceptr memory = allocate(8 * kMany);
  slow_fill(memory, kMany, 3, one);
  slow_fill(memory + 4 * kMany, kMany, 3 + kMany, two);
  affine(memory, 2 * kMany, 1, 10, nullptr);
  EXPECT_WORDS(memory, 2 * kMany, 13);
}

CASE_ORDER("stream.blocking_ones_wait_for_the_legacy_stream", IMPLICIT "Legacy default stream") {
  use_device();
  const CUstream one = make_stream();
  const CUdeviceptr memory = allocate(4 * kMany);
  slow_fill(memory, kMany, 3, CU_STREAM_LEGACY);
  affine(memory, kMany, 1, 20, one);
  EXPECT_WORDS(memory, kMany, 23);
}

CASE_ORDER("stream.the_per_thread_stream_and_the_legacy_stream_wait_for_each_other",
           IMPLICIT "Per-thread default stream") {
  use_device();
  const CUdeviceptr memory = allocate(4 * kMany);
  slow_fill(memory, kMany, 3, CU_STREAM_PER_THREAD);
  affine(memory, kMany, 1, 4, nullptr);
  affine(memory, kMany, 2, 0, CU_STREAM_PER_THREAD);
  affine(memory, kMany, 1, 1, nullptr);
  const std::vector<unsigned> words = read_words(memory, kMany);
  for (unsigned i = 0; i < kMany; ++i) EXPECT_EQ(words[i], 2 * (7 + i) + 1);
}

CASE_ORDER("stream.synchronizing_the_legacy_stream_waits_for_blocking_ones",
           IMPLICIT "Legacy default stream") {
  use_device();
  unsigned* host = pinned_words(64);
  slow_fill(reinterpret_cast<CUdeviceptr>(host), 64, 8, make_stream());
  OK(CU(cuStreamSynchronize)(nullptr));
  EXPECT_EQ(host[63], 8u + 63);
}

CASE_ORDER("stream.a_destroyed_one_finishes_its_work", STREAM "cuStreamDestroy") {
  use_device();
  const CUdeviceptr memory = allocate(4 * kMany);
  for (unsigned i = 0; i < 4; ++i) {
    const CUstream stream = make_stream(CU_STREAM_NON_BLOCKING);
    slow_fill(memory, kMany, i, stream);
    affine(memory, kMany, 1, 100, stream);
    OK(CU(cuStreamDestroy)(stream));
    EXPECT_WORDS(memory, kMany, 100 + i);
  }
}

CASE_ORDER("stream.more_work_than_fits_the_queue_is_taken",
           EXECUTION "cuLaunchKernel; Programming Guide, Streams") {
  use_device();
  const CUstream stream = make_stream(CU_STREAM_NON_BLOCKING);
  const CUdeviceptr memory = allocate(4);
  fill(memory, 1, 1, stream);
  unsigned want = 1;
  for (unsigned i = 0; i < 3000; ++i) {
    affine(memory, 1, 3, i, stream);
    want = want * 3 + i;
  }
  EXPECT_EQ(read_word(memory), want);
}

CASE_ORDER("stream.host_functions_run_in_order_with_the_device", EXECUTION "cuLaunchHostFunc") {
  use_device();
  const CUstream stream = make_stream(CU_STREAM_NON_BLOCKING);
  unsigned* host = pinned_words(1);
  const auto memory = reinterpret_cast<CUdeviceptr>(host);
  slow_fill(memory, 1, 5, stream);
  OK(CU(cuLaunchHostFunc)(
      stream, [](void* word) { *static_cast<unsigned*>(word) *= 7; }, host));
  affine(memory, 1, 1, 2, stream);
  OK(CU(cuLaunchHostFunc)(
      stream, [](void* word) { *static_cast<unsigned*>(word) *= 3; }, host));
  OK(CU(cuStreamSynchronize)(stream));
  EXPECT_EQ(*host, (5u * 7 + 2) * 3);
}

CASE_ORDER("stream.host_functions_run_once_each", EXECUTION "cuLaunchHostFunc") {
  use_device();
  g_seen.clear();
  const CUstream stream = make_stream();
  for (int i = 0; i < 50; ++i) queue_note(stream, i);
  OK(CU(cuStreamSynchronize)(stream));
  EXPECT_EQ(g_seen.size(), 50u);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(g_seen[static_cast<std::size_t>(i)], i);
}

CASE_ORDER("stream.callbacks_are_told_their_stream_and_status", STREAM "cuStreamAddCallback") {
  use_device();
  struct Told {
    CUstream stream = nullptr;
    CUresult status = CUDA_ERROR_UNKNOWN;
    unsigned word = 0;
    unsigned* host = nullptr;
  };
  Told told;
  told.host = pinned_words(64);
  const CUstream stream = make_stream();
  slow_fill(reinterpret_cast<CUdeviceptr>(told.host), 64, 4, stream);
  OK(CU(cuStreamAddCallback)(
      stream,
      [](CUstream which, CUresult status, void* data) {
        auto& t = *static_cast<Told*>(data);
        t.stream = which;
        t.status = status;
        t.word = t.host[63];
      },
      &told, 0));
  OK(CU(cuStreamSynchronize)(stream));
  EXPECT(told.stream == stream && told.status == CUDA_SUCCESS);
  EXPECT_EQ(told.word, 4u + 63);
  FAILS(CU(cuStreamAddCallback)(
      stream, [](CUstream, CUresult, void*) {}, nullptr, 1));
}

CASE_ORDER("stream.threads_use_their_own_streams_at_once", "CUDA C++ Programming Guide, Streams") {
  const CUcontext context = use_device();
  const CUdeviceptr memory = allocate(4 * 4 * kKiB);
  std::array<std::thread, 4> threads;
  for (unsigned t = 0; t < threads.size(); ++t) {
    threads[t] = std::thread([&, t] {
      OK(CU(cuCtxSetCurrent)(context));
      const CUstream stream = make_stream(CU_STREAM_NON_BLOCKING);
      const CUdeviceptr mine = memory + t * 4 * kKiB;
      fill(mine, 1024, t, stream);
      for (int i = 0; i < 50; ++i) affine(mine, 1024, 1, 2, stream);
      OK(CU(cuStreamSynchronize)(stream));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (unsigned t = 0; t < threads.size(); ++t) EXPECT_WORDS(memory + t * 4 * kKiB, 1024, t + 100);
}

CASE("stream.the_runtimes_streams_are_the_drivers", "CUDA Runtime API, Stream Management; Interactions") {
  use_device();
  cudaStream_t stream = nullptr;
  unsigned flags = 0;
  OK(RT(cudaStreamCreateWithFlags)(&stream, cudaStreamNonBlocking));
  OK(CU(cuStreamGetFlags)(stream, &flags));
  EXPECT_EQ(flags, unsigned{CU_STREAM_NON_BLOCKING});
  const CUdeviceptr memory = allocate(4 * kKiB);
  fill(memory, 64, 3, stream);
  OK(RT(cudaStreamSynchronize)(stream));
  OK(RT(cudaStreamQuery)(stream));
  OK(RT(cudaStreamDestroy)(stream));
  EXPECT_WORDS(memory, 64, 3);
}

}  // namespace conformance
