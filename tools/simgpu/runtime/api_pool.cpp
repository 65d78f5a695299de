#include "tools/simgpu/runtime/runtime.h"

/// "Stream Ordered Memory Allocator" of the CUDA runtime API.

namespace simgpu::runtime {

SIMGPU_FORWARD_TWINS(cudaMallocAsync, _ptsz, (void** out, size_t bytes, cudaStream_t stream),
                     (out, bytes, stream), d.cuMemAllocAsync(same<CUdeviceptr>(out), bytes, stream))

SIMGPU_FORWARD_TWINS(cudaMallocFromPoolAsync, _ptsz,
                     (void** out, size_t bytes, cudaMemPool_t pool, cudaStream_t stream),
                     (out, bytes, pool, stream),
                     d.cuMemAllocFromPoolAsync(same<CUdeviceptr>(out), bytes, pool, stream))

SIMGPU_FORWARD_TWINS(cudaFreeAsync, _ptsz, (void* pointer, cudaStream_t stream), (pointer, stream),
                     d.cuMemFreeAsync(device_address(pointer), stream))

SIMGPU_FORWARD(cudaMemPoolCreate, (cudaMemPool_t * pool, const cudaMemPoolProps* properties),
               d.cuMemPoolCreate(pool, same<CUmemPoolProps>(properties)))
SIMGPU_FORWARD(cudaMemPoolDestroy, (cudaMemPool_t pool), d.cuMemPoolDestroy(pool))
SIMGPU_FORWARD(cudaMemPoolTrimTo, (cudaMemPool_t pool, size_t keep), d.cuMemPoolTrimTo(pool, keep))
SIMGPU_FORWARD(cudaMemPoolSetAttribute, (cudaMemPool_t pool, cudaMemPoolAttr which, void* value),
               d.cuMemPoolSetAttribute(pool, static_cast<CUmemPool_attribute>(which), value))
SIMGPU_FORWARD(cudaMemPoolGetAttribute, (cudaMemPool_t pool, cudaMemPoolAttr which, void* value),
               d.cuMemPoolGetAttribute(pool, static_cast<CUmemPool_attribute>(which), value))
SIMGPU_FORWARD(cudaMemPoolSetAccess, (cudaMemPool_t pool, const cudaMemAccessDesc* access, size_t count),
               d.cuMemPoolSetAccess(pool, same<CUmemAccessDesc>(access), count))
SIMGPU_FORWARD(cudaMemPoolGetAccess,
               (cudaMemAccessFlags * flags, cudaMemPool_t pool, cudaMemLocation* location),
               d.cuMemPoolGetAccess(same<CUmemAccess_flags>(flags), pool, same<CUmemLocation>(location)))
SIMGPU_FORWARD(cudaMemPoolExportToShareableHandle,
               (void* handle, cudaMemPool_t pool, cudaMemAllocationHandleType type, unsigned flags),
               d.cuMemPoolExportToShareableHandle(handle, pool, static_cast<CUmemAllocationHandleType>(type),
                                                  flags))
SIMGPU_FORWARD(cudaMemPoolImportFromShareableHandle,
               (cudaMemPool_t * pool, void* handle, cudaMemAllocationHandleType type, unsigned flags),
               d.cuMemPoolImportFromShareableHandle(pool, handle,
                                                    static_cast<CUmemAllocationHandleType>(type), flags))
SIMGPU_FORWARD(cudaMemPoolExportPointer, (cudaMemPoolPtrExportData * data, void* pointer),
               d.cuMemPoolExportPointer(same<CUmemPoolPtrExportData>(data), device_address(pointer)))
SIMGPU_FORWARD(cudaMemPoolImportPointer, (void** out, cudaMemPool_t pool, cudaMemPoolPtrExportData* data),
               d.cuMemPoolImportPointer(same<CUdeviceptr>(out), pool, same<CUmemPoolPtrExportData>(data)))

SIMGPU_FORWARD(cudaDeviceGetDefaultMemPool, (cudaMemPool_t * pool, int device),
               d.cuDeviceGetDefaultMemPool(pool, device))
SIMGPU_FORWARD(cudaDeviceGetMemPool, (cudaMemPool_t * pool, int device), d.cuDeviceGetMemPool(pool, device))
SIMGPU_FORWARD(cudaDeviceSetMemPool, (int device, cudaMemPool_t pool), d.cuDeviceSetMemPool(device, pool))
SIMGPU_FORWARD(cudaMemGetDefaultMemPool,
               (cudaMemPool_t * pool, cudaMemLocation* location, cudaMemAllocationType type),
               d.cuMemGetDefaultMemPool(pool, same<CUmemLocation>(location),
                                        static_cast<CUmemAllocationType>(type)))
SIMGPU_FORWARD(cudaMemGetMemPool,
               (cudaMemPool_t * pool, cudaMemLocation* location, cudaMemAllocationType type),
               d.cuMemGetMemPool(pool, same<CUmemLocation>(location), static_cast<CUmemAllocationType>(type)))
SIMGPU_FORWARD(cudaMemSetMemPool,
               (cudaMemLocation * location, cudaMemAllocationType type, cudaMemPool_t pool),
               d.cuMemSetMemPool(same<CUmemLocation>(location), static_cast<CUmemAllocationType>(type), pool))

// Memory of graphs.
SIMGPU_FORWARD(cudaDeviceGraphMemTrim, (int device), d.cuDeviceGraphMemTrim(device))
SIMGPU_FORWARD(cudaDeviceGetGraphMemAttribute, (int device, cudaGraphMemAttributeType which, void* value),
               d.cuDeviceGetGraphMemAttribute(device, static_cast<CUgraphMem_attribute>(which), value))
SIMGPU_FORWARD(cudaDeviceSetGraphMemAttribute, (int device, cudaGraphMemAttributeType which, void* value),
               d.cuDeviceSetGraphMemAttribute(device, static_cast<CUgraphMem_attribute>(which), value))

}  // namespace simgpu::runtime
