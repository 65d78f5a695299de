#include "tools/simgpu/runtime/runtime.h"

/// "Event Management" of the CUDA runtime API.

namespace simgpu::runtime {

SIMGPU_FORWARD(cudaEventCreateWithFlags, (cudaEvent_t * event, unsigned flags), d.cuEventCreate(event, flags))
SIMGPU_FORWARD(cudaEventCreate, (cudaEvent_t * event), d.cuEventCreate(event, cudaEventDefault))
SIMGPU_FORWARD(cudaEventDestroy, (cudaEvent_t event), d.cuEventDestroy(event))
SIMGPU_FORWARD(cudaEventQuery, (cudaEvent_t event), d.cuEventQuery(event))
SIMGPU_FORWARD(cudaEventSynchronize, (cudaEvent_t event), d.cuEventSynchronize(event))
SIMGPU_FORWARD(cudaEventElapsedTime, (float* ms, cudaEvent_t start, cudaEvent_t end),
               d.cuEventElapsedTime(ms, start, end))
SIMGPU_FORWARD_TWINS(cudaEventRecord, _ptsz, (cudaEvent_t event, cudaStream_t stream), (event, stream),
                     d.cuEventRecord(event, stream))
SIMGPU_FORWARD_TWINS(cudaEventRecordWithFlags, _ptsz,
                     (cudaEvent_t event, cudaStream_t stream, unsigned flags), (event, stream, flags),
                     d.cuEventRecordWithFlags(event, stream, flags))

// Interprocess.
SIMGPU_FORWARD(cudaIpcGetEventHandle, (cudaIpcEventHandle_t * handle, cudaEvent_t event),
               d.cuIpcGetEventHandle(same<CUipcEventHandle>(handle), event))
SIMGPU_FORWARD(cudaIpcOpenEventHandle, (cudaEvent_t * event, cudaIpcEventHandle_t handle),
               d.cuIpcOpenEventHandle(event, *same<CUipcEventHandle>(&handle)))

}  // namespace simgpu::runtime
