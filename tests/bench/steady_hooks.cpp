// Launches, copies and pairs of allocation and free, once everything is warm, with all memory allocation
// counted and all system calls forbidden: the kernel kills a process in strict mode (prctl(2),
// PR_SET_SECCOMP) for any but read, write and exit.

#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdio>

#include "tests/bench/hook_workload.h"

namespace {

std::atomic<long> g_allocations{0};

}  // namespace

// Definitions of the program come before those of the C library, for all libraries.
extern "C" {
void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* at, std::size_t size);
void* __libc_memalign(std::size_t alignment, std::size_t size);

void* malloc(std::size_t size) {
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_malloc(size);
}
void* calloc(std::size_t count, std::size_t size) {
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_calloc(count, size);
}
void* realloc(void* at, std::size_t size) {
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_realloc(at, size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size) {
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_memalign(alignment, size);
}
}

int main() {
  constexpr int kWarm = 1000;
  constexpr int kRounds = 10000;
  tidepool::bench::HookWorkload program;
  const auto round = [&] {
    program.launch();
    program.copy();
    program.alloc_free(std::size_t{4} << 20);
    program.alloc_free(std::size_t{64} << 10);
  };
  for (int i = 0; i < kWarm; ++i) round();
  const long before = g_allocations.load();
  if (before == 0) {
    std::fputs("steady_hooks: allocations are not counted\n", stderr);
    return 2;
  }
  if (::prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0) {
    std::perror("steady_hooks: prctl");
    return 2;
  }
  for (int i = 0; i < kRounds; ++i) round();
  const bool none = g_allocations.load() == before;
  constexpr char kSome[] = "steady_hooks: a hook allocated memory\n";
  if (!none) (void)!::write(STDERR_FILENO, kSome, sizeof kSome - 1);
  ::syscall(SYS_exit, none ? 0 : 1);  // exit(3) would call exit_group(2)
}
