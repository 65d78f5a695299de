// Calls for which the driver takes device memory of its own: passed on, and once more where it had none but
// could be given some of what is managed.

#include "shim/entry.h"
#include "shim/make_way.h"

namespace tidepool::shim {
namespace {

constexpr auto kRoom = [](const auto& call, auto... args) noexcept {
  return with_room([&] { return call(args...); });
};

}  // namespace

TP_HANDLE(cuModuleLoad, kRoom)
TP_HANDLE(cuModuleLoadData, kRoom)
TP_HANDLE(cuModuleLoadDataEx, kRoom)
TP_HANDLE(cuModuleLoadFatBinary, kRoom)
TP_HANDLE(cuModuleGetFunction, kRoom)
TP_HANDLE(cuLibraryLoadData, kRoom)
TP_HANDLE(cuLibraryLoadFromFile, kRoom)

}  // namespace tidepool::shim
