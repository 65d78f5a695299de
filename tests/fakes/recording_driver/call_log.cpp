// What every call of the recording driver passes: it is noted, and a planted fault may take the place of the
// answer. The report names the file by TP_RECORD_FILE, in the form of the hardware probe's records.

#include <cuda.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <string_view>

#include "tests/fakes/recording_driver/answers.h"
#include "tests/fakes/recording_driver/faults.h"
#include "tests/fakes/recording_driver/recorded_entry.h"
#include "tools/probe/doors/report.h"

namespace tidepool::fakes {
namespace {

constexpr std::size_t kArguments = 6;  // those in registers
constexpr std::size_t kMostCalls = std::size_t{1} << 16;

struct Call {
  std::atomic<const RecordedEntry*> entry;  // not null: the rest stands
  long thread;
  std::uint64_t arguments[kArguments];
};
Call g_calls[kMostCalls];
std::atomic<std::size_t> g_call_count{0};
std::atomic<unsigned long> g_syncs{0};
std::atomic<bool> g_is_lost{false};
std::atomic<bool> g_will_be_lost{false};
std::atomic<void (*)(const char* entry)> g_observer{nullptr};
std::atomic<int (*)(const char* entry, const std::uint64_t* arguments)> g_intercept{nullptr};
thread_local int t_intercepted = 0;
pthread_once_t g_once = PTHREAD_ONCE_INIT;

CUresult succeed() {
  return CUDA_SUCCESS;
}
CUresult intercepted() {
  return static_cast<CUresult>(t_intercepted);
}
CUresult illegal_address() {
  return CUDA_ERROR_ILLEGAL_ADDRESS;
}

void write_calls(doors::RecordFile& file) noexcept {
  const auto counts = [&file](const EntryRow& row) {
    const std::uint64_t calls = row.entry->calls.load();
    if (calls == 0) return;
    file.begin("doors", "result", "calls").field("entry", row.entry->name);
    file.number("calls", static_cast<std::int64_t>(calls)).end();
  };
  for (const EntryRow& row : recorded_entries()) counts(row);
  counts(newer_entry());
  const std::size_t count = std::min(g_call_count.load(), kMostCalls);
  for (std::size_t i = 0; i < count; ++i) {
    const RecordedEntry* const entry = g_calls[i].entry.load(std::memory_order_acquire);
    if (entry == nullptr) continue;
    char text[kArguments * 20];
    const std::uint64_t* const a = g_calls[i].arguments;
    std::snprintf(text, sizeof text, "%lx %lx %lx %lx %lx %lx", a[0], a[1], a[2], a[3], a[4], a[5]);
    file.begin("doors", "result", "call").field("entry", entry->name);
    file.number("thread", g_calls[i].thread).field("arguments", text).end();
  }
}

constexpr doors::Reporter kReporter{"driver", "TP_RECORD_FILE", &write_calls};

void start() {
  for (const EntryRow& row : recorded_entries()) row.entry->function = answer_of(row.entry->name);
  doors::start_report(kReporter);
}

void note(RecordedEntry& entry, const std::uint64_t* arguments) {
  entry.calls.fetch_add(1);
  const std::size_t at = g_call_count.fetch_add(1);
  if (at >= kMostCalls) return;
  std::copy_n(arguments, kArguments, g_calls[at].arguments);
  g_calls[at].thread = ::syscall(SYS_gettid);
  g_calls[at].entry.store(&entry, std::memory_order_release);
}

bool is_launch_of(std::string_view entry, const std::uint64_t* arguments, std::string_view kernel) {
  if (kernel.empty() || !entry.starts_with("cuLaunch")) return false;
  const std::size_t index = entry.starts_with("cuLaunchKernelEx") ? 1 : 0;
  return kernel_name(reinterpret_cast<const void*>(arguments[index])) == kernel;
}

bool is_telling(std::string_view entry) {
  return entry == "cuInit" || entry == "cuDriverGetVersion" || entry.starts_with("cuGetError") ||
         entry.starts_with("cuGetProcAddress");
}

/// True if this call finds an illegal address, its own or one of before.
bool is_illegal(std::string_view entry, const std::uint64_t* arguments) {
  if (is_launch_of(entry, arguments, faults().illegal_kernel)) g_will_be_lost = true;
  if (entry.find("Synchronize") != std::string_view::npos) {
    const bool is_planted = ++g_syncs == faults().illegal_sync;
    if (is_planted || g_will_be_lost) g_is_lost = true;
  }
  return g_is_lost && !is_telling(entry);
}

}  // namespace

void* answer_of(std::string_view name) {
  for (const auto& table : {kernel_answers(), lookup_answers(), object_answers(), null_behaviour_entries()}) {
    for (const NullEntry& entry : table) {
      if (name == entry.name) return entry.function;
    }
  }
  return reinterpret_cast<void*>(&succeed);
}

}  // namespace tidepool::fakes

extern "C" {

/// What each stub calls before it jumps: returns where to.
__attribute__((visibility("hidden"), used)) void* tp_record_called(tidepool::fakes::RecordedEntry* entry,
                                                                   const std::uint64_t* arguments) {
  using namespace tidepool::fakes;
  ::pthread_once(&g_once, start);
  note(*entry, arguments);
  if (faults().slow == entry->name) ::usleep(static_cast<useconds_t>(faults().slow_ms) * 1000);
  if (const auto observer = g_observer.load()) observer(entry->name);
  if (const auto intercept = g_intercept.load()) {
    t_intercepted = intercept(entry->name, arguments);
    if (t_intercepted >= 0) return reinterpret_cast<void*>(&intercepted);
  }
  return is_illegal(entry->name, arguments) ? reinterpret_cast<void*>(&illegal_address) : entry->function;
}

/// Lets a stand-in for CUPTI see each call, by the name of its entry.
__attribute__((visibility("default"))) void tp_recording_observe(void (*observer)(const char* entry)) {
  tidepool::fakes::g_observer = observer;
}

/// Lets a test see each call with its first six arguments, as registers hold them, and answer in the driver's
/// place: what it returns is the call's result, if it is not negative. Called by whichever thread calls.
__attribute__((visibility("default"))) void tp_recording_intercept(
    int (*intercept)(const char* entry, const std::uint64_t* arguments)) {
  tidepool::fakes::g_intercept = intercept;
}
}
