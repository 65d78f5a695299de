#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace storm {

/// The calls of the runtime that are others in a program which is compiled for default streams per thread: to
/// them no stream is the calling thread's own.
struct Calls {
  decltype(&::cudaMemcpy) memcpy;
  decltype(&::cudaMemcpyAsync) memcpy_async;
  decltype(&::cudaMemcpy2DAsync) memcpy_2d_async;
  decltype(&::cudaMemset) memset;
  decltype(&::cudaMemsetAsync) memset_async;
  cudaError_t (*malloc_async)(void**, std::size_t, cudaStream_t);
  cudaError_t (*malloc_from_pool_async)(void**, std::size_t, cudaMemPool_t, cudaStream_t);
  decltype(&::cudaFreeAsync) free_async;
  decltype(&::cudaLaunchHostFunc) launch_host_func;
  decltype(&::cudaGraphLaunch) graph_launch;
  decltype(&::cudaEventRecord) event_record;
  decltype(&::cudaStreamWaitEvent) stream_wait_event;
  decltype(&::cudaStreamSynchronize) stream_synchronize;
  decltype(&::cudaStreamBeginCapture) stream_begin_capture;
  decltype(&::cudaStreamEndCapture) stream_end_capture;
  decltype(&::cudaGetDriverEntryPointByVersion) get_driver_entry;
  /// Null: kernels are launched as the compiler does.
  cudaError_t (*launch_kernel)(const void*, dim3, dim3, void**, std::size_t, cudaStream_t);
};

extern const Calls kCalls;
extern const Calls kPerThreadCalls;

}  // namespace storm
