// The types of runtime_hooks.def are the runtime's own in all that the calling convention looks at.

#include <cuda_runtime_api.h>

#include <catch2/catch.hpp>
#include <cstddef>
#include <type_traits>

#include "shim/runtime_door.h"

namespace tidepool::shim {
namespace {

template <class Ours, class Theirs>
constexpr bool is_passed_alike() {
  if constexpr (std::is_pointer_v<Theirs>) return std::is_pointer_v<Ours>;
  if constexpr (std::is_class_v<Theirs>) {
    return std::is_class_v<Ours> && std::is_trivially_copyable_v<Ours> && sizeof(Ours) == sizeof(Theirs) &&
           alignof(Ours) == alignof(Theirs);
  }
  const bool is_number = std::is_integral_v<Theirs> || std::is_enum_v<Theirs>;
  return is_number && std::is_integral_v<Ours> && sizeof(Ours) == sizeof(Theirs);
}

template <class Ours, class Theirs>
struct Alike : std::false_type {};
template <class R, class... A, class S, class... B>
requires(sizeof...(A) == sizeof...(B)) struct Alike<R(A...), S(B...)>
    : std::bool_constant<is_passed_alike<R, S>() && (is_passed_alike<A, B>() && ...)> {
};

// A check that takes everything for alike would be worth nothing.
static_assert(!Alike<int(void*), cudaError_t(void*, int)>::value);
static_assert(!Alike<int(void*, int), cudaError_t(void*, std::size_t)>::value);
static_assert(!Alike<int(void*, void*), cudaError_t(void*, std::size_t)>::value);
static_assert(!Alike<long(void*), cudaError_t(void*)>::value);
static_assert(!Alike<int(RuntimePitchedPtr), cudaError_t(cudaExtent)>::value);

// A twin takes what its function takes.
#define TP_RUNTIME(name, ...) static_assert(Alike<__VA_ARGS__, decltype(::name)>::value, #name);
#define TP_RUNTIME_PTSZ(name, ...) TP_RUNTIME(name, __VA_ARGS__)
#include "shim/runtime_hooks.def"
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
