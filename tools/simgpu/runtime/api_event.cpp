#include "tools/simgpu/runtime/runtime.h"

namespace simgpu::runtime {

SIMGPU_RUNTIME(cudaEventCreateWithFlags, (cudaEvent_t * event, unsigned flags)) {
  return call(false, [&](const DriverTable& d) { return d.cuEventCreate(event, flags); });
}

SIMGPU_RUNTIME(cudaEventCreate, (cudaEvent_t * event)) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}

SIMGPU_RUNTIME(cudaEventDestroy, (cudaEvent_t event)) {
  return call(false, [&](const DriverTable& d) { return d.cuEventDestroy(event); });
}

SIMGPU_RUNTIME_TWINS(cudaEventRecord, _ptsz, (cudaEvent_t event, cudaStream_t stream), event, stream) {
  return call(per_thread, [&](const DriverTable& d) { return d.cuEventRecord(event, stream); });
}

SIMGPU_RUNTIME_TWINS(cudaEventRecordWithFlags, _ptsz,
                     (cudaEvent_t event, cudaStream_t stream, unsigned flags), event, stream, flags) {
  return call(per_thread,
              [&](const DriverTable& d) { return d.cuEventRecordWithFlags(event, stream, flags); });
}

SIMGPU_RUNTIME(cudaEventQuery, (cudaEvent_t event)) {
  return call(false, [&](const DriverTable& d) { return d.cuEventQuery(event); });
}

SIMGPU_RUNTIME(cudaEventSynchronize, (cudaEvent_t event)) {
  return call(false, [&](const DriverTable& d) { return d.cuEventSynchronize(event); });
}

SIMGPU_RUNTIME(cudaEventElapsedTime, (float* ms, cudaEvent_t start, cudaEvent_t end)) {
  return call(false, [&](const DriverTable& d) { return d.cuEventElapsedTime(ms, start, end); });
}

}  // namespace simgpu::runtime
