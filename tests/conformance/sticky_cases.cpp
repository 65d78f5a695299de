// Errors that end a context, and what is not touched by them.

#include <array>
#include <thread>

#include "tests/conformance/device.h"

#define ERRORS "CUDA Driver API, Data types: CUresult, CUDA_ERROR_ILLEGAL_ADDRESS"

namespace conformance {
namespace {

/// Queues a kernel that writes where nothing is.
void break_context(CUstream stream = nullptr) {
  fill(reserve(granularity()), 64, 1, stream);
}

}  // namespace

CASE("sticky.an_illegal_address_is_told_by_the_next_wait", ERRORS) {
  use_device();
  const CUstream stream = make_stream();
  break_context(stream);
  REFUSES(CU(cuStreamSynchronize)(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
}

CASE("sticky.every_later_call_tells_it", ERRORS) {
  use_device();
  const CUstream stream = make_stream();
  const CUevent event = make_event();
  const CUdeviceptr memory = allocate(kMiB);
  break_context();
  REFUSES(CU(cuCtxSynchronize)(), CUDA_ERROR_ILLEGAL_ADDRESS);
  CUdeviceptr more = 0;
  REFUSES(CU(cuMemAlloc)(&more, 64), CUDA_ERROR_ILLEGAL_ADDRESS);
  REFUSES(CU(cuMemcpyHtoD)(memory, &more, 8), CUDA_ERROR_ILLEGAL_ADDRESS);
  REFUSES(CU(cuStreamSynchronize)(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
  REFUSES(CU(cuEventRecord)(event, stream), CUDA_ERROR_ILLEGAL_ADDRESS);
  REFUSES(CU(cuCtxSynchronize)(), CUDA_ERROR_ILLEGAL_ADDRESS);
}

CASE("sticky.the_runtime_does_not_forget_it", "CUDA Runtime API, Data types: cudaErrorIllegalAddress") {
  use_device();
  break_context();
  REFUSES(RT(cudaDeviceSynchronize)(), cudaErrorIllegalAddress);
  REFUSES(RT(cudaGetLastError)(), cudaErrorIllegalAddress);
  REFUSES(RT(cudaGetLastError)(), cudaErrorIllegalAddress);
  void* memory = nullptr;
  REFUSES(RT(cudaMalloc)(&memory, 64), cudaErrorIllegalAddress);
  REFUSES(RT(cudaDeviceSynchronize)(), cudaErrorIllegalAddress);
}

CASE("sticky.other_threads_of_the_context_see_it", ERRORS) {
  const CUcontext context = use_device();
  break_context();
  REFUSES(CU(cuCtxSynchronize)(), CUDA_ERROR_ILLEGAL_ADDRESS);
  std::thread([&] {
    CU(cuCtxSetCurrent)(context);
    CUdeviceptr more = 0;
    REFUSES(CU(cuMemAlloc)(&more, 64), CUDA_ERROR_ILLEGAL_ADDRESS);
  }).join();
}

CASE("sticky.another_process_does_not_see_it",
     "CUDA C++ Programming Guide, Error Checking; process isolation") {
  Partner partner([](const Partner::Channel& channel) {
    use_device();
    const CUdeviceptr memory = allocate(4 * kKiB);
    channel.receive<int>();
    fill(memory, 64, 3);
    EXPECT_WORDS(memory, 64, 3);
    channel.send(1);
  });
  use_device();
  break_context();
  REFUSES(CU(cuCtxSynchronize)(), CUDA_ERROR_ILLEGAL_ADDRESS);
  partner.channel().send(1);
  partner.channel().receive<int>();
  partner.join();
}

CASE("sticky.refused_arguments_are_not", "CUDA Driver API, Error Handling") {
  use_device();
  CUdeviceptr memory = 0;
  REFUSES(CU(cuMemAlloc)(&memory, 0), CUDA_ERROR_INVALID_VALUE);
  REFUSES(CU(cuMemAlloc)(&memory, std::size_t{1} << 50), CUDA_ERROR_OUT_OF_MEMORY);
  OK(CU(cuCtxSynchronize)());
  fill(allocate(4 * kKiB), 64, 1);
  OK(CU(cuCtxSynchronize)());
}

CASE("sticky.work_before_it_was_done", "CUDA C++ Programming Guide, Streams") {
  use_device();
  const CUstream stream = make_stream();
  unsigned* host = pinned_words(64);
  slow_fill(reinterpret_cast<CUdeviceptr>(host), 64, 5, stream);
  break_context(stream);
  REFUSES(CU(cuStreamSynchronize)(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(host[63], 5u + 63);
}

CASE_ORDER_ONCE("sticky.host_functions_do_not_run_after_it",
                "CUDA Driver API, Execution Control: cuLaunchHostFunc") {
  use_device();
  const CUstream stream = make_stream();
  static bool ran = false;
  break_context(stream);
  const CUresult queued = CU(cuLaunchHostFunc)(
      stream, [](void*) { ran = true; }, nullptr);
  EXPECT(queued == CUDA_SUCCESS || queued == CUDA_ERROR_ILLEGAL_ADDRESS);
  REFUSES(CU(cuStreamSynchronize)(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT(!ran);
}

CASE_ORDER_ONCE("sticky.callbacks_are_told_the_error",
                "CUDA Driver API, Stream Management: cuStreamAddCallback") {
  use_device();
  const CUstream stream = make_stream();
  static CUresult told = CUDA_SUCCESS;
  break_context(stream);
  const CUresult queued = CU(cuStreamAddCallback)(
      stream, [](CUstream, CUresult status, void*) { told = status; }, nullptr, 0);
  EXPECT(queued == CUDA_SUCCESS || queued == CUDA_ERROR_ILLEGAL_ADDRESS);
  REFUSES(CU(cuStreamSynchronize)(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
  if (queued == CUDA_SUCCESS) EXPECT_EQ(told, CUDA_ERROR_ILLEGAL_ADDRESS);
}

}  // namespace conformance
