// The types of runtime_hooks.def are NCCL's own in all that the calling convention looks at.

#include <nccl.h>

#include <catch2/catch.hpp>

#include "shim/runtime_door.h"
#include "tests/shim/runtime/abi_alike.h"

namespace tidepool::shim {
namespace {

constexpr int kNcclFunctions = 0
#define TP_RUNTIME(name, ...)
#define TP_RUNTIME_PTSZ(name, ...)
#define TP_NCCL(name, ...) +1
#include "shim/runtime_hooks.def"
#undef TP_NCCL
    ;
#define TP_NCCL(name, ...) static_assert(Alike<__VA_ARGS__, decltype(::name)>::value, #name);
#include "shim/runtime_hooks.def"
#undef TP_NCCL
#undef TP_RUNTIME
#undef TP_RUNTIME_PTSZ

}  // namespace

TEST_CASE("runtime door: NCCL's functions are declared as NCCL declares them") {
  // The compiler has compared them.
  CHECK(kNcclFunctions >= 14);
  CHECK(ncclUnhandledCudaError == 1);
}

}  // namespace tidepool::shim
