#include "shim/process.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <cstring>

#include "allocator/epoch.h"
#include "allocator/recorder.h"
#include "allocator/support/event_ring.h"
#include "allocator/support/message.h"
#include "allocator/support/stats_page.h"
#include "shim/managed.h"
#include "shim/observe.h"
#include "shim/outside_handles.h"
#include "shim/outside_memory.h"
#include "shim/real_driver.h"
#include "shim/runtime_door.h"
#include "shim/unknown_entry.h"

extern char** environ;

namespace tidepool::shim {

std::atomic<Mode> g_mode{Mode::kCold};
constinit thread_local int t_depth __attribute__((tls_model("initial-exec"))) = 0;
constinit thread_local const void* t_first_caller __attribute__((tls_model("initial-exec"))) = nullptr;

namespace {

constinit Options g_options{};
constinit OptionIssues g_issues{};
pthread_once_t g_start = PTHREAD_ONCE_INIT;
pthread_once_t g_decision = PTHREAD_ONCE_INIT;

void before_fork() noexcept {
  lock_for_fork();
  lock_handles_for_fork();
  lock_outside_for_fork();
  lock_unknown_for_fork();
}

void after_fork_in_parent() noexcept {
  unlock_unknown_after_fork();
  unlock_outside_after_fork(false);
  unlock_handles_after_fork(false);
  unlock_after_fork();
}

// Everything that was managed belongs to the parent, and CUDA is not usable in a child of a process that has
// initialised it: the child forwards. A child of a process that managed nothing is like any process, also if
// the parent has looked up driver functions.
void after_fork_in_child() noexcept {
  unlock_unknown_after_fork();
  unlock_outside_after_fork(true);
  unlock_handles_after_fork(true);
  unlock_after_fork();
  StatsPage::instance().reset_after_fork();
  runtime::EpochRegistry::instance().reset_after_fork();
  runtime::Recorder::instance().reset_after_fork();
  const bool is_active = g_mode.load(std::memory_order_relaxed) == Mode::kActive;
  EventRing::instance().reset_after_fork();
  if (is_active && (any_managed() || has_observed())) {
    g_mode.store(Mode::kPassthrough);
  } else if (is_active) {
    (void)EventRing::instance().open(g_options.run_dir.c_str(), g_options.log);
  }
}

bool are_options_refused() noexcept {
  return g_issues.any_error() || (g_options.strict && g_issues.count() > 0);
}

// Reads options and keeps a way to stderr; starts no thread and calls no driver, since most processes that
// are started with the library never use CUDA.
void start() noexcept {
  g_options = load_options(environ, &g_issues);
  // Who starts a set-uid program has no say in it.
  if (is_off(g_options) || ::getauxval(AT_SECURE) != 0) {
    g_mode.store(Mode::kDisabled);
    redirect_all(&next_definition);
    disable_runtime_door();
    return;
  }
  open_messages(g_options.quiet);
  if (!are_options_refused()) StatsPage::attach(g_options.run_dir.c_str());
  ::pthread_atfork(&before_fork, &after_fork_in_parent, &after_fork_in_child);
}

// Only a process that uses CUDA says what is wrong with the options: most that are started with the library
// (shells, compilers, helpers) do not.
void decide() noexcept {
  if (const int problem = EventRing::instance().open(g_options.run_dir.c_str(), g_options.log)) {
    report<Msg::TP4005>(g_options.run_dir.c_str(), ::strerrordesc_np(problem));
  }
  for (const OptionIssue& issue : g_issues.kept()) {
    if (issue.is_unknown && g_options.strict) {
      report<Msg::TP1003>(static_cast<const char*>(issue.text),
                          "As TIDEPOOL_STRICT is set, the program runs without Tidepool");
    } else if (issue.is_unknown) {
      report<Msg::TP1004>(static_cast<const char*>(issue.text));
    } else {
      report<Msg::TP1003>(static_cast<const char*>(issue.text), "The program runs without Tidepool");
    }
  }
  Mode decided = Mode::kPassthrough;
  const RealDriver* driver = are_options_refused() ? nullptr : real_driver();
  if (driver != nullptr && driver->missing != nullptr) {
    const bool watched = !g_options.strict && driver->can_observe();
    report<Msg::TP1002>(driver->missing, watched ? kOnlyWatched : kRunsWithout);
    if (watched) observe_memory(true);
    if (watched) decided = Mode::kActive;
  } else if (driver != nullptr) {
    if (g_options.mode == RunMode::kObserve) observe_memory(true);
    decided = Mode::kActive;
  }
  emit<Ev::process_start>(static_cast<std::uint64_t>(::getppid()));
  emit<Ev::mode_change>(static_cast<std::uint64_t>(decided));
  g_mode.store(decided, std::memory_order_release);
}

__attribute__((constructor)) void on_load() noexcept {
  start_process();
}

}  // namespace

const Options& options() noexcept {
  return g_options;
}

bool is_switched_off() noexcept {
  return g_mode.load(std::memory_order_acquire) == Mode::kDisabled || are_options_refused();
}

void start_process() noexcept {
  ::pthread_once(&g_start, &start);
}

Mode enter_process() noexcept {
  if (const Mode mode = g_mode.load(std::memory_order_acquire); mode != Mode::kCold) return mode;
  start_process();
  if (const Mode mode = g_mode.load(std::memory_order_acquire); mode != Mode::kCold) return mode;
  // Not in the once: it waits for the loader, and whoever holds the loader's lock may come here too.
  if (!are_options_refused()) (void)real_driver();
  ::pthread_once(&g_decision, &decide);
  return g_mode.load(std::memory_order_acquire);
}

}  // namespace tidepool::shim
