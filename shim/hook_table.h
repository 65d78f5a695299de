#pragma once

#include <cuda.h>

#include <cstdint>
#include <string_view>

#include "shim/old_abi.h"

namespace tidepool::shim {

/// What is done with a call; see hooks.def.
enum class Policy : std::uint8_t { kLookup, kManage, kGate, kKeep, kRoom, kTake, kNotice };

/// One enumerator per exported symbol.
enum class Hook : std::uint16_t {
#define TP_HOOK(name, policy) name,
#define TP_HOOK_PTSZ(name, policy) name, name##_ptsz,
#define TP_HOOK_PTDS(name, policy) name, name##_ptds,
#include "shim/hooks.def"
#undef TP_HOOK
#undef TP_HOOK_PTSZ
#undef TP_HOOK_PTDS
  kCount
};
inline constexpr std::size_t kHookCount = static_cast<std::size_t>(Hook::kCount);

/// The C type of a hook's function; twins share it.
template <Hook H>
struct HookType;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"  // intercepted all the same
#define TP_HOOK(name, policy)                   \
  template <>                                   \
  struct HookType<Hook::name> {                 \
    using Function = decltype(&::name);         \
    static constexpr bool kPerThread = false;   \
    static constexpr const char* kName = #name; \
  };
#define TP_TWIN(name, twin)                     \
  template <>                                   \
  struct HookType<Hook::twin> {                 \
    using Function = decltype(&::name);         \
    static constexpr bool kPerThread = true;    \
    static constexpr const char* kName = #twin; \
  };
#define TP_HOOK_PTSZ(name, policy) TP_HOOK(name, policy) TP_TWIN(name, name##_ptsz)
#define TP_HOOK_PTDS(name, policy) TP_HOOK(name, policy) TP_TWIN(name, name##_ptds)
#include "shim/hooks.def"
#undef TP_HOOK
#undef TP_TWIN
#undef TP_HOOK_PTSZ
#undef TP_HOOK_PTDS
#pragma GCC diagnostic pop

struct HookRow {
  const char* name;  ///< the ELF symbol
  Policy policy;
  bool per_thread;    ///< a _ptsz or _ptds twin
  void* const* slot;  ///< where the exported symbol jumps to
  void* entry;        ///< the exported symbol itself: what lookups hand out
};

/// Row of a hook, by enumerator.
const HookRow& hook_row(Hook hook) noexcept;
/// The hook with exactly this ELF symbol name, or kCount. Hook-safe.
Hook find_hook(std::string_view symbol) noexcept;
/// True if some row's symbol is `base`, or `base` with a version or twin suffix ("cuMemAlloc" for
/// cuMemAlloc_v2). Hook-safe.
bool is_hooked_base(std::string_view base) noexcept;
/// Makes every exported symbol jump to `target(row)` where that is not null. Start only.
void redirect_all(void* (*target)(const HookRow& row)) noexcept;

}  // namespace tidepool::shim
