#include "tools/simgpu/driver/guard.h"

#include <cerrno>
#include <csetjmp>
#include <csignal>
#include <cstdlib>
#if defined(__x86_64__)
#include <ucontext.h>
#endif

#include <array>
#include <atomic>

namespace simgpu {
namespace {

#if defined(__SANITIZE_THREAD__)
constexpr int kSaveMask = 1;  // ThreadSanitizer's sigsetjmp fails without
#else
constexpr int kSaveMask = 0;  // the handler runs with SA_NODEFER and changes no mask
#endif

struct Region {
  sigjmp_buf resume;
  Fault fault;
  std::uint64_t mended = 0;  ///< the latest address whose touch is repeated
};
std::atomic<Mend> g_mend{nullptr};
thread_local Region* t_region __attribute__((tls_model("initial-exec"))) = nullptr;

/// Handlers found in front of ours, latest last. Written under the device lock, read by the handler.
struct Found {
  std::array<struct sigaction, 32> actions{};
  std::atomic<unsigned> count{0};
};
Found g_segv;
Found g_bus;

void hand_to_program(int signal) {
  Found& found = signal == SIGBUS ? g_bus : g_segv;
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  const unsigned n = found.count.load(std::memory_order_acquire);
  if (n > 0) {
    action = found.actions[n - 1];
    found.count.store(n - 1, std::memory_order_release);
  }
  // Returning repeats the faulting instruction, now with the program's handler in place.
  ::sigaction(signal, &action, nullptr);
}

void on_fault(int signal, siginfo_t* info, void* state) {
  Region* region = t_region;
  if (region == nullptr) return hand_to_program(signal);
  region->fault = Fault{};
  region->fault.address = reinterpret_cast<std::uint64_t>(info->si_addr);
  region->fault.address_known = info->si_code != SI_KERNEL;
#if defined(__x86_64__)
  constexpr greg_t kWriteAccess = 2;
  region->fault.write = (static_cast<ucontext_t*>(state)->uc_mcontext.gregs[REG_ERR] & kWriteAccess) != 0;
#else
  static_cast<void>(state);
#endif
  const Fault& fault = region->fault;
  const Mend mend = g_mend.load(std::memory_order_acquire);
  // Work that still traps there does something else than touch memory: it may have jumped to it.
  if (signal == SIGSEGV && fault.address_known && mend != nullptr && region->mended != fault.address) {
    const int error = errno;
    region->mended = fault.address;
    const bool again = mend(fault.address, fault.write);
    errno = error;
    if (again) return;
  }
  ::siglongjmp(region->resume, 1);
}

void ensure_handler(int signal, Found& found) {
  struct sigaction current {};
  ::sigaction(signal, nullptr, &current);
  if ((current.sa_flags & SA_SIGINFO) != 0 && current.sa_sigaction == &on_fault) return;
  const unsigned n = found.count.load(std::memory_order_relaxed);
  if (n < found.actions.size()) {
    found.actions[n] = current;
    found.count.store(n + 1, std::memory_order_release);
  } else {
    found.actions.back() = current;
  }
  struct sigaction ours {};
  ours.sa_sigaction = &on_fault;
  ours.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
  ::sigemptyset(&ours.sa_mask);
  ::sigaction(signal, &ours, nullptr);
}

/// A trap of a thread that blocks its signal would end the process.
class Unblocked {
 public:
  Unblocked() {
    sigset_t traps;
    ::sigemptyset(&traps);
    ::sigaddset(&traps, SIGSEGV);
    ::sigaddset(&traps, SIGBUS);
    ::pthread_sigmask(SIG_UNBLOCK, &traps, &before_);
  }
  ~Unblocked() {
    if (::sigismember(&before_, SIGSEGV) == 0 && ::sigismember(&before_, SIGBUS) == 0) return;
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  Unblocked(const Unblocked&) = delete;
  Unblocked& operator=(const Unblocked&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace

void set_mend(Mend mend) noexcept {
  g_mend.store(mend, std::memory_order_release);
}

bool run_guarded(void (*work)(void*), void* argument, Fault* fault) noexcept {
  ensure_handler(SIGSEGV, g_segv);
  // Device memory never gives SIGBUS, only a truncated file behind pinned memory does: a look now and then is
  // enough, and a system call per launch is saved.
  static std::atomic<unsigned> runs{0};
  if (runs.fetch_add(1, std::memory_order_relaxed) % 64 == 0) ensure_handler(SIGBUS, g_bus);
  const Unblocked unblocked;
  Region region;
  if (sigsetjmp(region.resume, kSaveMask) != 0) {
    t_region = nullptr;
    *fault = region.fault;
    return false;
  }
  t_region = &region;
  work(argument);
  t_region = nullptr;
  return true;
}

void leave_guarded(const Fault& fault) noexcept {
  Region* region = t_region;
  if (region == nullptr) std::abort();
  region->fault = fault;
  ::siglongjmp(region->resume, 1);
}

}  // namespace simgpu
