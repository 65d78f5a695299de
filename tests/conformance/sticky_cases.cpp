// Errors that end a context, and what is not touched by them.

#include <array>
#include <atomic>
#include <chrono>
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
  // The thread's last error is taken like any other; the next call that works on the device has it again.
  REFUSES(RT(cudaGetLastError)(), cudaErrorIllegalAddress);
  OK(RT(cudaGetLastError)());
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

CASE("sticky.every_context_of_the_device_is_lost",
     "CUDA Driver API, Data types: CUresult, CUDA_ERROR_ILLEGAL_ADDRESS: the process must be terminated") {
  const CUcontext primary = use_device();
  CUcontext other = nullptr;
  OK(CU(cuCtxCreate)(&other, nullptr, 0, 0));
  OK(CU(cuCtxSetCurrent)(primary));
  break_context();
  REFUSES(CU(cuCtxSynchronize)(), CUDA_ERROR_ILLEGAL_ADDRESS);
  OK(CU(cuCtxSetCurrent)(other));
  CUdeviceptr memory = 0;
  REFUSES(CU(cuMemAlloc)(&memory, 64), CUDA_ERROR_ILLEGAL_ADDRESS);
}

CASE("sticky.contexts_can_still_be_bound", "CUDA Driver API, Context Management: cuCtxSetCurrent") {
  const CUcontext primary = use_device();
  CUcontext other = nullptr;
  OK(CU(cuCtxCreate)(&other, nullptr, 0, 0));
  break_context();
  REFUSES(CU(cuCtxSynchronize)(), CUDA_ERROR_ILLEGAL_ADDRESS);
  OK(CU(cuCtxSetCurrent)(primary));
  CUcontext got = nullptr;
  CUdevice device = -1;
  unsigned flags = 0;
  unsigned long long id = 0;
  int value = 0;
  REMARK(CU(cuCtxGetCurrent)(&got));
  REMARK(CU(cuCtxPushCurrent)(other));
  REMARK(CU(cuCtxPopCurrent)(&got));
  REMARK(CU(cuCtxGetDevice)(&device));
  REMARK(CU(cuCtxGetFlags)(&flags));
  REMARK(CU(cuCtxGetId)(primary, &id));
  REMARK(CU(cuDeviceGet)(&device, 0));
  REMARK(CU(cuDeviceGetAttribute)(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0));
  REMARK(CU(cuDriverGetVersion)(&value));
  REMARK(CU(cuDevicePrimaryCtxGetState)(0, &flags, &value));
  REMARK(RT(cudaGetDevice)(&value));
  REMARK(RT(cudaSetDevice)(0));
}

CASE("sticky.no_context_begins_anew",
     "CUDA Driver API, Data types: CUresult, CUDA_ERROR_ILLEGAL_ADDRESS: the process must be terminated") {
  use_device();
  CUcontext other = nullptr;
  OK(CU(cuCtxCreate)(&other, nullptr, 0, 0));
  break_context();
  REFUSES(CU(cuCtxSynchronize)(), CUDA_ERROR_ILLEGAL_ADDRESS);
  OK(CU(cuCtxDestroy)(other));
  OK(CU(cuDevicePrimaryCtxReset)(0));
  OK(CU(cuCtxSetCurrent)(nullptr));
  CUcontext again = nullptr;
  REFUSES(CU(cuDevicePrimaryCtxRetain)(&again, 0), CUDA_ERROR_ILLEGAL_ADDRESS);
  REFUSES(CU(cuCtxCreate)(&again, nullptr, 0, 0), CUDA_ERROR_ILLEGAL_ADDRESS);
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
  static std::atomic<int> told{-1};
  break_context(stream);
  const CUresult queued = CU(cuStreamAddCallback)(
      stream, [](CUstream, CUresult status, void*) { told = status; }, nullptr, 0);
  remark("adding it gives " + std::to_string(queued));
  EXPECT(queued == CUDA_SUCCESS || queued == CUDA_ERROR_ILLEGAL_ADDRESS);
  REFUSES(CU(cuStreamSynchronize)(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
  remark("it is told " + std::to_string(told) + " at the end of the wait");
  // A wait that ends with an error need not wait for the thread that calls back.
  for (int i = 0; queued == CUDA_SUCCESS && told == -1 && i < 100; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  remark("it is told " + std::to_string(told) + " in the end");
  EXPECT(told == -1 || told == CUDA_ERROR_ILLEGAL_ADDRESS);
}

}  // namespace conformance
