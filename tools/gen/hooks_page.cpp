#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tools/gen/page.h"

namespace tidepool::gen {
namespace {

struct HookRow {
  std::string_view name;
  std::string_view policy;
  std::string_view twin;  ///< "_ptsz", "_ptds" or empty
};

constexpr HookRow kHooks[] = {
#define TP_HOOK(name, policy, ...) {#name, #policy, ""},
#define TP_HOOK_PTSZ(name, policy, ...) {#name, #policy, "_ptsz"},
#define TP_HOOK_PTDS(name, policy, ...) {#name, #policy, "_ptds"},
#include "shim/hooks.def"
#undef TP_HOOK
#undef TP_HOOK_PTSZ
#undef TP_HOOK_PTDS
};

/// Functions of libraries above the driver.
constexpr std::string_view kRuntime[] = {
#define TP_RUNTIME(name, ...) #name,
#define TP_RUNTIME_PTSZ(name, ...) #name, #name "_ptsz",
#define TP_NCCL(name, ...)
#include "shim/runtime_hooks.def"
#undef TP_RUNTIME
#undef TP_RUNTIME_PTSZ
#undef TP_NCCL
};
constexpr std::string_view kNccl[] = {
#define TP_RUNTIME(name, ...)
#define TP_RUNTIME_PTSZ(name, ...)
#define TP_NCCL(name, ...) #name,
#include "shim/runtime_hooks.def"
#undef TP_RUNTIME
#undef TP_RUNTIME_PTSZ
#undef TP_NCCL
};

template <std::size_t N>
std::string list(const std::string_view (&names)[N]) {
  std::string text;
  for (const std::string_view name : names) text += "- `" + std::string(name) + "`\n";
  return text;
}

/// What a policy means to a program, in the order of the page.
constexpr std::pair<std::string_view, std::string_view> kPolicies[] = {
    {"kManage", "answered by Tidepool for memory that it manages"},
    {"kGate", "goes on once everything it touches is on the device, and again as under Room"},
    {"kKeep",
     "what it names stays on the device: something will refer to it that cannot be followed; and again as "
     "under Room"},
    {"kRoom", "passed on, and again where the driver had no memory for it but could be given some"},
    {"kTake", "the same, and what the driver takes for it counts in the budget"},
    {"kNotice", "passed on; Tidepool takes note"},
    {"kLookup", "hands out pointers to functions: those of this page instead of the driver's"},
};

}  // namespace

Page hooks_page() {
  std::string text =
      "# Driver calls that Tidepool intercepts\n\n"
      "<!-- Written by tidepool-gen from shim/hooks.def and shim/runtime_hooks.def; change those and run it "
      "again. "
      "-->\n\n"
      "A program reaches these by ELF symbol, by `dlsym` or by `cuGetProcAddress`; each way leads to "
      "Tidepool. Every other "
      "driver\ncall goes to the driver unseen. A suffix such as `_ptsz` is the variant whose null stream is "
      "the thread's own; "
      "it is\nintercepted with its entry.\n";
  std::size_t listed = 0;
  for (const auto& [policy, meaning] : kPolicies) {
    std::string rows;
    for (const HookRow& row : kHooks) {
      if (row.policy != policy) continue;
      rows += "- `" + std::string(row.name) + "`" +
              (row.twin.empty() ? "" : ", `" + std::string(row.twin) + "`") + "\n";
      ++listed;
    }
    if (!rows.empty())
      text += "\n## " + std::string(policy.substr(1)) + ": " + std::string(meaning) + "\n\n" + rows;
  }
  if (listed != std::size(kHooks)) {
    std::fputs("tidepool-gen: shim/hooks.def has a policy that tools/gen/hooks_page.cpp does not explain\n",
               stderr);
    std::exit(1);
  }
  text +=
      "\n## Of the CUDA runtime: go on to the caller's own runtime; Tidepool notes for whom it then asks the "
      "driver\n\n"
      "Only calls by ELF symbol lead here. Memory that a CUDA library asks for stays the driver's\n"
      "([why](../explanation/decisions/0009-whose-memory-by-the-module-that-asks.md)).\n\n" +
      list(kRuntime) +
      "\n## Of NCCL: go on to NCCL; the memory that they name stays on the device until it is freed\n\n" +
      list(kNccl);
  return {"docs/reference/hooks.md", text};
}

}  // namespace tidepool::gen
