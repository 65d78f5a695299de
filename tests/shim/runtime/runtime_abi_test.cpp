// The types of runtime_hooks.def are the runtime's own in all that the calling convention looks at.

#include <cuda_runtime_api.h>

#include <catch2/catch.hpp>
#include <cstddef>

#include "shim/runtime_door.h"
#include "tests/shim/runtime/abi_alike.h"

namespace tidepool::shim {
namespace {

// A check that takes everything for alike would be worth nothing.
static_assert(!Alike<int(void*), cudaError_t(void*, int)>::value);
static_assert(!Alike<int(void*, int), cudaError_t(void*, std::size_t)>::value);
static_assert(!Alike<int(void*, void*), cudaError_t(void*, std::size_t)>::value);
static_assert(!Alike<long(void*), cudaError_t(void*)>::value);
static_assert(!Alike<int(RuntimePitchedPtr), cudaError_t(cudaExtent)>::value);

// A twin takes what its function takes.
#define TP_RUNTIME(name, ...) static_assert(Alike<__VA_ARGS__, decltype(::name)>::value, #name);
#define TP_RUNTIME_PTSZ(name, ...) TP_RUNTIME(name, __VA_ARGS__)
#define TP_NCCL(name, ...)
#include "shim/runtime_hooks.def"
#undef TP_NCCL
#undef TP_RUNTIME
#undef TP_RUNTIME_PTSZ

}  // namespace

TEST_CASE("runtime door: structures lie in memory as the runtime's") {
  CHECK(sizeof(RuntimePitchedPtr) == sizeof(cudaPitchedPtr));
  CHECK(offsetof(RuntimePitchedPtr, at) == offsetof(cudaPitchedPtr, ptr));
  CHECK(offsetof(RuntimePitchedPtr, pitch) == offsetof(cudaPitchedPtr, pitch));
  CHECK(offsetof(RuntimePitchedPtr, width) == offsetof(cudaPitchedPtr, xsize));
  CHECK(offsetof(RuntimePitchedPtr, height) == offsetof(cudaPitchedPtr, ysize));
  CHECK(sizeof(RuntimeExtent) == sizeof(cudaExtent));
  CHECK(offsetof(RuntimeExtent, depth) == offsetof(cudaExtent, depth));
}

}  // namespace tidepool::shim
