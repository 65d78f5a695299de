// The process side of libtidepool-count.so: counting begins with the first CUDA call of a process whose
// TIDEPOOL_COUNT_FILE names a file. Anywhere else lookups hand out the driver's own functions.

#include <dlfcn.h>
#include <pthread.h>

#include "shim/process.h"
#include "shim/real_driver.h"
#include "tools/probe/doors/asked_names.h"
#include "tools/probe/doors/call_counts.h"
#include "tools/probe/doors/kernel_layouts.h"
#include "tools/probe/doors/report.h"

namespace tidepool::shim {

std::atomic<Mode> g_mode{Mode::kCold};
thread_local int t_depth __attribute__((tls_model("initial-exec"))) = 0;
thread_local const void* t_first_caller __attribute__((tls_model("initial-exec"))) = nullptr;

namespace {

pthread_once_t g_start = PTHREAD_ONCE_INIT;
pthread_once_t g_decision = PTHREAD_ONCE_INIT;

// Calls nothing of the driver, which may have gone by then.
void write_all(doors::RecordFile& file) noexcept {
  doors::write_calls(file);
  doors::write_asked(file);
  doors::write_kernels(file);
}

// CUDA is not usable in a child of a process that has initialised it; what it calls all the same is
// forwarded.
void forget_all() noexcept {
  doors::forget_calls();
  doors::forget_asked();
  doors::forget_kernels();
  if (g_mode.load(std::memory_order_relaxed) == Mode::kActive) g_mode.store(Mode::kPassthrough);
}

constexpr doors::Reporter kReporter{"door", "TIDEPOOL_COUNT_FILE", &write_all, &forget_all};

void* next_definition(const HookRow& row) noexcept {
  return real_dlsym(RTLD_NEXT, row.name);
}

void start() noexcept {
  if (!doors::is_report_wanted(kReporter)) {
    g_mode.store(Mode::kDisabled);
    redirect_all(&next_definition);
    return;
  }
  doors::follow_forks(kReporter);
}

void decide() noexcept {
  const bool has_driver = real_driver() != nullptr;
  if (has_driver) doors::start_report(kReporter);
  g_mode.store(has_driver ? Mode::kActive : Mode::kPassthrough, std::memory_order_release);
}

__attribute__((constructor)) void on_load() noexcept {
  start_process();
}

}  // namespace

void start_process() noexcept {
  ::pthread_once(&g_start, &start);
}

Mode enter_process() noexcept {
  if (const Mode mode = g_mode.load(std::memory_order_acquire); mode != Mode::kCold) return mode;
  start_process();
  if (const Mode mode = g_mode.load(std::memory_order_acquire); mode != Mode::kCold) return mode;
  ::pthread_once(&g_decision, &decide);
  return g_mode.load(std::memory_order_acquire);
}

}  // namespace tidepool::shim
