#include "tools/simgpu/driver/guard.h"

#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csetjmp>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace simgpu {
namespace {

#if defined(__SANITIZE_THREAD__)
constexpr int kSaveMask = 1;  // ThreadSanitizer's sigsetjmp fails without
#else
constexpr int kSaveMask = 0;  // the handler runs with SA_NODEFER and changes no mask
#endif

struct Region {
  sigjmp_buf resume;
  std::uint64_t mask = 0;  ///< the signals that are blocked while the work runs
  Fault fault;
  std::uint64_t mended = 0;  ///< the latest address whose touch is repeated
};
std::atomic<Mend> g_mend{nullptr};
std::atomic<Owns> g_owns{nullptr};
thread_local Region* t_region __attribute__((tls_model("initial-exec"))) = nullptr;

/// Handlers found in front of ours, latest last. Written under the device lock, read by the handler.
struct Found {
  std::array<struct sigaction, 32> actions{};
  std::atomic<unsigned> count{0};
};
Found g_segv;
Found g_bus;

/// The signals of a set, as the kernel has them.
std::uint64_t bits(const sigset_t& set) {
  std::uint64_t word = 0;
  static_assert(sizeof set >= sizeof word);
  std::memcpy(&word, &set, sizeof word);
  return word;
}

/// One line on stderr, by what a signal handler may do.
class Line {
 public:
  Line& put(std::string_view text) {
    for (const char c : text) {
      if (used_ < text_.size()) text_[used_++] = c;
    }
    return *this;
  }
  Line& hex(std::uint64_t number) {
    put("0x");
    int shift = 60;
    while (shift > 0 && number >> shift == 0) shift -= 4;
    for (; shift >= 0; shift -= 4) put({&"0123456789abcdef"[number >> shift & 15], 1});
    return *this;
  }
  void write() const {
    if (::write(STDERR_FILENO, text_.data(), used_) < 0) return;  // there is nowhere to say so
  }

 private:
  std::array<char, 256> text_{};
  std::size_t used_ = 0;
};

/// Where host code touched device memory, says so; a program that goes on after its faults hears it 32 times.
void tell_of_host_code(const siginfo_t& info) {
  static std::atomic<int> left{32};
  const Owns owns = g_owns.load(std::memory_order_acquire);
  const auto address = reinterpret_cast<std::uint64_t>(info.si_addr);
  if (owns == nullptr || info.si_code == SI_KERNEL || !owns(address)) return;
  if (left.fetch_sub(1, std::memory_order_relaxed) <= 0) return;
  Line()
      .put("simgpu: host code touched device memory at ")
      .hex(address)
      .put(
          ", which only the device can; cudaMemcpy moves bytes, cudaMallocHost and cudaMallocManaged give "
          "memory for both\n")
      .write();
}

/// By kill() and its like, whatever it says of an address.
bool was_sent(const siginfo_t& info) {
  return info.si_code <= 0;
}

/// The program's handler runs as the kernel would run it, and ours stays in place: another thread may be in
/// device work.
void call(const struct sigaction& action, int signal, siginfo_t* info, void* state) {
  sigset_t mask = action.sa_mask;
  if ((action.sa_flags & SA_NODEFER) == 0) ::sigaddset(&mask, signal);
  sigset_t before{};
  ::pthread_sigmask(SIG_BLOCK, &mask, &before);
  if ((action.sa_flags & SA_SIGINFO) != 0) {
    action.sa_sigaction(signal, info, state);
  } else {
    action.sa_handler(signal);
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void hand_to_program(int signal, siginfo_t* info, void* state) {
  /// The signal that this thread has handed over latest, and to which of the handlers found: one that calls
  /// the handler that it had found, ours, means the one before.
  thread_local const siginfo_t* t_info __attribute__((tls_model("initial-exec"))) = nullptr;
  thread_local const void* t_frame __attribute__((tls_model("initial-exec"))) = nullptr;
  thread_local unsigned t_below __attribute__((tls_model("initial-exec"))) = 0;
  Found& found = signal == SIGBUS ? g_bus : g_segv;
  // A handler may have left by siglongjmp(): only a deeper frame is inside it.
  const void* frame = __builtin_frame_address(0);
  const bool inside = t_info == info && frame < t_frame;
  const unsigned n = inside ? t_below : found.count.load(std::memory_order_acquire);
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  if (n > 0) action = found.actions[n - 1];
  const bool is_function =
      (action.sa_flags & SA_SIGINFO) != 0 || (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN);
  if (is_function && (action.sa_flags & static_cast<int>(SA_RESETHAND)) == 0) {
    t_info = info;
    t_frame = frame;
    t_below = n - 1;
    call(action, signal, info, state);
    t_info = nullptr;
    return;
  }
  // Returning repeats the faulting instruction, now with that in place. A signal that was sent does not come
  // again by itself.
  ::sigaction(signal, &action, nullptr);
  if (was_sent(*info)) ::syscall(SYS_rt_tgsigqueueinfo, ::getpid(), ::gettid(), signal, info);
}

/// False where a handler of the program has interrupted the work: the kernel blocks a handler's signals while
/// it runs. To leave the work then would leave the handler too, for ever with its signals blocked.
bool in_work(const Region& region, const ucontext_t& state) {
  return bits(state.uc_sigmask) == region.mask;
}

void on_fault(int signal, siginfo_t* info, void* state) {
  Region* region = t_region;
  const auto& interrupted = *static_cast<const ucontext_t*>(state);
  if (region == nullptr || was_sent(*info) || !in_work(*region, interrupted)) {
    const int error = errno;
    if (!was_sent(*info)) tell_of_host_code(*info);
    errno = error;  // the program's handler finds what the fault found
    hand_to_program(signal, info, state);
    errno = error;
    return;
  }
  region->fault = Fault{};
  region->fault.address = reinterpret_cast<std::uint64_t>(info->si_addr);
  region->fault.address_known = info->si_code != SI_KERNEL;
#if defined(__x86_64__)
  constexpr greg_t kWriteAccess = 2;
  region->fault.write = (interrupted.uc_mcontext.gregs[REG_ERR] & kWriteAccess) != 0;
#endif
  Fault& fault = region->fault;
  const Mend mend = g_mend.load(std::memory_order_acquire);
  // Work that still traps there does something else than touch memory: it may have jumped to it.
  if (signal == SIGSEGV && fault.address_known && mend != nullptr && region->mended != fault.address) {
    const int error = errno;
    region->mended = fault.address;
    fault.touch = mend(fault.address, fault.write);
    errno = error;
    if (fault.touch == TouchResult::kReady) return;
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
    mask_ = bits(before_) & ~bits(traps);
  }
  ~Unblocked() {
    if (::sigismember(&before_, SIGSEGV) == 0 && ::sigismember(&before_, SIGBUS) == 0) return;
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  Unblocked(const Unblocked&) = delete;
  Unblocked& operator=(const Unblocked&) = delete;
  /// The signals that are still blocked.
  [[nodiscard]] std::uint64_t mask() const { return mask_; }

 private:
  sigset_t before_{};
  std::uint64_t mask_ = 0;
};

}  // namespace

void set_mend(Mend mend) noexcept {
  g_mend.store(mend, std::memory_order_release);
}

void watch_host_code(Owns owns) noexcept {
  g_owns.store(owns, std::memory_order_release);
  ensure_handler(SIGSEGV, g_segv);
}

bool run_guarded(void (*work)(void*), void* argument, Fault* fault) noexcept {
  ensure_handler(SIGSEGV, g_segv);
  // Device memory never gives SIGBUS, only a truncated file behind pinned memory does: a look now and then is
  // enough, and a system call per launch is saved.
  static std::atomic<unsigned> runs{0};
  if (runs.fetch_add(1, std::memory_order_relaxed) % 64 == 0) ensure_handler(SIGBUS, g_bus);
  const Unblocked unblocked;
  Region region;
  region.mask = unblocked.mask();
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
