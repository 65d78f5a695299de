#include "tools/simgpu/runtime/runtime.h"

/// "Peer Device Memory Access" of the CUDA runtime API, and copies between devices.

namespace simgpu::runtime {
namespace {

/// Runs `work(driver, context of the peer)`; a device is no peer of itself.
template <class Work>
cudaError_t with_peer(int peer, Work&& work) {
  return call(false, [&](const DriverTable& d) {
    int device = 0;
    CUcontext context = nullptr;
    CUresult result = current_device(d, &device);
    if (result == CUDA_SUCCESS && device == peer) result = CUDA_ERROR_INVALID_DEVICE;
    if (result == CUDA_SUCCESS) result = primary_context(d, peer, &context);
    return result == CUDA_SUCCESS ? work(d, context) : result;
  });
}

/// The contexts of both sides of a copy.
struct Sides {
  CUcontext dst = nullptr;
  CUcontext src = nullptr;
};
CUresult sides(const DriverTable& d, int dst_device, int src_device, Sides* out) {
  const CUresult result = primary_context(d, dst_device, &out->dst);
  return result == CUDA_SUCCESS ? primary_context(d, src_device, &out->src) : result;
}

cudaError_t copy_slices(bool per_thread, const cudaMemcpy3DPeerParms* p, const cudaStream_t* stream) {
  if (p == nullptr) return finish(cudaErrorInvalidValue);
  if (p->srcArray != nullptr || p->dstArray != nullptr) return finish(cudaErrorNotSupported);
  return call(per_thread, [&](const DriverTable& d) {
    Sides contexts;
    const CUresult result = sides(d, p->dstDevice, p->srcDevice, &contexts);
    if (result != CUDA_SUCCESS) return result;
    CUDA_MEMCPY3D_PEER c{};
    c.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    c.srcDevice = device_address(p->srcPtr.ptr);
    c.srcContext = contexts.src;
    c.srcXInBytes = p->srcPos.x;
    c.srcY = p->srcPos.y;
    c.srcZ = p->srcPos.z;
    c.srcPitch = p->srcPtr.pitch;
    c.srcHeight = p->srcPtr.ysize;
    c.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    c.dstDevice = device_address(p->dstPtr.ptr);
    c.dstContext = contexts.dst;
    c.dstXInBytes = p->dstPos.x;
    c.dstY = p->dstPos.y;
    c.dstZ = p->dstPos.z;
    c.dstPitch = p->dstPtr.pitch;
    c.dstHeight = p->dstPtr.ysize;
    c.WidthInBytes = p->extent.width;
    c.Height = p->extent.height;
    c.Depth = p->extent.depth;
    return stream == nullptr ? d.cuMemcpy3DPeer(&c) : d.cuMemcpy3DPeerAsync(&c, *stream);
  });
}

}  // namespace

SIMGPU_RUNTIME(cudaDeviceCanAccessPeer, (int* can, int device, int peer)) {
  return call_driver([&](const DriverTable& d) { return d.cuDeviceCanAccessPeer(can, device, peer); });
}

SIMGPU_RUNTIME(cudaDeviceGetP2PAttribute, (int* value, cudaDeviceP2PAttr which, int from, int to)) {
  return call_driver([&](const DriverTable& d) {
    return d.cuDeviceGetP2PAttribute(value, static_cast<CUdevice_P2PAttribute>(which), from, to);
  });
}

SIMGPU_RUNTIME(cudaDeviceGetP2PAtomicCapabilities,
               (unsigned* capabilities, const cudaAtomicOperation* operations, unsigned count, int from,
                int to)) {
  return call_driver([&](const DriverTable& d) {
    return d.cuDeviceGetP2PAtomicCapabilities(capabilities, same<CUatomicOperation>(operations), count, from,
                                              to);
  });
}

SIMGPU_RUNTIME(cudaDeviceEnablePeerAccess, (int peer, unsigned flags)) {
  return with_peer(
      peer, [&](const DriverTable& d, CUcontext context) { return d.cuCtxEnablePeerAccess(context, flags); });
}

SIMGPU_RUNTIME(cudaDeviceDisablePeerAccess, (int peer)) {
  return with_peer(
      peer, [&](const DriverTable& d, CUcontext context) { return d.cuCtxDisablePeerAccess(context); });
}

SIMGPU_RUNTIME(cudaMemcpyPeer, (void* dst, int dst_device, const void* src, int src_device, size_t n)) {
  return call(false, [&](const DriverTable& d) {
    Sides contexts;
    const CUresult result = sides(d, dst_device, src_device, &contexts);
    if (result != CUDA_SUCCESS) return result;
    return d.cuMemcpyPeer(device_address(dst), contexts.dst, device_address(src), contexts.src, n);
  });
}

SIMGPU_RUNTIME(cudaMemcpyPeerAsync,
               (void* dst, int dst_device, const void* src, int src_device, size_t n, cudaStream_t stream)) {
  return call(false, [&](const DriverTable& d) {
    Sides contexts;
    const CUresult result = sides(d, dst_device, src_device, &contexts);
    if (result != CUDA_SUCCESS) return result;
    return d.cuMemcpyPeerAsync(device_address(dst), contexts.dst, device_address(src), contexts.src, n,
                               stream);
  });
}

SIMGPU_RUNTIME_TWINS(cudaMemcpy3DPeer, _ptds, (const cudaMemcpy3DPeerParms* p), p) {
  return copy_slices(per_thread, p, nullptr);
}

SIMGPU_RUNTIME_TWINS(cudaMemcpy3DPeerAsync, _ptsz, (const cudaMemcpy3DPeerParms* p, cudaStream_t stream), p,
                     stream) {
  return copy_slices(per_thread, p, &stream);
}

}  // namespace simgpu::runtime
