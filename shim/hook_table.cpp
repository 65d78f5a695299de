#include "shim/hook_table.h"

#include <array>

// An exported symbol is one jump through its slot. So the exports are the table by construction, and
// switching Tidepool off is writing the driver's own functions into the slots.
#if !defined(__x86_64__)
#error "the entry stubs below are written for x86-64"
#endif

extern "C" {
#define TP_ENTRY(name)                                                                                 \
  extern void* tp_slot_##name __attribute__((visibility("hidden")));                                   \
  void tp_entry_##name() __attribute__((visibility("hidden")));                                        \
  asm(".pushsection .text\n"                                                                           \
      ".globl " #name "\n.type " #name                                                                 \
      ", @function\n"                                                                                  \
      ".globl tp_entry_" #name "\n.hidden tp_entry_" #name "\n.p2align 4\n" #name ":\ntp_entry_" #name \
      ":\n  endbr64\n  jmp *tp_slot_" #name                                                            \
      "(%rip)\n"                                                                                       \
      ".size " #name ", .-" #name "\n.popsection\n");
#define TP_HOOK(name, policy) TP_ENTRY(name)
#define TP_HOOK_PTSZ(name, policy) TP_ENTRY(name) TP_ENTRY(name##_ptsz)
#define TP_HOOK_PTDS(name, policy) TP_ENTRY(name) TP_ENTRY(name##_ptds)
#include "shim/hooks.def"
#undef TP_HOOK
#undef TP_HOOK_PTSZ
#undef TP_HOOK_PTDS
#undef TP_ENTRY
}

namespace tidepool::shim {
namespace {

#define TP_ROW(name, policy, twin) \
  {#name, Policy::policy, twin, &tp_slot_##name, reinterpret_cast<void*>(&tp_entry_##name)},
const HookRow kRows[] = {
#define TP_HOOK(name, policy) TP_ROW(name, policy, false)
#define TP_HOOK_PTSZ(name, policy) TP_ROW(name, policy, false) TP_ROW(name##_ptsz, policy, true)
#define TP_HOOK_PTDS(name, policy) TP_ROW(name, policy, false) TP_ROW(name##_ptds, policy, true)
#include "shim/hooks.def"
#undef TP_HOOK
#undef TP_HOOK_PTSZ
#undef TP_HOOK_PTDS
#undef TP_ROW
};
static_assert(std::size(kRows) == kHookCount);

constexpr std::uint32_t hash(std::string_view text) noexcept {
  std::uint32_t h = 2166136261u;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 16777619u;
  return h;
}

// Names to hooks, open addressing, built at compile time: a lookup must work before any constructor ran.
constexpr std::size_t kMapSize = 1024;
static_assert(kMapSize > 2 * kHookCount);
constexpr auto kMap = [] {
  constexpr std::string_view kNames[] = {
#define TP_NAME(symbol) #symbol,
#define TP_HOOK(name, policy) TP_NAME(name)
#define TP_HOOK_PTSZ(name, policy) TP_NAME(name) TP_NAME(name##_ptsz)
#define TP_HOOK_PTDS(name, policy) TP_NAME(name) TP_NAME(name##_ptds)
#include "shim/hooks.def"
#undef TP_HOOK
#undef TP_HOOK_PTSZ
#undef TP_HOOK_PTDS
#undef TP_NAME
  };
  std::array<Hook, kMapSize> map{};
  map.fill(Hook::kCount);
  for (std::size_t i = 0; i < kHookCount; ++i) {
    std::size_t at = hash(kNames[i]) % kMapSize;
    while (map[at] != Hook::kCount) at = (at + 1) % kMapSize;
    map[at] = static_cast<Hook>(i);
  }
  return map;
}();

std::string_view base_of(std::string_view symbol) noexcept {
  if (symbol.ends_with("_ptsz") || symbol.ends_with("_ptds")) symbol.remove_suffix(5);
  if (symbol.size() > 3 && symbol[symbol.size() - 3] == '_' && symbol[symbol.size() - 2] == 'v') {
    symbol.remove_suffix(3);
  }
  return symbol;
}

}  // namespace

const HookRow& hook_row(Hook hook) noexcept {
  return kRows[static_cast<std::size_t>(hook)];
}

Hook find_hook(std::string_view symbol) noexcept {
  for (std::size_t at = hash(symbol) % kMapSize; kMap[at] != Hook::kCount; at = (at + 1) % kMapSize) {
    if (symbol == hook_row(kMap[at]).name) return kMap[at];
  }
  return Hook::kCount;
}

bool is_hooked_base(std::string_view base) noexcept {
  base = base_of(base);
  for (const HookRow& row : kRows) {
    if (base_of(row.name) == base) return true;
  }
  return false;
}

void redirect_all(void* (*target)(const HookRow& row)) noexcept {
  for (const HookRow& row : kRows) {
    if (void* function = target(row)) *const_cast<void**>(row.slot) = function;
  }
}

}  // namespace tidepool::shim
