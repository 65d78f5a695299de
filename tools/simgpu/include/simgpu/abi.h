#pragma once

#include <cstddef>
#include <cstdint>

/// What a program's kernel bodies and simgpu agree on: plain C types, so that a program compiled by one
/// compiler works with a device compiled by another. Fields are only ever added at the end.

extern "C" {

/// Where one parameter lies in a kernel's parameter buffer (C++ alignment rules, as nvcc lays it out).
struct SimgpuParam {
  std::uint32_t offset;  ///< bytes from the start of the buffer
  std::uint32_t size;    ///< bytes
};

/// What SimgpuGrid::mode can hold.
enum {
  /// Only what the launch touches and how much it computes is wanted: c.reads, c.writes and c.work of every
  /// block, no phase. Asked only of bodies with SIMGPU_BODY_DECLARES.
  SIMGPU_GRID_DECLARE = 1,
};

/// What SimgpuKernelBody::features can hold.
enum {
  SIMGPU_BODY_DECLARES = 1,  ///< obeys SIMGPU_GRID_DECLARE
  /// What it reads may be written meanwhile: whoever launched it then does not use what it made. That is no
  /// race.
  SIMGPU_BODY_LOOKS = 2,
};

/// One launch as its body sees it. Valid during the call only.
struct SimgpuGrid {
  std::uint32_t grid[3];
  std::uint32_t block[3];
  std::uint32_t dynamic_shared;  ///< bytes asked for at the launch
  std::uint32_t mode;            ///< SIMGPU_GRID_ flags
  const unsigned char* params;   ///< packed parameters, copied when the launch was called; 256-byte aligned
  unsigned char* scratch;        ///< memory for shared memory and locals of one block; 256-byte aligned
  std::size_t scratch_bytes;
  /// Checks that [address, address + bytes) is device memory that this launch may touch. Does not return if
  /// it is not: the launch ends with an illegal address.
  void (*check_range)(const void* address, std::size_t bytes, int is_write);
  /// Ends the launch as a failed one with this text (a string literal). Does not return.
  void (*fail)(const char* why);
  /// Adds to the operations that the launch computes. There only with SIMGPU_GRID_DECLARE.
  void (*work)(double operations);
};

/// A kernel's CPU body. Lives as long as the program.
struct SimgpuKernelBody {
  std::uint32_t struct_bytes;  ///< sizeof(SimgpuKernelBody) of the program
  std::uint32_t param_count;
  const SimgpuParam* params;
  /// Runs every block of the launch. Runs under the device's lock inside a guarded region: it may not
  /// lock, allocate, throw or keep objects with destructors.
  void (*run)(const SimgpuGrid* launch);
  std::uint32_t features;  ///< SIMGPU_BODY_ flags
};

/// Exported by simgpu's libcudart: ties a body to the host stub of a __global__ function, the address that
/// __cudaRegisterFunction and cudaLaunchKernel name it by. Thread-safe. Returns 0.
using SimgpuRegisterKernelFn = int (*)(const void* host_stub, const SimgpuKernelBody* body);

/// Exported by simgpu's libcuda and found by cuGetProcAddress: gives the kernel of this mangled name in a
/// loaded library (a CUlibrary or a CUmodule) a body, or takes it away (null). Returns a CUresult: the image
/// must have the kernel (CUDA_ERROR_NOT_FOUND), with the parameters of the body (CUDA_ERROR_INVALID_VALUE).
/// The text "simgpu" in place of an image makes a library without kernels, to which this adds them.
using SimgpuLibrarySetBodyFn = int (*)(void* library, const char* name, const SimgpuKernelBody* body);

/// Exported by simgpu's libcuda and found by cuGetProcAddress: puts a function that the caller does not have
/// into the report's list of what is not supported. `name` is copied. Thread-safe.
using SimgpuNoteFn = void (*)(const char* name);

/// What simgpu's runtime tells its driver about the program, where another library stands between the two.
enum SimgpuProgramNews : int {
  kSimgpuWantsToBeTold = 0,  ///< asks: returns 1 if there is such a library, else 0
  kSimgpuAllocated = 1,      ///< the program has `bytes` of device memory at `address`
  kSimgpuFreed = 2,          ///< it gives the memory that starts at `address` back
  kSimgpuWrites = 3,     ///< this thread's next copy from `source` to `address` is its own; source 0: memset
  kSimgpuWritesToo = 4,  ///< the same, beside what was said before: one of a batch
};

/// Exported by simgpu's libcuda and found by cuGetProcAddress. Thread-safe.
using SimgpuProgramFn = int (*)(int news, unsigned long long address, unsigned long long source,
                                std::size_t bytes);

}  // extern "C"
