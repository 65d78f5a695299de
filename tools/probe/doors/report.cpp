#include "tools/probe/doors/report.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "allocator/support/text_writer.h"

namespace tidepool::doors {
namespace {

constexpr std::size_t kLongestPath = 1000;

constinit std::atomic<const Reporter*> g_reporter{nullptr};
constinit std::atomic<bool> g_writing{false};
constinit std::atomic<const Reporter*> g_followed{nullptr};
constinit bool g_forked = false;

// The variable is read each time: its name belongs to the environment, and a child may be given another one.
void put_path(const Reporter& reporter, char* path, std::size_t size) noexcept {
  const char* const wanted = std::getenv(reporter.variable);
  const std::string_view text = wanted != nullptr ? wanted : "";
  const auto pid = static_cast<std::uint64_t>(::getpid());
  const std::size_t mark = text.find("%p");
  TextWriter out(path, size);
  if (mark == std::string_view::npos) {
    out.put(text);
    if (g_forked) out.put(".").put_number(pid);
  } else {
    out.put(text.substr(0, mark)).put_number(pid).put(text.substr(mark + 2));
  }
}

void* write_each_second(void*) noexcept {
  constexpr timespec kPause{1, 0};
  for (;;) {
    ::nanosleep(&kPause, nullptr);
    write_report(false);
  }
}

void start_thread() noexcept {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_attr_t attributes;
  pthread_t thread;
  ::pthread_attr_init(&attributes);
  ::pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  if (::pthread_create(&thread, &attributes, &write_each_second, nullptr) == 0) {
    ::pthread_setname_np(thread, "tp-count");
  }
  ::pthread_attr_destroy(&attributes);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

// The parent's thread is not here, and its file is not ours.
void after_fork_in_child() noexcept {
  g_forked = true;
  g_writing.store(false);
  g_reporter.store(nullptr);
  const Reporter* const reporter = g_followed.load();
  if (reporter->forget != nullptr) reporter->forget();
}

__attribute__((destructor)) void on_unload() noexcept {
  write_report(true);
}

}  // namespace

bool is_report_wanted(const Reporter& reporter) noexcept {
  const char* const wanted = std::getenv(reporter.variable);
  return wanted != nullptr && *wanted != '\0';
}

void start_report(const Reporter& reporter) noexcept {
  const Reporter* none = nullptr;
  if (!is_report_wanted(reporter) || !g_reporter.compare_exchange_strong(none, &reporter)) return;
  follow_forks(reporter);
  start_thread();
}

void write_report(bool final) noexcept {
  const Reporter* const reporter = g_reporter.load(std::memory_order_acquire);
  if (reporter == nullptr) return;
  // The last report waits for one that is being written; any other one is worth nothing twice.
  constexpr timespec kPause{0, 1'000'000};
  for (int patience = final ? 2000 : 0; g_writing.exchange(true); --patience) {
    if (patience == 0) return;
    ::nanosleep(&kPause, nullptr);
  }
  char path[kLongestPath];
  put_path(*reporter, path, sizeof path);
  if (RecordFile file(path); file.ok()) {
    file.begin("doors", "start", "counts").field("side", reporter->side).number("process", ::getpid());
    file.field("program", program_invocation_short_name).end();
    reporter->write(file);
    file.begin("doors", "end", "counts").field("side", reporter->side).truth("final", final).end();
    file.finish();
  }
  if (!final) g_writing.store(false);  // nothing comes after the last one
}

void follow_forks(const Reporter& reporter) noexcept {
  const Reporter* none = nullptr;
  if (!g_followed.compare_exchange_strong(none, &reporter)) return;
  ::pthread_atfork(nullptr, nullptr, &after_fork_in_child);
}

}  // namespace tidepool::doors
