#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>

#include "allocator/support/message.h"
#include "allocator/support/options.h"
#include "allocator/support/stats_page.h"

namespace {

std::atomic<unsigned> g_allocations{0};

// Sanitizers bring their own malloc; the count is taken in the plain builds.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kCounts = false;
#else
constexpr bool kCounts = true;
#endif

}  // namespace

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// The test program's malloc, in front of libc's.
extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);

void* malloc(std::size_t n) {
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_malloc(n);
}
void* calloc(std::size_t n, std::size_t size) {
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_calloc(n, size);
}
void* realloc(void* old, std::size_t n) {
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_realloc(old, n);
}
}
#endif

namespace tidepool {
namespace {

Options g_options;

TEST_CASE("support: nothing that may run inside the guest allocates") {
  const pid_t pid = fork();
  if (pid == 0) {
    free(malloc(1));
    if (kCounts && g_allocations.load() == 0) _exit(1);
    const unsigned before = g_allocations.load();
    const char* environment[] = {
        "TIDEPOOL_DEVICE_BUDGET=1.5GiB", "TIDEPOOL_HOST_BUDGET=30%", "TIDEPOOL_QIET=1",
        "TIDEPOOL_CHECK=what",           "TIDEPOOL_RUN_DIR=/tmp",    nullptr};
    OptionIssues issues;
    g_options = load_options(environment, &issues);
    open_messages(false);
    close(STDERR_FILENO);
    report<Msg::TP2001>("kernel", "1.0 GiB", BytesText(device_capacity_of(g_options, GiB(80))).c_str(), "0 B",
                        "", "1.0 GiB");
    report<Msg::TP3002>("one and one");
    StatsPage& stats = StatsPage::attach("/tmp");
    stats.add(Metric::slow_path_total, 1);
    stats.raise(Metric::host_bytes_peak, 1);
    stats.reset_after_fork();
    const bool none = g_allocations.load() == before;
    const std::string own = "/tmp/stats." + std::to_string(getpid());
    unlink(own.c_str());
    unlink((own + ".1").c_str());
    _exit(none ? 0 : 2);
  }
  int status = -1;
  waitpid(pid, &status, 0);
  CHECK(status == 0);
}

}  // namespace
}  // namespace tidepool
