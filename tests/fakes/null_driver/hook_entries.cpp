// Every entry that the shim intercepts, as a function that does nothing and succeeds. Weak: behaviour.cpp has
// the few that must answer something. Arguments do not matter to a function that reads none (x86-64 calling
// convention: the caller cleans up).

#include "tests/fakes/null_driver/entry_table.h"

#define NULL_ENTRY(name)                                               \
  extern "C" __attribute__((weak, visibility("default"))) int name() { \
    return 0;                                                          \
  }
#define TP_HOOK(name, ...) NULL_ENTRY(name)
#define TP_HOOK_PTSZ(name, ...) NULL_ENTRY(name) NULL_ENTRY(name##_ptsz)
#define TP_HOOK_PTDS(name, ...) NULL_ENTRY(name) NULL_ENTRY(name##_ptds)
#include "shim/hooks.def"
#undef TP_HOOK
#undef TP_HOOK_PTSZ
#undef TP_HOOK_PTDS

namespace tidepool::fakes {

std::span<const NullEntry> null_hook_entries() {
#define NULL_ROW(name) {#name, reinterpret_cast<void*>(&name)},
#define TP_HOOK(name, ...) NULL_ROW(name)
#define TP_HOOK_PTSZ(name, ...) NULL_ROW(name) NULL_ROW(name##_ptsz)
#define TP_HOOK_PTDS(name, ...) NULL_ROW(name) NULL_ROW(name##_ptds)
  static const NullEntry entries[] = {
#include "shim/hooks.def"
  };
  return entries;
}

}  // namespace tidepool::fakes
