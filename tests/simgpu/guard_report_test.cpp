// What a program can notice of the guard's own work: errno, and how much it says. POSIX, sigaction: a handler
// that may change errno has to save it.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <csetjmp>
#include <csignal>
#include <string>

#include "simgpu/kernel.h"
#include "tests/simgpu/device_tools.h"

/// Entering pages ahead is only ever an advice. The driver's library calls this one.
extern "C" __attribute__((visibility("default"))) int madvise(void* /*at*/, std::size_t /*bytes*/,
                                                              int /*advice*/) noexcept {
  errno = EINVAL;
  return -1;
}

namespace {

using namespace simgpu_test;

constexpr int kError = 77;

/// Writes how errno was changed by the touch of `touched`.
struct TouchAndTell {
  template <class C>
  static void run(C& c, volatile int* touched, int* told) {
    c.phase([&](unsigned tid) {
      if (tid != 0) return;
      *told = 0;
      errno = kError;
      *touched = 1;
      *told = errno;
    });
  }
};

CUresult touch_and_tell(CUdeviceptr touched, CUdeviceptr told) {
  static const CUfunction function =
      make_kernel("touch_and_tell", simgpu::kernel_body<TouchAndTell, volatile int*, int*>());
  void* params[] = {&touched, &told};
  OK(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, nullptr, params, nullptr));
  return cuCtxSynchronize();
}

sigjmp_buf g_resume;
volatile std::sig_atomic_t g_errno = 0;

void go_on(int /*signal*/) {
  g_errno = errno;
  siglongjmp(g_resume, 1);
}

void go_on_after_faults(int flags) {
  struct sigaction action {};
  action.sa_handler = go_on;
  action.sa_flags = flags;
  sigaction(SIGSEGV, &action, nullptr);
}

void touch(CUdeviceptr address) {
  if (sigsetjmp(g_resume, 1) != 0) return;
  errno = kError;
  *reinterpret_cast<volatile int*>(address) = 1;
}

}  // namespace

TEST_CASE("guard report: work that is the first to touch memory finds errno as it was") {
  on_device({}, [] {
    const CUdeviceptr told = new_ints(1);
    CUdeviceptr block = 0;
    OK(cuMemAlloc(&block, 2 * kFrame));
    OK(touch_and_tell(block + kFrame, told));
    EXPECT(int_at(told) == kError);
    return 0;
  });
}

TEST_CASE("guard report: a program's handler finds errno as it was, also where nothing could be said") {
  for (const int flags : {0, static_cast<int>(SA_RESETHAND)})
    on_device({}, [&] {
      go_on_after_faults(flags);
      const CUdeviceptr told = new_ints(1);
      CUdeviceptr block = 0;
      OK(cuMemAlloc(&block, kFrame));
      const int before = dup(STDERR_FILENO);
      close(STDERR_FILENO);
      touch(block);
      const int found = g_errno;
      dup2(before, STDERR_FILENO);
      EXPECT(found == kError);
      OK(touch_and_tell(block, told));
      return 0;
    });
}

TEST_CASE("guard report: a program that goes on after its faults hears of 32") {
  on_device({}, [] {
    go_on_after_faults(0);
    static_cast<void>(new_ints(1));  // simgpu's handler is in front from here on
    CUdeviceptr block = 0;
    OK(cuMemAlloc(&block, kFrame));
    const int before = dup(STDERR_FILENO);
    const int file = memfd_create("stderr", 0);
    dup2(file, STDERR_FILENO);
    for (int i = 0; i < 40; ++i) touch(block);
    dup2(before, STDERR_FILENO);
    std::string text(16384, '\0');
    text.resize(static_cast<std::size_t>(pread(file, text.data(), text.size(), 0)));
    std::size_t lines = 0;
    for (std::size_t at = 0; (at = text.find("host code touched device memory", at)) != std::string::npos;
         ++at) {
      ++lines;
    }
    EXPECT(lines == 32);
    return 0;
  });
}
