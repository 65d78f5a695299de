#include "tools/simgpu/runtime/runtime.h"

/// Managed memory: cudaMallocManaged and what may be said about it ("Memory Management" of the CUDA runtime
/// API).

namespace simgpu::runtime {

SIMGPU_FORWARD(cudaMallocManaged, (void** out, size_t bytes, unsigned flags),
               d.cuMemAllocManaged(same<CUdeviceptr>(out), bytes, flags))

SIMGPU_FORWARD(cudaMemAdvise, (const void* at, size_t n, cudaMemoryAdvise advice, cudaMemLocation location),
               d.cuMemAdvise(device_address(at), n, static_cast<CUmem_advise>(advice),
                             *same<CUmemLocation>(&location)))

SIMGPU_FORWARD_TWINS(cudaMemPrefetchAsync, _ptsz,
                     (const void* at, size_t n, cudaMemLocation location, unsigned flags,
                      cudaStream_t stream),
                     (at, n, location, flags, stream),
                     d.cuMemPrefetchAsync(device_address(at), n, *same<CUmemLocation>(&location), flags,
                                          stream))

SIMGPU_FORWARD_TWINS(cudaMemPrefetchBatchAsync, _ptsz,
                     (void** ats, size_t* sizes, size_t count, cudaMemLocation* locations, size_t* first,
                      size_t location_count, unsigned long long flags, cudaStream_t stream),
                     (ats, sizes, count, locations, first, location_count, flags, stream),
                     d.cuMemPrefetchBatchAsync(same<CUdeviceptr>(ats), sizes, count,
                                               same<CUmemLocation>(locations), first, location_count, flags,
                                               stream))

SIMGPU_FORWARD_TWINS(cudaMemDiscardBatchAsync, _ptsz,
                     (void** ats, size_t* sizes, size_t count, unsigned long long flags, cudaStream_t stream),
                     (ats, sizes, count, flags, stream),
                     d.cuMemDiscardBatchAsync(same<CUdeviceptr>(ats), sizes, count, flags, stream))

SIMGPU_FORWARD_TWINS(cudaMemDiscardAndPrefetchBatchAsync, _ptsz,
                     (void** ats, size_t* sizes, size_t count, cudaMemLocation* locations, size_t* first,
                      size_t location_count, unsigned long long flags, cudaStream_t stream),
                     (ats, sizes, count, locations, first, location_count, flags, stream),
                     d.cuMemDiscardAndPrefetchBatchAsync(same<CUdeviceptr>(ats), sizes, count,
                                                         same<CUmemLocation>(locations), first,
                                                         location_count, flags, stream))

SIMGPU_FORWARD(cudaMemRangeGetAttribute,
               (void* data, size_t bytes, cudaMemRangeAttribute which, const void* at, size_t n),
               d.cuMemRangeGetAttribute(data, bytes, static_cast<CUmem_range_attribute>(which),
                                        device_address(at), n))

SIMGPU_FORWARD(cudaMemRangeGetAttributes,
               (void** data, size_t* bytes, cudaMemRangeAttribute* which, size_t count, const void* at,
                size_t n),
               d.cuMemRangeGetAttributes(data, bytes, same<CUmem_range_attribute>(which), count,
                                         device_address(at), n))

SIMGPU_FORWARD_TWINS(cudaStreamAttachMemAsync, _ptsz,
                     (cudaStream_t stream, void* at, size_t n, unsigned flags), (stream, at, n, flags),
                     d.cuStreamAttachMemAsync(stream, device_address(at), n, flags))

}  // namespace simgpu::runtime
