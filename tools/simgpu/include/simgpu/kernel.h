#pragma once

/// CPU bodies for CUDA kernels: one source for the GPU and for simgpu.
///
/// A kernel is a struct with one static member template. It is compiled by nvcc for the device as usual, and
/// for the host as the body that simgpu runs. On real hardware the host copy is never called.
///
/// @code
///   #include "simgpu/kernel.h"
///
///   struct Saxpy {
///     template <class C>
///     __host__ __device__ static void run(C& c, float a, const float* x, float* y, int n) {
///       c.reads(x, sizeof(float) * static_cast<std::size_t>(n));
///       c.writes(y, sizeof(float) * static_cast<std::size_t>(n));
///       c.phase([&](unsigned tid) {
///         const std::size_t i = c.global_x(tid);
///         if (i < static_cast<std::size_t>(n)) y[i] += a * x[i];
///       });
///     }
///   };
///   SIMGPU_KERNEL(saxpy, Saxpy, (float a, const float* x, float* y, int n), a, x, y, n)
///
///   saxpy<<<blocks, 256, 0, stream>>>(2.0f, x, y, n);
/// @endcode
///
/// A block with shared memory and values that outlive a phase:
///
/// @code
///   template <class C>
///   __host__ __device__ static void run(C& c, const float* in, float* out) {
///     SIMGPU_SHARED(c, float, tile, 256);          // a __shared__ array; an array of the block on the CPU
///     auto mine = simgpu::local<float>(c);         // one float per thread, starts as zero
///     c.phase([&](unsigned tid) { mine(tid) = in[c.global_x(tid)]; tile[tid] = mine(tid); });
///     for (unsigned half = 128; half > 0; half /= 2)
///       c.phase([&](unsigned tid) { if (tid < half) tile[tid] += tile[tid + half]; });
///     c.phase([&](unsigned tid) { out[c.global_x(tid)] = mine(tid) / tile[0]; });
///   }
/// @endcode
///
/// Rules for bodies
/// - All work of threads is in phases. A phase ends with a barrier (__syncthreads on the device), so the
///   number of phases must not depend on the thread; the order of threads inside a phase is unspecified.
/// - Code outside phases runs once per block on the CPU and in every thread on the device: it may only
///   compute block-uniform values. Values of a thread that cross phases live in local<T>.
/// - Declare what the block reads and writes before touching it, and only that. simgpu traps every touch of
///   unmapped device memory; a host pointer passed by mistake is trapped only by these declarations. They are
///   also what finds races between launches, and what says how long the launch takes; for both they are asked
///   for when the launch is called, before earlier work has run. So they may depend on parameters and on the
///   block, not on what is in memory.
/// - simgpu believes the declarations. A body that touches memory without declaring it computes all the same,
///   and nothing says so: races with that memory are not found, and what a forgotten c.writes leaves out
///   counts as never written where a digest reads it. Read the declarations again when the body changes.
/// - `c.work(n)` says that the block computes n floating-point operations, for the time that the launch
/// takes.
/// - No warp intrinsics, no inline PTX, no floating-point atomics (their order is not fixed), no early return
///   between phases, no allocation, no objects with destructors, no exceptions.
/// - `c.on_host()` may choose a plain loop over the block for speed. It must do the same operations on each
///   value in the same order, so that the bits are the same. Outside phases and that branch a body touches no
///   memory.
/// - Parameters are trivially copyable and at most 4 KiB together.
///
/// Plain C++ (without nvcc) may use simgpu::kernel_body<Body, Args...>() with simgpuLibrarySetBody.

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "simgpu/abi.h"

#if defined(__CUDACC__)
#define SIMGPU_HD __host__ __device__
#else
#define SIMGPU_HD
#endif

namespace simgpu {

/// Three unsigned numbers; converts neither from nor to dim3 so that bodies need no CUDA header.
struct Index3 {
  unsigned x, y, z;
};

/// Per-thread values that cross phases, on the CPU: element tid of an array.
template <class T>
struct CpuLocal {
  T* values;
  SIMGPU_HD T& operator()(unsigned tid) const { return values[tid]; }
};

/// Per-thread values that cross phases, on the device: a variable of the thread.
template <class T>
struct DeviceLocal {
  T value;
  SIMGPU_HD T& operator()(unsigned) { return value; }
};

/// What a body sees when simgpu runs it: one block, its threads in order 0, 1, 2, …
class CpuContext {
 public:
  SIMGPU_HD explicit CpuContext(const SimgpuGrid& launch)
      : launch_(launch), block_{0, 0, 0}, declares_((launch.mode & SIMGPU_GRID_DECLARE) != 0) {}

  /// Runs f(tid) for every thread of the block.
  template <class F>
  SIMGPU_HD void phase(F&& f) {
    if (declares_) return;
    const unsigned threads = block_threads();
    for (unsigned tid = 0; tid < threads; ++tid) f(tid);
  }

  SIMGPU_HD Index3 block() const { return block_; }
  SIMGPU_HD Index3 grid_dim() const { return {launch_.grid[0], launch_.grid[1], launch_.grid[2]}; }
  SIMGPU_HD Index3 block_dim() const { return {launch_.block[0], launch_.block[1], launch_.block[2]}; }
  SIMGPU_HD unsigned block_threads() const { return launch_.block[0] * launch_.block[1] * launch_.block[2]; }
  /// threadIdx of the thread with this linear index.
  SIMGPU_HD Index3 thread(unsigned tid) const {
    const unsigned row = tid / launch_.block[0];
    return {tid % launch_.block[0], row % launch_.block[1], row / launch_.block[1]};
  }
  /// blockIdx.x * blockDim.x + threadIdx.x, and the same for y, in 64 bits.
  SIMGPU_HD std::size_t global_x(unsigned tid) const {
    return std::size_t{block_.x} * launch_.block[0] + thread(tid).x;
  }
  SIMGPU_HD std::size_t global_y(unsigned tid) const {
    return std::size_t{block_.y} * launch_.block[1] + thread(tid).y;
  }
  /// Bytes of dynamic shared memory of the launch.
  SIMGPU_HD unsigned dynamic_shared_bytes() const { return launch_.dynamic_shared; }

  /// Declares that the block reads or writes these bytes. An address that is not device memory, or memory
  /// that is not mapped now, ends the launch with an illegal address. Zero bytes are always fine.
  SIMGPU_HD void reads(const void* address, std::size_t bytes) const {
    launch_.check_range(address, bytes, 0);
  }
  SIMGPU_HD void writes(const void* address, std::size_t bytes) const {
    launch_.check_range(address, bytes, 1);
  }

  /// The block computes this many floating-point operations.
  SIMGPU_HD void work(double operations) const {
    if (declares_) launch_.work(operations);
  }

  /// True on the CPU, where the work of the block may be done by a loop.
  SIMGPU_HD bool on_host() const { return !declares_; }

  /// Adds to an integer and returns its old value.
  template <class T>
  SIMGPU_HD T atomic_add(T* address, T value) const {
    static_assert(std::is_integral<T>::value, "only integer atomics have one result in every order");
    const T old = *address;
    *address = static_cast<T>(old + value);
    return old;
  }

  /// Memory of the block for `count` values, zeroed; used by SIMGPU_SHARED and local<T>.
  template <class T>
  SIMGPU_HD T* block_array(std::size_t count) {
    static_assert(std::is_trivially_copyable<T>::value && std::is_trivially_destructible<T>::value,
                  "shared memory and locals hold plain values");
    if (declares_) return reinterpret_cast<T*>(launch_.scratch);
    const std::size_t start = (used_ + alignof(T) - 1) / alignof(T) * alignof(T);
    if (count > (launch_.scratch_bytes - start) / sizeof(T)) {
      launch_.fail("shared memory and locals of one block exceed what simgpu provides (4 MiB)");
    }
    used_ = start + count * sizeof(T);
    std::memset(launch_.scratch + start, 0, count * sizeof(T));
    return reinterpret_cast<T*>(launch_.scratch + start);
  }

  /// Moves on to a block; its shared memory and locals start anew.
  SIMGPU_HD void start_block(Index3 block) {
    block_ = block;
    used_ = 0;
  }

 private:
  const SimgpuGrid& launch_;
  Index3 block_;
  bool declares_;  ///< nothing is run, only declarations are wanted
  std::size_t used_ = 0;
};

#if defined(__CUDACC__)
/// What a body sees on the device. The same interface as CpuContext, where each member is documented.
class DeviceContext {
 public:
  template <class F>
  __device__ void phase(F&& f) {
    f((threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x);
    __syncthreads();
  }
  __device__ Index3 block() const { return {blockIdx.x, blockIdx.y, blockIdx.z}; }
  __device__ Index3 grid_dim() const { return {gridDim.x, gridDim.y, gridDim.z}; }
  __device__ Index3 block_dim() const { return {blockDim.x, blockDim.y, blockDim.z}; }
  __device__ unsigned block_threads() const { return blockDim.x * blockDim.y * blockDim.z; }
  __device__ Index3 thread(unsigned) const { return {threadIdx.x, threadIdx.y, threadIdx.z}; }
  __device__ std::size_t global_x(unsigned) const {
    return std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  }
  __device__ std::size_t global_y(unsigned) const {
    return std::size_t{blockIdx.y} * blockDim.y + threadIdx.y;
  }
  __device__ unsigned dynamic_shared_bytes() const {
    unsigned bytes;
    asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(bytes));
    return bytes;
  }
  __device__ void reads(const void*, std::size_t) const {}
  __device__ void writes(const void*, std::size_t) const {}
  __device__ void work(double) const {}
  __device__ constexpr bool on_host() const { return false; }
  template <class T>
  __device__ T atomic_add(T* address, T value) const {
    static_assert(std::is_integral<T>::value, "only integer atomics have one result in every order");
    return atomicAdd(address, value);
  }
};
#endif

namespace detail {

constexpr std::uint32_t align_up(std::uint32_t n, std::size_t to) {
  return static_cast<std::uint32_t>((n + to - 1) / to * to);
}

/// The layout of a parameter list, computed once by the compiler.
template <class... A>
struct Layout {
  static_assert((std::is_trivially_copyable<A>::value && ...), "kernel parameters are copied as bytes");
  SimgpuParam params[sizeof...(A) + 1];  // one more, so that an empty list is no empty array
  constexpr Layout() : params{} {
    const std::size_t sizes[] = {sizeof(A)..., 0};
    const std::size_t aligns[] = {alignof(A)..., 1};
    std::uint32_t offset = 0;
    for (std::size_t i = 0; i + 1 < sizeof...(A) + 1; ++i) {  // so written for kernels without parameters
      offset = align_up(offset, aligns[i]);
      params[i] = SimgpuParam{offset, static_cast<std::uint32_t>(sizes[i])};
      offset += static_cast<std::uint32_t>(sizes[i]);
    }
  }
};

template <class... A>
inline constexpr Layout<A...> kLayout{};

template <class Body, class... A, std::size_t... I>
void run_blocks(const SimgpuGrid& launch, std::index_sequence<I...>) {
  CpuContext context(launch);
  for (unsigned z = 0; z < launch.grid[2]; ++z) {
    for (unsigned y = 0; y < launch.grid[1]; ++y) {
      for (unsigned x = 0; x < launch.grid[0]; ++x) {
        context.start_block(Index3{x, y, z});
        Body::run(context, *reinterpret_cast<const A*>(launch.params + kLayout<A...>.params[I].offset)...);
      }
    }
  }
}

template <class Body, class... A>
void run_launch(const SimgpuGrid* launch) {
  run_blocks<Body, A...>(*launch, std::index_sequence_for<A...>{});
}

}  // namespace detail

/// One value per thread that lives across phases, zero at first. Call it outside phases.
template <class T>
SIMGPU_HD CpuLocal<T> local(CpuContext& c) {
  return {c.block_array<T>(c.block_threads())};
}
#if defined(__CUDACC__)
template <class T>
__device__ DeviceLocal<T> local(DeviceContext&) {
  return {T{}};
}
#endif

/// The description of Body::run called with parameters of these types.
template <class Body, class... A>
const SimgpuKernelBody* kernel_body() {
  static const SimgpuKernelBody body = {
      sizeof(SimgpuKernelBody), sizeof...(A), detail::kLayout<std::remove_cv_t<A>...>.params,
      &detail::run_launch<Body, std::remove_cv_t<A>...>, SIMGPU_BODY_DECLARES};
  return &body;
}

/// Tells simgpu about the body of a kernel; without simgpu in the process this does nothing. SIMGPU_KERNEL
/// calls it; call it yourself, before the first launch, for an instance of a kernel template:
/// `simgpu::register_kernel<Scale<float>>(&scale<float>);`
template <class Body, class... A>
bool register_kernel(void (*host_stub)(A...)) {
  void* found = ::dlsym(RTLD_DEFAULT, "simgpuRegisterKernel");
  if (found == nullptr) return false;
  const auto enroll = reinterpret_cast<SimgpuRegisterKernelFn>(found);
  return enroll(reinterpret_cast<const void*>(host_stub), kernel_body<Body, A...>()) == 0;
}

}  // namespace simgpu

/// Declares shared memory of the block: `name` is an array of `count` (a constant) values of type T.
#if defined(__CUDA_ARCH__)
#define SIMGPU_SHARED(context, T, name, count) __shared__ T name[count]
#else
#define SIMGPU_SHARED(context, T, name, count) T* const name = (context).template block_array<T>(count)
#endif

/// Defines `__global__ void name params`, which runs Body::run(context, args...), and registers its body.
/// Use it at namespace scope (an anonymous namespace keeps the name local to the file).
#define SIMGPU_KERNEL(name, Body, params, ...) \
  __global__ void name params {                \
    ::simgpu::DeviceContext simgpu_context;    \
    Body::run(simgpu_context, __VA_ARGS__);    \
  }                                            \
  [[maybe_unused]] static const bool simgpu_registered_##name = ::simgpu::register_kernel<Body>(&name);
