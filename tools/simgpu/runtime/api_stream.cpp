#include <memory>

#include "tools/simgpu/runtime/runtime.h"

/// "Stream Management" of the CUDA runtime API, without capture.

namespace simgpu::runtime {
namespace {

/// A cudaStreamAddCallback call on its way through cuStreamAddCallback.
struct Callback {
  cudaStreamCallback_t function;
  void* argument;
};

void CUDA_CB run_callback(CUstream stream, CUresult status, void* argument) {
  const std::unique_ptr<Callback> callback(static_cast<Callback*>(argument));
  callback->function(stream, as_runtime(status), callback->argument);
}

}  // namespace

SIMGPU_FORWARD(cudaStreamCreateWithPriority, (cudaStream_t * stream, unsigned flags, int priority),
               d.cuStreamCreateWithPriority(stream, flags, priority))
SIMGPU_FORWARD(cudaStreamCreateWithFlags, (cudaStream_t * stream, unsigned flags),
               d.cuStreamCreate(stream, flags))
SIMGPU_FORWARD(cudaStreamCreate, (cudaStream_t * stream), d.cuStreamCreate(stream, cudaStreamDefault))
SIMGPU_FORWARD(cudaStreamDestroy, (cudaStream_t stream), d.cuStreamDestroy(stream))

SIMGPU_FORWARD_TWINS(cudaStreamSynchronize, _ptsz, (cudaStream_t stream), (stream),
                     d.cuStreamSynchronize(stream))
SIMGPU_FORWARD_TWINS(cudaStreamQuery, _ptsz, (cudaStream_t stream), (stream), d.cuStreamQuery(stream))
SIMGPU_FORWARD_TWINS(cudaStreamWaitEvent, _ptsz, (cudaStream_t stream, cudaEvent_t event, unsigned flags),
                     (stream, event, flags), d.cuStreamWaitEvent(stream, event, flags))
SIMGPU_FORWARD_TWINS(cudaStreamGetFlags, _ptsz, (cudaStream_t stream, unsigned* flags), (stream, flags),
                     d.cuStreamGetFlags(stream, flags))
SIMGPU_FORWARD_TWINS(cudaStreamGetPriority, _ptsz, (cudaStream_t stream, int* priority), (stream, priority),
                     d.cuStreamGetPriority(stream, priority))
SIMGPU_FORWARD_TWINS(cudaStreamGetId, _ptsz, (cudaStream_t stream, unsigned long long* id), (stream, id),
                     d.cuStreamGetId(stream, id))
SIMGPU_FORWARD_TWINS(cudaStreamGetDevice, _ptsz, (cudaStream_t stream, int* device), (stream, device),
                     d.cuStreamGetDevice(stream, device))

SIMGPU_FORWARD_TWINS(cudaStreamGetAttribute, _ptsz,
                     (cudaStream_t stream, cudaLaunchAttributeID which, cudaLaunchAttributeValue* value),
                     (stream, which, value),
                     d.cuStreamGetAttribute(stream, static_cast<CUstreamAttrID>(which),
                                            same<CUstreamAttrValue>(value)))
SIMGPU_FORWARD_TWINS(cudaStreamSetAttribute, _ptsz,
                     (cudaStream_t stream, cudaLaunchAttributeID which,
                      const cudaLaunchAttributeValue* value),
                     (stream, which, value),
                     d.cuStreamSetAttribute(stream, static_cast<CUstreamAttrID>(which),
                                            same<CUstreamAttrValue>(value)))
SIMGPU_FORWARD_TWINS(cudaStreamCopyAttributes, _ptsz, (cudaStream_t dst, cudaStream_t src), (dst, src),
                     d.cuStreamCopyAttributes(dst, src))

SIMGPU_FORWARD_TWINS(cudaLaunchHostFunc, _ptsz, (cudaStream_t stream, cudaHostFn_t function, void* argument),
                     (stream, function, argument), d.cuLaunchHostFunc(stream, function, argument))

SIMGPU_RUNTIME_TWINS(cudaStreamAddCallback, _ptsz,
                     (cudaStream_t stream, cudaStreamCallback_t function, void* argument, unsigned flags),
                     stream, function, argument, flags) {
  if (function == nullptr || flags != 0) return finish(cudaErrorInvalidValue);
  // From a successful call on, run_callback owns it.
  auto* callback = new Callback{function, argument};
  const cudaError_t result = call(per_thread, [&](const DriverTable& d) {
    return d.cuStreamAddCallback(stream, &run_callback, callback, flags);
  });
  if (result != cudaSuccess) delete callback;
  return result;  // NOLINT(clang-analyzer-cplusplus.NewDeleteLeaks)
}

}  // namespace simgpu::runtime
