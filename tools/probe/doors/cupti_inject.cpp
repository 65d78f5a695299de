// libtidepool-cupti.so: loaded by the driver itself (CUDA_INJECTION64_PATH), it counts what CUPTI sees of the
// driver API, for comparison with what passes our door. CUPTI is opened, not linked: where it is missing the
// report says why.
//
// CUPTI calls back on entry and on exit of each driver function, on the thread that called it; a function
// that is entered within another one is the driver's own call (CUPTI, Callback API).

#include <cupti_callbacks.h>
#include <cupti_result.h>
#include <dlfcn.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "allocator/support/text_writer.h"
#include "tools/probe/doors/report.h"

namespace tidepool::doors {
namespace {

constexpr std::size_t kFunctions = 4096;  // the callback numbers of CUDA 13 end below 1000

struct Function {
  std::atomic<const char*> name{nullptr};  // a constant of CUPTI's, good for ever
  std::atomic<std::uint64_t> calls{0};
  std::atomic<std::uint64_t> inner{0};
};
constinit Function g_functions[kFunctions];
constinit char g_why[1200] = {};
thread_local int t_inside = 0;

void CUPTIAPI on_call(void*, CUpti_CallbackDomain domain, CUpti_CallbackId number, const void* data) {
  if (domain != CUPTI_CB_DOMAIN_DRIVER_API || number >= kFunctions) return;
  const auto& call = *static_cast<const CUpti_CallbackData*>(data);
  if (call.callbackSite == CUPTI_API_EXIT) {
    if (t_inside > 0) --t_inside;
    return;
  }
  Function& function = g_functions[number];
  function.name.store(call.functionName, std::memory_order_relaxed);
  (t_inside == 0 ? function.calls : function.inner).fetch_add(1, std::memory_order_relaxed);
  ++t_inside;
}

void write_functions(RecordFile& file) noexcept {
  if (g_why[0] != '\0') file.begin("doors", "skipped", "cupti").field("why", g_why).end();
  for (const Function& function : g_functions) {
    const char* const name = function.name.load(std::memory_order_relaxed);
    if (name == nullptr) continue;
    file.begin("doors", "result", "calls").field("entry", name);
    file.number("calls", static_cast<std::int64_t>(function.calls.load(std::memory_order_relaxed)));
    file.number("inner", static_cast<std::int64_t>(function.inner.load(std::memory_order_relaxed))).end();
  }
}

constexpr Reporter kReporter{"cupti", "TIDEPOOL_CUPTI_FILE", &write_functions};

/// Notes why this CUPTI cannot be had; the last reason stands.
bool refuse(const char* library, const char* why, int code) noexcept {
  TextWriter text(g_why, sizeof g_why);
  text.put(library).put(": ").put(why);
  if (code != CUPTI_SUCCESS) text.put(" with ").put_number(static_cast<std::uint64_t>(code));
  return false;
}

bool subscribe_by(const char* library) noexcept {
  void* const cupti = ::dlopen(library, RTLD_LAZY);
  if (cupti == nullptr) return refuse(library, "cannot be opened", CUPTI_SUCCESS);
  const auto subscribe_to = reinterpret_cast<decltype(&cuptiSubscribe)>(::dlsym(cupti, "cuptiSubscribe"));
  const auto enable = reinterpret_cast<decltype(&cuptiEnableDomain)>(::dlsym(cupti, "cuptiEnableDomain"));
  if (subscribe_to == nullptr || enable == nullptr) {
    return refuse(library, "has no callback API", CUPTI_SUCCESS);
  }
  CUpti_SubscriberHandle subscriber = nullptr;
  const int subscribed = subscribe_to(&subscriber, &on_call, nullptr);
  if (subscribed != CUPTI_SUCCESS) return refuse(library, "cuptiSubscribe failed", subscribed);
  const int enabled = enable(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API);
  if (enabled != CUPTI_SUCCESS) return refuse(library, "cuptiEnableDomain failed", enabled);
  g_why[0] = '\0';
  return true;
}

/// The first CUPTI that works: of the files that TIDEPOOL_CUPTI_LIBRARY names, colons between; else by name.
void subscribe() noexcept {
  const char* const named = std::getenv("TIDEPOOL_CUPTI_LIBRARY");
  std::string_view left =
      named != nullptr && *named != '\0' ? named : "libcupti.so.13:libcupti.so.12:libcupti.so";
  while (!left.empty()) {
    char library[1024];
    const std::size_t colon = left.find(':');
    TextWriter(library, sizeof library).put(left.substr(0, colon));
    if (library[0] != '\0' && subscribe_by(library)) return;
    left.remove_prefix(colon == std::string_view::npos ? left.size() : colon + 1);
  }
}

}  // namespace
}  // namespace tidepool::doors

/// What the driver calls once it has loaded this library; 1 means that all is well.
// NOLINTNEXTLINE(readability-identifier-naming): the driver's name
extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  using namespace tidepool;
  doors::subscribe();
  doors::start_report(doors::kReporter);
  return 1;
}
