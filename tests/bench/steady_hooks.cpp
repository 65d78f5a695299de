// What a step of a program calls over and over, once everything is warm, with all memory allocation counted
// and all system calls forbidden: the kernel kills a process in strict mode (prctl(2), PR_SET_SECCOMP) for
// any but read, write and exit.

#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdio>
#include <string_view>
#include <thread>

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

namespace {

constexpr int kWarm = 1000;
constexpr int kRounds = 10000;
constexpr int kRoundsOfTwo = 500000;

using Work = void (*)(tidepool::bench::HookWorkload& program);

void do_a_step(tidepool::bench::HookWorkload& program) {
  program.launch();
  program.launch_ex();
  program.launch_graph();
  program.copy();
  program.fill();
  program.wait_for_event();
  for (const std::size_t bytes : {std::size_t{4} << 20, std::size_t{64} << 10}) {
    program.alloc_free(bytes);
    program.alloc_free_async(bytes);
  }
}

void say(const char* text, std::size_t size) {
  (void)!::write(STDERR_FILENO, text, size);
}
template <std::size_t N>
void say(const char (&text)[N]) {
  say(text, N - 1);
}

/// From here on the calling thread is ended by the kernel if it waits for a lock, or asks for anything else.
bool forbid_system_calls() {
  return ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0;
}

std::atomic<int> g_holding{0};
std::atomic<int> g_ready{0};
std::atomic<int> g_started{0};
std::atomic<int> g_finished{0};

/// Threads wait for each other without the system.
void meet(std::atomic<int>& count) {
  count.fetch_add(1);
  while (count.load() < 2) {
  }
}

/// Leaves a freed block for each thread. Two that never held one at the same time would pass one on to each
/// other for ever: what another has freed is taken before there is a new one.
void hold_together() {
  std::array<CUdeviceptr, 2> blocks{};
  for (CUdeviceptr& block : blocks) (void)cuMemAlloc(&block, std::size_t{4} << 20);
  meet(g_holding);
  for (const CUdeviceptr block : blocks) (void)cuMemFree(block);
}

void run_steadily(tidepool::bench::HookWorkload& program, Work work) {
  hold_together();
  for (int i = 0; i < kWarm; ++i) work(program);
  meet(g_ready);
  for (int i = 0; i < kWarm; ++i) work(program);
  if (!forbid_system_calls()) say("steady_hooks: no seccomp\n");
  meet(g_started);
  for (int i = 0; i < kRoundsOfTwo; ++i) work(program);
  g_finished.fetch_add(1);
}

/// Each in a stream and with blocks of its own: they share no lock that either could wait for.
int run_two(Work work) {
  tidepool::bench::HookWorkload mine;
  std::thread([work] {
    tidepool::bench::HookWorkload other;
    run_steadily(other, work);
    ::syscall(SYS_exit, 0);  // of this thread alone, with nothing else run
  }).detach();
  run_steadily(mine, work);
  // The kernel ends a thread that breaks the rule, and only that one. Far longer than it has left to do.
  for (long left = 20'000'000'000; left > 0 && g_finished.load() < 2; --left) {
  }
  const bool both = g_finished.load() == 2;
  if (!both) say("steady_hooks: a hook called the system\n");
  return both ? 0 : 1;
}

int run_one() {
  tidepool::bench::HookWorkload program;
  for (int i = 0; i < kWarm; ++i) do_a_step(program);
  const long before = g_allocations.load();
  if (before == 0) {
    std::fputs("steady_hooks: allocations are not counted\n", stderr);
    return 2;
  }
  if (!forbid_system_calls()) {
    std::perror("steady_hooks: prctl");
    return 2;
  }
  for (int i = 0; i < kRounds; ++i) do_a_step(program);
  const bool none = g_allocations.load() == before;
  if (!none) say("steady_hooks: a hook allocated memory\n");
  return none ? 0 : 1;
}

void launch(tidepool::bench::HookWorkload& program) {
  program.launch();
}

void allocate(tidepool::bench::HookWorkload& program) {
  program.alloc_free(std::size_t{4} << 20);
  program.alloc_free(std::size_t{64} << 10);
}

void allocate_async(tidepool::bench::HookWorkload& program) {
  program.alloc_free_async(std::size_t{4} << 20);
  program.alloc_free_async(std::size_t{64} << 10);
}

}  // namespace

// steady_hooks [two_launching | two_allocating | two_allocating_async]
int main(int argc, char** argv) {
  const std::string_view what = argc == 2 ? argv[1] : "";
  const int result = what == "two_launching"          ? run_two(&launch)
                     : what == "two_allocating"       ? run_two(&allocate)
                     : what == "two_allocating_async" ? run_two(&allocate_async)
                                                      : run_one();
  ::syscall(SYS_exit, result);  // exit(3) would call exit_group(2)
}
