// A driver-API program that lives and dies in every way a process can. Run by life_test.cpp, one case per
// process: `life_probe CASE [ARGUMENT]`.

#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "tests/life/thread_forks.h"
#include "tests/shim/probe.h"

extern char** environ;

namespace tidepool::test {
namespace {

constexpr std::size_t kBlock = 4 * kMiB;

/// The driver only records its calls: there are no bytes to look at, but there may be calls in forked
/// children.
bool g_only_records = false;

/// Blocks of one thread, twice what a third of the budget holds, each filled with one value.
class Work {
 public:
  explicit Work(unsigned char first) : first_(first), blocks_(6) {
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      EXPECT(DRIVER(cuMemAlloc_v2)(&blocks_[i], kBlock) == CUDA_SUCCESS);
      EXPECT(DRIVER(cuMemsetD8_v2)(blocks_[i], value(i), kBlock) == CUDA_SUCCESS);
    }
  }
  /// Touches all of them in turn; what they hold stays.
  void round() const {
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      EXPECT(DRIVER(cuMemsetD8Async)(blocks_[i], value(i), kBlock, nullptr) == CUDA_SUCCESS);
      if (g_only_records) continue;
      unsigned char byte = 0;
      EXPECT(DRIVER(cuMemcpyDtoH_v2)(&byte, blocks_[i] + 77, 1) == CUDA_SUCCESS && byte == value(i));
    }
  }
  void free() const {
    for (const CUdeviceptr block : blocks_) EXPECT(DRIVER(cuMemFree_v2)(block) == CUDA_SUCCESS);
  }

 private:
  [[nodiscard]] unsigned char value(std::size_t i) const { return static_cast<unsigned char>(first_ + i); }

  unsigned char first_;
  std::vector<CUdeviceptr> blocks_;
};

/// Threads that are in hooks all the time.
class Busy {
 public:
  Busy() {
    for (unsigned char i = 0; i < 3; ++i) {
      threads_.emplace_back([this, i] {
        start();
        const Work work(static_cast<unsigned char>(16 * i + 1));
        for (; !stop_; ++rounds_) work.round();
        work.free();
      });
    }
    threads_.emplace_back([this] {
      const auto lookup = DRIVER(cuGetProcAddress_v2);
      for (void* found = nullptr; !stop_;) {
        EXPECT(lookup("cuMemAlloc", &found, 12000, 0, nullptr) == CUDA_SUCCESS);
        if (!g_only_records) std::this_thread::yield();
      }
    });
    while (rounds_ < 3) std::this_thread::yield();
  }
  ~Busy() { stop(); }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;

  void stop() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

 private:
  std::atomic<bool> stop_{false};
  std::atomic<int> rounds_{0};
  std::vector<std::thread> threads_;
};

int exit_code_of(pid_t child) {
  int status = 0;
  EXPECT(waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

// What a child does that has not been told of CUDA: looks around, and starts more of its kind.
[[noreturn]] void live_as_child() {
  alarm(30);
  (void)dlsym(driver(), "cuMemAlloc_v2");
  (void)dlsym(driver(), "cuMemFree_v9");
  (void)getenv("PYTORCH_CUDA_ALLOC_CONF");
  if (g_only_records) {
    CUdeviceptr at = 0;
    void* found = nullptr;
    std::size_t free = 0;
    std::size_t total = 0;
    unsigned char byte = 0;
    (void)DRIVER(cuGetProcAddress_v2)("cuMemAlloc", &found, 12000, 0, nullptr);
    (void)DRIVER(cuMemAlloc_v2)(&at, kBlock);
    (void)DRIVER(cuMemGetInfo_v2)(&free, &total);
    (void)DRIVER(cuMemcpyDtoH_v2)(&byte, at, 1);
    (void)DRIVER(cuMemsetD8Async)(at, 1, 1, nullptr);
    (void)DRIVER(cuMemFree_v2)(at);
  }
  const pid_t grandchild = fork();
  if (grandchild == 0) _exit(std::vector<char>(100000, 'x').size() == 100000 ? 6 : 8);
  _exit(exit_code_of(grandchild) == 6 ? 7 : 9);
}

void fork_while_busy() {
  start();
  Busy busy;
  for (int i = 0; i < 30; ++i) {
    const pid_t child = fork();
    if (child == 0) live_as_child();
    EXPECT(exit_code_of(child) == 7);
  }
}

void spawn_while_busy() {
  start();
  Busy busy;
  char* const words[] = {const_cast<char*>("/bin/sh"), const_cast<char*>("-c"), const_cast<char*>("exit 3"),
                         nullptr};
  for (int i = 0; i < 10; ++i) {
    pid_t child = 0;
    EXPECT(posix_spawn(&child, words[0], nullptr, nullptr, words, environ) == 0);
    EXPECT(exit_code_of(child) == 3);
    child = vfork();  // NOLINT(clang-analyzer-security.insecureAPI.vfork): programs do
    if (child == 0) {
      execv(words[0], words);
      _exit(99);
    }
    EXPECT(exit_code_of(child) == 3);
    EXPECT(WEXITSTATUS(std::system("exit 4")) == 4);
    std::FILE* const pipe = popen("echo text", "r");
    char line[16] = "";
    EXPECT(pipe != nullptr && std::fgets(line, sizeof line, pipe) != nullptr);
    EXPECT(std::string_view(line) == "text\n" && pclose(pipe) == 0);
  }
}

// A process that goes on as another program is managed there as well.
void exec(const char* self) {
  start();
  const Work work(1);
  work.round();
  execl(self, self, "total", "33554432", nullptr);
  EXPECT(false);
}

// Children that use the device themselves are managed like any process.
void spawn_users(const char* self) {
  start();
  const Work work(1);
  for (int i = 0; i < 3; ++i) {
    char* const words[] = {const_cast<char*>(self), const_cast<char*>("total"), const_cast<char*>("33554432"),
                           nullptr};
    pid_t child = 0;
    EXPECT(posix_spawn(&child, self, nullptr, nullptr, words, environ) == 0);
    EXPECT(exit_code_of(child) == 0);
  }
  work.round();
}

void total(const char* wanted) {
  start();
  const Work work(1);
  std::size_t free = 0;
  std::size_t total = 0;
  EXPECT(DRIVER(cuMemGetInfo_v2)(&free, &total) == CUDA_SUCCESS &&
         total == std::strtoull(wanted, nullptr, 10));
  work.round();
}

// More threads than there are epoch slots, one after the other and in batches; some end by pthread_exit.
void threads_come_and_go() {
  const CUcontext context = start();
  const Work work(1);
  for (int batch = 0; batch < 1200; ++batch) {
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        EXPECT(DRIVER(cuCtxSetCurrent)(context) == CUDA_SUCCESS);
        CUdeviceptr at = 0;
        EXPECT(DRIVER(cuMemAlloc_v2)(&at, 1000) == CUDA_SUCCESS);
        EXPECT(DRIVER(cuMemsetD8Async)(at, 1, 1000, nullptr) == CUDA_SUCCESS);
        EXPECT(DRIVER(cuMemFree_v2)(at) == CUDA_SUCCESS);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  work.round();
  for (int i = 0; i < 20; ++i) {
    pthread_t thread{};
    EXPECT(pthread_create(
               &thread, nullptr,
               [](void*) -> void* {
                 start();
                 unsigned char byte = 0;
                 CUdeviceptr at = 0;
                 EXPECT(DRIVER(cuMemAlloc_v2)(&at, kBlock) == CUDA_SUCCESS);
                 EXPECT(DRIVER(cuMemcpyDtoH_v2)(&byte, at, 1) == CUDA_SUCCESS);
                 pthread_exit(nullptr);
               },
               nullptr) == 0);
    EXPECT(pthread_join(thread, nullptr) == 0);
  }
  work.round();
}

// A thread that is cancelled while the driver waits, in a copy or in a launch, ends; and what it touched can
// move.
void cancelled(std::string_view entry) {
  g_only_records = true;
  start();
  const Work work(1);
  const bool is_launch = entry == "cuLaunchKernel";
  static std::atomic<int> inside;
  inside = 0;
  static CUdeviceptr block;
  EXPECT(DRIVER(cuMemAlloc_v2)(&block, kBlock) == CUDA_SUCCESS);
  const auto body = +[](void* launches) -> void* {
    start();
    inside = 1;
    if (launches != nullptr) {
      void* parameters[] = {&block, &block, &block, &block, &block, &block, &block, &block};
      (void)DRIVER(cuLaunchKernel)(reinterpret_cast<CUfunction>(&block), 1, 1, 1, 1, 1, 1, 0, nullptr,
                                   parameters, nullptr);
    } else {
      unsigned char byte = 0;
      (void)DRIVER(cuMemcpyDtoH_v2)(&byte, block, 1);
    }
    inside = 2;
    for (;;) pause();
  };
  pthread_t thread{};
  int any = 0;
  EXPECT(pthread_create(&thread, nullptr, body, is_launch ? &any : nullptr) == 0);
  while (inside == 0) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT(inside == 1 && pthread_cancel(thread) == 0);
  void* result = nullptr;
  EXPECT(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
  work.round();
  EXPECT(DRIVER(cuMemFree_v2)(block) == CUDA_SUCCESS);
}

// A guest has no threads, signal handlers or names in the file system of its own.
void guest() {
  std::vector<struct sigaction> before(SIGRTMAX + 1);
  for (int i = 1; i <= SIGRTMAX; ++i) (void)sigaction(i, nullptr, &before[static_cast<std::size_t>(i)]);
  const auto entries = [](const char* folder) {
    return std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator());
  };
  const auto shared = entries("/dev/shm");
  start();
  const Work work(1);
  for (int i = 0; i < 100; ++i) work.round();
  EXPECT(entries("/proc/self/task") == 1);
  EXPECT(entries("/dev/shm") == shared);
  for (int i = 1; i <= SIGRTMAX; ++i) {
    struct sigaction now {};
    (void)sigaction(i, nullptr, &now);
    EXPECT(now.sa_handler == before[static_cast<std::size_t>(i)].sa_handler);
  }
  work.free();
}

// Many processes at once wait for nothing but the machine.
void crowd(const char* self) {
  std::vector<pid_t> children(100);
  char* const words[] = {const_cast<char*>(self), const_cast<char*>("guest"), const_cast<char*>("recorded"),
                         nullptr};
  for (pid_t& child : children) EXPECT(posix_spawn(&child, self, nullptr, nullptr, words, environ) == 0);
  for (const pid_t child : children) EXPECT(exit_code_of(child) == 0);
}

// The library opened and closed by hand, in a process that was started without it: it is not in front of
// anything, and nothing of the process changes. Its own functions work for who asks for them.
void by_hand(const char* path) {
  for (const int scope : {RTLD_LOCAL, RTLD_GLOBAL, RTLD_LOCAL}) {
    void* const library = dlopen(path, RTLD_NOW | scope);
    if (library == nullptr) std::fprintf(stderr, "%s\n", dlerror());
    EXPECT(library != nullptr);
    EXPECT(dlclose(library) == 0);
  }
  const pid_t child = fork();
  if (child == 0) _exit(getenv("PYTORCH_CUDA_ALLOC_CONF") == nullptr ? 7 : 8);
  EXPECT(exit_code_of(child) == 7);
  start();
  EXPECT(is_drivers(dlsym(driver(), "cuMemAlloc_v2")));
  std::size_t free = 0;
  std::size_t total = 0;
  EXPECT(DRIVER(cuMemGetInfo_v2)(&free, &total) == CUDA_SUCCESS && total > 1024 * kMiB);
  const Work work(1);
  work.round();
  void* const library = dlopen(path, RTLD_NOW);
  const auto info = reinterpret_cast<decltype(&cuMemGetInfo_v2)>(dlsym(library, "cuMemGetInfo_v2"));
  const auto alloc = reinterpret_cast<decltype(&cuMemAlloc_v2)>(dlsym(library, "cuMemAlloc_v2"));
  const auto release = reinterpret_cast<decltype(&cuMemFree_v2)>(dlsym(library, "cuMemFree_v2"));
  EXPECT(is_hook(reinterpret_cast<const void*>(info)) && dlclose(library) == 0);
  EXPECT(info(&free, &total) == CUDA_SUCCESS && total == 32 * kMiB);
  CUdeviceptr at = 0;
  EXPECT(alloc(&at, kBlock) == CUDA_SUCCESS && release(at) == CUDA_SUCCESS);
  work.round();
}

// Ends with memory of its own, with work that is not finished, and with other threads in hooks.
[[noreturn]] void end(std::string_view how) {
  start();
  auto* const busy = new Busy;  // never stopped
  std::printf("text without end of line");
  if (how == "exit") std::exit(5);
  if (how == "_exit") _exit(5);
  if (how == "quick_exit") std::quick_exit(5);
  if (how == "abort") std::abort();
  if (how == "SIGTERM") raise(SIGTERM);
  if (how == "SIGKILL") raise(SIGKILL);
  if (how == "SIGSEGV") raise(SIGSEGV);
  if (how == "exit_in_thread") std::thread([] { std::exit(5); }).join();
  if (how == "pthread_exit") {
    std::thread([busy] {
      delete busy;
      std::exit(5);
    }).detach();
    pthread_exit(nullptr);
  }
  _exit(98);
}

}  // namespace
}  // namespace tidepool::test

int main(int argc, char** argv) {
  using namespace tidepool::test;  // this file is the program
  const std::string_view which = argc > 1 ? argv[1] : "";
  const char* const argument = argc > 2 ? argv[2] : "";
  g_only_records = std::string_view(argument) == "recorded";
  if (which == "fork_while_busy")
    fork_while_busy();
  else if (which == "thread_forks")
    thread_forks(g_only_records);
  else if (which == "spawn_while_busy")
    spawn_while_busy();
  else if (which == "exec")
    exec(argv[0]);
  else if (which == "spawn_users")
    spawn_users(argv[0]);
  else if (which == "total")
    total(argument);
  else if (which == "threads_come_and_go")
    threads_come_and_go();
  else if (which == "cancelled")
    cancelled(argument);
  else if (which == "guest")
    guest();
  else if (which == "crowd")
    crowd(argv[0]);
  else if (which == "by_hand")
    by_hand(argument);
  else if (which == "end")
    end(argument);
  else
    return 2;
  std::puts("as expected");
  return 0;
}
