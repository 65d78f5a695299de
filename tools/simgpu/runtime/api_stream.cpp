#include <memory>

#include "tools/simgpu/runtime/runtime.h"

namespace simgpu::runtime {
namespace {

/// A cudaStreamAddCallback call on its way through cuLaunchHostFunc.
struct Callback {
  cudaStreamCallback_t function;
  cudaStream_t stream;
  void* argument;
};

void CUDA_CB run_callback(void* argument) {
  const std::unique_ptr<Callback> callback(static_cast<Callback*>(argument));
  callback->function(callback->stream, cudaSuccess, callback->argument);
}

}  // namespace

SIMGPU_RUNTIME(cudaStreamCreateWithPriority, (cudaStream_t * stream, unsigned flags, int priority)) {
  return call(false,
              [&](const DriverTable& d) { return d.cuStreamCreateWithPriority(stream, flags, priority); });
}

SIMGPU_RUNTIME(cudaStreamCreateWithFlags, (cudaStream_t * stream, unsigned flags)) {
  return call(false, [&](const DriverTable& d) { return d.cuStreamCreate(stream, flags); });
}

SIMGPU_RUNTIME(cudaStreamCreate, (cudaStream_t * stream)) {
  return cudaStreamCreateWithFlags(stream, cudaStreamDefault);
}

SIMGPU_RUNTIME(cudaStreamDestroy, (cudaStream_t stream)) {
  return call(false, [&](const DriverTable& d) { return d.cuStreamDestroy(stream); });
}

SIMGPU_RUNTIME_TWINS(cudaStreamSynchronize, _ptsz, (cudaStream_t stream), stream) {
  return call(per_thread, [&](const DriverTable& d) { return d.cuStreamSynchronize(stream); });
}

SIMGPU_RUNTIME_TWINS(cudaStreamQuery, _ptsz, (cudaStream_t stream), stream) {
  return call(per_thread, [&](const DriverTable& d) { return d.cuStreamQuery(stream); });
}

SIMGPU_RUNTIME_TWINS(cudaStreamWaitEvent, _ptsz, (cudaStream_t stream, cudaEvent_t event, unsigned flags),
                     stream, event, flags) {
  return call(per_thread, [&](const DriverTable& d) { return d.cuStreamWaitEvent(stream, event, flags); });
}

SIMGPU_RUNTIME_TWINS(cudaStreamGetFlags, _ptsz, (cudaStream_t stream, unsigned* flags), stream, flags) {
  return call(per_thread, [&](const DriverTable& d) { return d.cuStreamGetFlags(stream, flags); });
}

SIMGPU_RUNTIME_TWINS(cudaStreamGetPriority, _ptsz, (cudaStream_t stream, int* priority), stream, priority) {
  return call(per_thread, [&](const DriverTable& d) { return d.cuStreamGetPriority(stream, priority); });
}

SIMGPU_RUNTIME_TWINS(cudaStreamGetId, _ptsz, (cudaStream_t stream, unsigned long long* id), stream, id) {
  return call(per_thread, [&](const DriverTable& d) { return d.cuStreamGetId(stream, id); });
}

SIMGPU_RUNTIME_TWINS(cudaStreamIsCapturing, _ptsz, (cudaStream_t stream, cudaStreamCaptureStatus* status),
                     stream, status) {
  return call(per_thread, [&](const DriverTable& d) {
    if (status == nullptr) return CUDA_ERROR_INVALID_VALUE;
    CUstreamCaptureStatus found{};
    const CUresult result = d.cuStreamIsCapturing(stream, &found);
    if (result == CUDA_SUCCESS) *status = static_cast<cudaStreamCaptureStatus>(found);
    return result;
  });
}

SIMGPU_RUNTIME(cudaThreadExchangeStreamCaptureMode, (cudaStreamCaptureMode * mode)) {
  return call(false, [&](const DriverTable& d) {
    if (mode == nullptr) return CUDA_ERROR_INVALID_VALUE;
    auto exchanged = static_cast<CUstreamCaptureMode>(*mode);
    const CUresult result = d.cuThreadExchangeStreamCaptureMode(&exchanged);
    if (result == CUDA_SUCCESS) *mode = static_cast<cudaStreamCaptureMode>(exchanged);
    return result;
  });
}

SIMGPU_RUNTIME_TWINS(cudaLaunchHostFunc, _ptsz, (cudaStream_t stream, cudaHostFn_t function, void* argument),
                     stream, function, argument) {
  return call(per_thread,
              [&](const DriverTable& d) { return d.cuLaunchHostFunc(stream, function, argument); });
}

SIMGPU_RUNTIME_TWINS(cudaStreamAddCallback, _ptsz,
                     (cudaStream_t stream, cudaStreamCallback_t function, void* argument, unsigned flags),
                     stream, function, argument, flags) {
  if (function == nullptr || flags != 0) return finish(cudaErrorInvalidValue);
  // From a successful call on, run_callback owns it.
  auto* callback = new Callback{function, stream, argument};
  const cudaError_t result = call(
      per_thread, [&](const DriverTable& d) { return d.cuLaunchHostFunc(stream, &run_callback, callback); });
  if (result != cudaSuccess) delete callback;
  return result;  // NOLINT(clang-analyzer-cplusplus.NewDeleteLeaks)
}

SIMGPU_RUNTIME(cudaDeviceGetStreamPriorityRange, (int* least, int* greatest)) {
  return call(false, [&](const DriverTable& d) { return d.cuCtxGetStreamPriorityRange(least, greatest); });
}

}  // namespace simgpu::runtime
