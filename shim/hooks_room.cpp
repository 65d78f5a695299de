// Calls for which the driver may take device memory of its own: passed on, and again where it had none but
// could be given some of what is managed. Every row of hooks.def with kRoom is one.

#include "shim/entry.h"
#include "shim/make_way.h"

namespace tidepool::shim {
namespace {

constexpr auto kPassOn = [](const auto& call, auto... args) noexcept {
  return with_room([&] { return call(args...); });
};

}  // namespace

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"  // intercepted all the same
#define TP_PASS_ON_kRoom(name) TP_HANDLE(name, kPassOn)
#define TP_PASS_ON_kTake(name)
#define TP_PASS_ON_kLookup(name)
#define TP_PASS_ON_kManage(name)
#define TP_PASS_ON_kGate(name)
#define TP_PASS_ON_kKeep(name)
#define TP_PASS_ON_kNotice(name)
#define TP_HOOK(name, policy) TP_PASS_ON_##policy(name)
#define TP_HOOK_PTSZ(name, policy) TP_PASS_ON_##policy(name) TP_PASS_ON_##policy(name##_ptsz)
#define TP_HOOK_PTDS(name, policy) TP_PASS_ON_##policy(name) TP_PASS_ON_##policy(name##_ptds)
#include "shim/hooks.def"
#pragma GCC diagnostic pop

}  // namespace tidepool::shim
