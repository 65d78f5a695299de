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

/// What a policy means to a program, in the order of the page.
constexpr std::pair<std::string_view, std::string_view> kPolicies[] = {
    {"kManage", "answered by Tidepool for memory that it manages"},
    {"kGate", "goes on once everything it touches is on the device"},
    {"kKeep", "what it names stays on the device: something will refer to it that cannot be followed"},
    {"kRoom", "passed on, and once more where the driver had no memory for it but could be given some"},
    {"kNotice", "passed on; Tidepool takes note"},
    {"kLookup", "hands out pointers to functions: those of this page instead of the driver's"},
};

}  // namespace

Page hooks_page() {
  std::string text =
      "# Driver calls that Tidepool intercepts\n\n"
      "<!-- Written by tidepool-gen from shim/hooks.def; change that and run it again. -->\n\n"
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
  return {"docs/reference/hooks.md", text};
}

}  // namespace tidepool::gen
