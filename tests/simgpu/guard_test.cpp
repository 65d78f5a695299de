// Whose a fault is: the device's, or the program's. What the program does with its own signals stays as
// POSIX, sigaction, says.

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <csetjmp>
#include <csignal>
#include <cstddef>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "simgpu/kernel.h"
#include "tests/process/child_process.h"
#include "tests/simgpu/device_tools.h"

namespace {

using namespace simgpu_test;

/// Sends its process a signal and goes on.
struct RaiseAndWrite {
  template <class C>
  static void run(C& c, int* to, int signal) {
    c.phase([&](unsigned tid) {
      if (tid != 0) return;
      raise(signal);
      *to = 5;
    });
  }
};

CUresult raise_and_write(CUdeviceptr to, int signal) {
  static const CUfunction function =
      make_kernel("raise_and_write", simgpu::kernel_body<RaiseAndWrite, int*, int>());
  void* params[] = {&to, &signal};
  OK(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, nullptr, params, nullptr));
  return cuCtxSynchronize();
}

volatile std::sig_atomic_t g_handled = 0;
volatile std::uint64_t g_nowhere = 8;  // an address that the compiler does not know to be wrong
sigjmp_buf g_resume;

void handle(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  sigaction(signal, &action, nullptr);
}

void go_on(int) {
  g_handled = g_handled + 1;
  siglongjmp(g_resume, 1);
}

void touch_nothing(int) {
  if (sigsetjmp(g_resume, 1) == 0) *reinterpret_cast<volatile int*>(g_nowhere) = 1;
}

bool blocked(int signal) {
  sigset_t set;
  pthread_sigmask(SIG_SETMASK, nullptr, &set);
  return sigismember(&set, signal) == 1;
}

/// What is written on stderr while it lives.
class Stderr {
 public:
  Stderr() : file_(memfd_create("stderr", 0)), before_(dup(STDERR_FILENO)) { dup2(file_, STDERR_FILENO); }
  std::string end() const {
    std::fflush(stderr);
    dup2(before_, STDERR_FILENO);
    std::string text(4096, '\0');
    text.resize(static_cast<std::size_t>(pread(file_, text.data(), text.size(), 0)));
    return text;
  }

 private:
  int file_, before_;
};

std::string told(CUdeviceptr address) {
  char text[200];
  std::snprintf(text, sizeof text,
                "simgpu: host code touched device memory at 0x%llx, which only the device can; "
                "cudaMemcpy moves bytes, cudaMallocHost and cudaMallocManaged give memory for both\n",
                address);
  return text;
}

/// The signal that ends a program without handlers that does this with an int of the device.
int ends_by(const std::function<void(CUdeviceptr)>& work) {
  DeviceSetup setup;
  setup.with_context = false;
  return on_device(setup, [&] {
    const pid_t child = fork();
    EXPECT(child >= 0);
    if (child == 0) {
      handle(SIGSEGV, SIG_DFL);
      handle(SIGBUS, SIG_DFL);
      CUcontext context = nullptr;
      OK(cuInit(0));
      OK(cuDevicePrimaryCtxRetain(&context, 0));
      OK(cuCtxSetCurrent(context));
      work(new_ints(1));
      _exit(0);
    }
    int status = 0;
    EXPECT(waitpid(child, &status, 0) == child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  });
}

}  // namespace

TEST_CASE("guard: host code that touches new device memory is told so, then its own handler runs") {
  on_device({}, [] {
    handle(SIGSEGV, &go_on);
    const CUdeviceptr used = new_ints(1);  // simgpu's handler is in front from here on
    CUdeviceptr block = 0;
    OK(cuMemAlloc(&block, kFrame));
    const Stderr err;
    if (sigsetjmp(g_resume, 1) == 0) *reinterpret_cast<volatile int*>(block + 16) = 1;
    EXPECT(err.end() == told(block + 16));
    EXPECT(g_handled == 1);
    EXPECT(int_at(used) == 0);
    // The device's own way to it is open as before.
    OK(raise_and_write(block, 0));
    EXPECT(int_at(block) == 5);
    return 0;
  });
}

TEST_CASE("guard: faults of host code elsewhere are none of the device's memory") {
  on_device({}, [] {
    handle(SIGSEGV, &go_on);
    const CUdeviceptr used = new_ints(1);
    const CUdeviceptr freed = reserve(kFrame);
    OK(cuMemAddressFree(freed, kFrame));
    const Stderr err;
    if (sigsetjmp(g_resume, 1) == 0) *reinterpret_cast<volatile int*>(g_nowhere) = 1;
    EXPECT(int_at(used) == 0);
    if (sigsetjmp(g_resume, 1) == 0) *reinterpret_cast<volatile int*>(freed) = 1;
    EXPECT(g_handled == 2);
    EXPECT(err.end().empty());
    return 0;
  });
}

TEST_CASE("guard: a program without a handler that touches device memory ends by the signal") {
  for (const char* argument : {"", "handler"}) {
    tidepool::test::Job job;
    job.words = {tidepool::test::built("bin/simgpu"), "--", tidepool::test::built("tests/simgpu_host_touch")};
    if (*argument != '\0') job.words.emplace_back(argument);
    job.variables = {{"LD_PRELOAD", ""}};
    const tidepool::test::Outcome o = tidepool::test::run(job);
    INFO(o.err);
    REQUIRE(o.out == "cudaSuccess\n");
    REQUIRE(o.err.substr(0, 44) == told(0).substr(0, 44));
    if (*argument != '\0') {
      REQUIRE(o.code() == 5);
      REQUIRE(o.err.find("\nown handler\n") != std::string::npos);
    } else if (!tidepool::test::sanitized()) {
      REQUIRE(o.code() == -SIGSEGV);
    }
  }
}

TEST_CASE("guard: a fault in a handler that interrupts device work is the program's", "[plain]") {
  on_device({}, [] {
    handle(SIGSEGV, &go_on);
    handle(SIGUSR1, &touch_nothing);
    const CUdeviceptr to = new_ints(1);
    OK(raise_and_write(to, SIGUSR1));
    EXPECT(g_handled == 1);
    EXPECT(int_at(to) == 5);
    EXPECT(!blocked(SIGUSR1));
    // And the device's faults are the device's again.
    EXPECT_RESULT(raise_and_write(reserve(kFrame), 0), CUDA_ERROR_ILLEGAL_ADDRESS);
    EXPECT(g_handled == 1);
    return 0;
  });
}

TEST_CASE("guard: a fault in a handler ends a program that has no handler for it", "[plain]") {
  REQUIRE(ends_by([](CUdeviceptr to) {
            handle(SIGUSR1, [](int) { *reinterpret_cast<volatile int*>(g_nowhere) = 1; });
            static_cast<void>(raise_and_write(to, SIGUSR1));
          }) == SIGSEGV);
}

TEST_CASE("guard: a signal that somebody sends reaches the program, also in device work", "[plain]") {
  for (const int signal : {SIGSEGV, SIGBUS}) {
    on_device({}, [signal] {
      handle(signal, [](int) { g_handled = g_handled + 1; });
      const CUdeviceptr to = new_ints(1);
      raise(signal);
      EXPECT(g_handled == 1);
      OK(raise_and_write(to, signal));
      EXPECT(g_handled == 2);
      EXPECT(int_at(to) == 5);
      return 0;
    });
  }
}

TEST_CASE("guard: a signal that somebody sends ends a program that has no handler for it", "[plain]") {
  for (const int signal : {SIGSEGV, SIGBUS}) {
    REQUIRE(ends_by([signal](CUdeviceptr) { raise(signal); }) == signal);
    REQUIRE(ends_by([signal](CUdeviceptr to) { static_cast<void>(raise_and_write(to, signal)); }) == signal);
  }
}

/// What a program that repairs pages does in several threads, as garbage collectors do: each has a page,
/// locks it and writes to it. The handler ends the program where a fault is not its own.
TEST_CASE("guard: a handler that repairs pages gets all of its own faults and no other", "[plain]") {
  on_device({}, [] {
    constexpr std::size_t kPage = 4096;
    constexpr int kThreads = 4;
    static char* pages = nullptr;
    pages =
        static_cast<char*>(mmap(nullptr, kThreads * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    struct sigaction repair {};
    repair.sa_sigaction = [](int, siginfo_t* info, void*) {
      auto* at = static_cast<char*>(info->si_addr);
      if (at < pages || at >= pages + kThreads * kPage) _exit(70);
      mprotect(at - (at - pages) % static_cast<std::ptrdiff_t>(kPage), kPage, PROT_READ | PROT_WRITE);
    };
    repair.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigaction(SIGSEGV, &repair, nullptr);
    CUdeviceptr first = 0;
    OK(cuMemAlloc(&first, kFrame));  // simgpu's handler is in front from here on
    OK(cuMemsetD32(first, 1, 1));
    std::atomic<bool> stop{false};
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&stop, page = pages + static_cast<std::size_t>(t) * kPage] {
        while (!stop) {
          mprotect(page, kPage, PROT_NONE);
          *static_cast<volatile char*>(page) = 1;
        }
      });
    }
    for (int i = 0; i < 800; ++i) {
      CUdeviceptr fresh = 0;  // device work that faults as well, and is mended
      OK(cuMemAlloc(&fresh, 2 * kFrame));
      OK(cuMemsetD32(fresh + kFrame, 7, 1));
      OK(cuMemFree(fresh));
    }
    stop = true;
    for (std::thread& thread : threads) thread.join();
    return 0;
  });
}
