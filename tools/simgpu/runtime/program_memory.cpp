#include "tools/simgpu/runtime/program_memory.h"

namespace simgpu::runtime {
namespace {

/// The entries as they were, by per_thread; static, as the functions in their place are.
DriverTable g_plain[2];

void allocated(const DriverTable& d, CUresult result, CUdeviceptr base, std::size_t bytes) {
  if (result == CUDA_SUCCESS) d.program(kSimgpuAllocated, base, 0, bytes);
}

std::uint64_t row_start(std::size_t z, std::size_t y, std::size_t x, std::size_t pitch, std::size_t height,
                        std::size_t rows) {
  return (z * (height == 0 ? y + rows : height) + y) * pitch + x;
}

std::uint64_t of(CUmemorytype type, const void* host, CUdeviceptr device) {
  return type == CU_MEMORYTYPE_HOST ? reinterpret_cast<std::uint64_t>(host) : device;
}

void writes(const DriverTable& d, const CUDA_MEMCPY2D& c) {
  d.program(kSimgpuWrites, of(c.dstMemoryType, c.dstHost, c.dstDevice) + c.dstY * c.dstPitch + c.dstXInBytes,
            of(c.srcMemoryType, c.srcHost, c.srcDevice) + c.srcY * c.srcPitch + c.srcXInBytes,
            c.WidthInBytes);
}

void writes(const DriverTable& d, const CUDA_MEMCPY3D& c) {
  d.program(kSimgpuWrites,
            of(c.dstMemoryType, c.dstHost, c.dstDevice) +
                row_start(c.dstZ, c.dstY, c.dstXInBytes, c.dstPitch, c.dstHeight, c.Height),
            of(c.srcMemoryType, c.srcHost, c.srcDevice) +
                row_start(c.srcZ, c.srcY, c.srcXInBytes, c.srcPitch, c.srcHeight, c.Height),
            c.WidthInBytes);
}

/// All copies of a batch, which come with one call.
template <class OneOf>
void writes(const DriverTable& d, std::size_t count, const OneOf& one_of) {
  for (std::size_t i = 0; i < count; ++i) {
    const auto [to, from, bytes] = one_of(i);
    d.program(i == 0 ? kSimgpuWrites : kSimgpuWritesToo, to, from, bytes);
  }
}

struct Write {
  CUdeviceptr to, from;
  std::size_t bytes;
};

/// A function in the place of `name`: what is to be told first or afterwards, around the one that was there.
#define SIMGPU_TELL(name, params, args, before, after) \
  table->name = [] params -> CUresult {                \
    const DriverTable& d = g_plain[kPerThread];        \
    before;                                            \
    const CUresult result = d.name args;               \
    after;                                             \
    return result;                                     \
  }
#define SIMGPU_TELL_ALLOCATION(name, params, args, bytes) \
  SIMGPU_TELL(name, params, args, , allocated(d, result, result == CUDA_SUCCESS ? *out : 0, bytes))
#define SIMGPU_TELL_WRITE(name, params, args, to, from, bytes) \
  SIMGPU_TELL(name, params, args, d.program(kSimgpuWrites, to, from, bytes), )

std::uint64_t address(const void* pointer) {
  return reinterpret_cast<std::uint64_t>(pointer);
}

template <bool kPerThread>
void replace_allocations(DriverTable* table) {
  SIMGPU_TELL_ALLOCATION(cuMemAlloc, (CUdeviceptr * out, size_t n), (out, n), n);
  SIMGPU_TELL_ALLOCATION(cuMemAllocPitch,
                         (CUdeviceptr * out, size_t * pitch, size_t width, size_t height, unsigned element),
                         (out, pitch, width, height, element), *pitch * height);
  SIMGPU_TELL_ALLOCATION(cuMemAllocManaged, (CUdeviceptr * out, size_t n, unsigned flags), (out, n, flags),
                         n);
  SIMGPU_TELL_ALLOCATION(cuMemAllocAsync, (CUdeviceptr * out, size_t n, CUstream s), (out, n, s), n);
  SIMGPU_TELL_ALLOCATION(cuMemAllocFromPoolAsync,
                         (CUdeviceptr * out, size_t n, CUmemoryPool pool, CUstream s), (out, n, pool, s), n);
  // Told first: when the call is back, another thread may have been given the address.
  SIMGPU_TELL(cuMemFree, (CUdeviceptr base), (base), d.program(kSimgpuFreed, base, 0, 0), );
  SIMGPU_TELL(cuMemFreeAsync, (CUdeviceptr base, CUstream s), (base, s),
              d.program(kSimgpuFreed, base, 0, 0), );
}

template <bool kPerThread>
void replace_copies(DriverTable* table) {
  SIMGPU_TELL_WRITE(cuMemcpy, (CUdeviceptr to, CUdeviceptr from, size_t n), (to, from, n), to, from, n);
  SIMGPU_TELL_WRITE(cuMemcpyAsync, (CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s), (to, from, n, s),
                    to, from, n);
  SIMGPU_TELL_WRITE(cuMemcpyHtoD, (CUdeviceptr to, const void* from, size_t n), (to, from, n), to,
                    address(from), n);
  SIMGPU_TELL_WRITE(cuMemcpyHtoDAsync, (CUdeviceptr to, const void* from, size_t n, CUstream s),
                    (to, from, n, s), to, address(from), n);
  SIMGPU_TELL_WRITE(cuMemcpyDtoD, (CUdeviceptr to, CUdeviceptr from, size_t n), (to, from, n), to, from, n);
  SIMGPU_TELL_WRITE(cuMemcpyDtoDAsync, (CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s),
                    (to, from, n, s), to, from, n);
  SIMGPU_TELL(cuMemcpy2DUnaligned, (const CUDA_MEMCPY2D* c), (c), writes(d, *c), );
  SIMGPU_TELL(cuMemcpy2DAsync, (const CUDA_MEMCPY2D* c, CUstream s), (c, s), writes(d, *c), );
  SIMGPU_TELL(cuMemcpy3D, (const CUDA_MEMCPY3D* c), (c), writes(d, *c), );
  SIMGPU_TELL(cuMemcpy3DAsync, (const CUDA_MEMCPY3D* c, CUstream s), (c, s), writes(d, *c), );
  SIMGPU_TELL(cuMemcpyBatchAsync,
              (CUdeviceptr * to, CUdeviceptr * from, size_t * sizes, size_t count, CUmemcpyAttributes * how,
               size_t * first, size_t attributes, CUstream s),
              (to, from, sizes, count, how, first, attributes, s), writes(d, count, [&](std::size_t i) {
                return Write{to[i], from[i], sizes[i]};
              }), );
  SIMGPU_TELL(cuMemcpy3DBatchAsync,
              (size_t count, CUDA_MEMCPY3D_BATCH_OP * ops, unsigned long long flags, CUstream s),
              (count, ops, flags, s), writes(d, count, [&](std::size_t i) {
                return Write{ops[i].dst.op.ptr.ptr, ops[i].src.op.ptr.ptr, ops[i].extent.width};
              }), );
  SIMGPU_TELL_WRITE(cuMemsetD8, (CUdeviceptr to, unsigned char v, size_t n), (to, v, n), to, 0, n);
  SIMGPU_TELL_WRITE(cuMemsetD8Async, (CUdeviceptr to, unsigned char v, size_t n, CUstream s), (to, v, n, s),
                    to, 0, n);
  SIMGPU_TELL_WRITE(cuMemsetD2D8, (CUdeviceptr to, size_t pitch, unsigned char v, size_t w, size_t h),
                    (to, pitch, v, w, h), to, 0, w);
  SIMGPU_TELL_WRITE(cuMemsetD2D8Async,
                    (CUdeviceptr to, size_t pitch, unsigned char v, size_t w, size_t h, CUstream s),
                    (to, pitch, v, w, h, s), to, 0, w);
}

#undef SIMGPU_TELL
#undef SIMGPU_TELL_ALLOCATION
#undef SIMGPU_TELL_WRITE

}  // namespace

void tell_of_program_memory(DriverTable* table, bool per_thread) {
  if (table->program == nullptr || table->program(kSimgpuWantsToBeTold, 0, 0, 0) == 0) return;
  g_plain[per_thread ? 1 : 0] = *table;
  if (per_thread) {
    replace_allocations<true>(table);
    replace_copies<true>(table);
  } else {
    replace_allocations<false>(table);
    replace_copies<false>(table);
  }
}

}  // namespace simgpu::runtime
