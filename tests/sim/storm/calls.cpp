// Compiled twice, also with CUDA_API_PER_THREAD_DEFAULT_STREAM: the header names other functions then.

#include "tests/sim/storm/calls.h"

namespace storm {

#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
const Calls kPerThreadCalls = {
#else
const Calls kCalls = {
#endif
    .memcpy = cudaMemcpy,
    .memcpy_async = cudaMemcpyAsync,
    .memcpy_2d_async = cudaMemcpy2DAsync,
    .memset = cudaMemset,
    .memset_async = cudaMemsetAsync,
    .malloc_async = cudaMallocAsync,
    .malloc_from_pool_async = cudaMallocFromPoolAsync,
    .free_async = cudaFreeAsync,
    .launch_host_func = cudaLaunchHostFunc,
    .graph_launch = cudaGraphLaunch,
    .event_record = cudaEventRecord,
    .stream_wait_event = cudaStreamWaitEvent,
    .stream_synchronize = cudaStreamSynchronize,
    .stream_begin_capture = cudaStreamBeginCapture,
    .stream_end_capture = cudaStreamEndCapture,
    .get_driver_entry = cudaGetDriverEntryPointByVersion,
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
    .launch_kernel = cudaLaunchKernel,
#else
    .launch_kernel = nullptr,
#endif
};

}  // namespace storm
