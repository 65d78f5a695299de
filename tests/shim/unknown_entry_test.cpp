// The stand-in for a driver entry of an unknown version: all arguments arrive, and nothing managed is missing
// when it is called.

#include "shim/unknown_entry.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <deque>
#include <initializer_list>
#include <thread>

#include "allocator/support/message.h"
#include "allocator/support/stats_page.h"
#include "shim/managed.h"
#include "shim/process.h"
#include "tests/unit/runtime_fixture.h"

namespace tidepool::shim {

constinit detail::ManagedTable detail::g_managed;

/// Makes these runtimes the managed devices.
void manage_in_test(std::initializer_list<runtime::Runtime*> runtimes) {
  static std::deque<ManagedDevice> kept;
  unsigned slot = 0;
  for (runtime::Runtime* runtime : runtimes) {
    kept.push_back({runtime, nullptr, nullptr, true, static_cast<CUdevice>(slot), slot});
    detail::g_managed.slots[slot++].store(&kept.back());
  }
  detail::g_managed.end.store(slot);
}

std::atomic<Mode> g_mode{Mode::kActive};
thread_local int t_depth __attribute__((tls_model("initial-exec"))) = 0;

namespace {

struct Seen {
  long integers[8];
  double numbers[8];
};
Seen g_seen;

extern "C" long tp_test_entry(long a, long b, long c, long d, long e, long f, double p, double q, double r,
                              double s, double t, double u, double v, double w, long on_stack_1,
                              long on_stack_2) {
  g_seen = {{a, b, c, d, e, f, on_stack_1, on_stack_2}, {p, q, r, s, t, u, v, w}};
  return 4711;
}
extern "C" long tp_test_other_entry() {
  return 42;
}

}  // namespace

TEST_CASE("unknown entry: every argument arrives and the answer comes back") {
  manage_in_test({});
  auto* entry = reinterpret_cast<decltype(&tp_test_entry)>(
      guard_unknown("cuMemAlloc", reinterpret_cast<void*>(&tp_test_entry)));
  REQUIRE(entry != &tp_test_entry);
  CHECK(entry(1, 2, 3, 4, 5, 6, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5, 7, 8) == 4711);
  for (int i = 0; i < 8; ++i) {
    CHECK(g_seen.integers[i] == i + 1);
    CHECK(g_seen.numbers[i] == i + 1.5);
  }
}

TEST_CASE("unknown entry: one function has one stand-in, different functions different ones") {
  void* first = guard_unknown("cuMemAlloc", reinterpret_cast<void*>(&tp_test_entry));
  void* again = guard_unknown("cuMemAlloc", reinterpret_cast<void*>(&tp_test_entry));
  void* other = guard_unknown("cuMemFree", reinterpret_cast<void*>(&tp_test_other_entry));
  CHECK(first == again);
  CHECK(first != other);
  CHECK(reinterpret_cast<long (*)()>(other)() == 42);
}

TEST_CASE("unknown entry: before the first call everything managed comes home and stays") {
  runtime::Program program({.budget = "24MiB"});
  std::vector<runtime::DevicePtr> blocks(5);
  for (auto& block : blocks) block = program.allocate(MiB(4));
  for (const auto block : blocks) REQUIRE(program.touch({block}, 0).ok());
  manage_in_test({&program.runtime()});
  auto* entry =
      reinterpret_cast<long (*)()>(guard_unknown("cuMemFree", reinterpret_cast<void*>(&tp_test_other_entry)));
  CHECK_FALSE(program.runtime().frozen());
  CHECK(entry() == 42);
  CHECK(program.runtime().frozen());
  program.synchronize();
  program.check();
  manage_in_test({});
}

TEST_CASE("unknown entry: where not everything fits the call is refused, as its message says") {
  runtime::Program program({.budget = "16MiB"});
  std::vector<runtime::DevicePtr> blocks(8);
  for (auto& block : blocks) block = program.allocate(MiB(4));
  for (const auto block : blocks) REQUIRE(program.touch({block}, 0).ok());
  manage_in_test({&program.runtime()});
  const auto said = times_reported(Msg::TP2102);
  const auto counted = StatsPage::instance().get(Metric::out_of_memory_total);
  auto* entry =
      reinterpret_cast<int (*)()>(guard_unknown("cuMemFree", reinterpret_cast<void*>(&tp_test_other_entry)));
  CHECK(entry() == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(times_reported(Msg::TP2102) == said + 1);
  CHECK(StatsPage::instance().get(Metric::out_of_memory_total) == counted + 1);
  CHECK_FALSE(program.runtime().frozen());
  program.synchronize();
  program.check();
  manage_in_test({});
}

// A thread that is not in the child may hold any of the parent's locks at the fork.
TEST_CASE("unknown entry: in a forked child the call goes straight through") {
  runtime::Program program({});
  REQUIRE(program.touch({program.allocate(MiB(4))}, 0).ok());
  (void)program.allocate(MiB(4));  // has to be brought in, by the slow path, before anything can go on
  manage_in_test({&program.runtime()});
  auto* entry =
      reinterpret_cast<long (*)()>(guard_unknown("cuMemFree", reinterpret_cast<void*>(&tp_test_other_entry)));
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    while (!stop) (void)program.runtime().check();  // is in the slow path most of the time
  });
  int passed = 0;
  for (int i = 0; i < 20; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      g_mode = Mode::kPassthrough;  // what the library's own fork handler does
      ::alarm(10);
      ::_exit(entry() == 42 && !program.runtime().frozen() ? 0 : 1);
    }
    int status = -1;
    REQUIRE(::waitpid(child, &status, 0) == child);
    if (status == 0) ++passed;
  }
  stop = true;
  busy.join();
  CHECK(passed == 20);
  CHECK_FALSE(program.runtime().frozen());
  manage_in_test({});
}

// The last one: it takes all stand-ins of the process.
TEST_CASE("unknown entry: without a stand-in left, calls are refused and nothing is let through") {
  void* known = guard_unknown("cuMemFree", reinterpret_cast<void*>(&tp_test_other_entry));
  static unsigned char functions[300];
  for (unsigned char& function : functions) (void)guard_unknown("cuMemAlloc", &function);
  auto* refused =
      reinterpret_cast<int (*)(int, int)>(guard_unknown("cuMemAlloc", functions + sizeof functions - 1));
  CHECK(refused(1, 2) == CUDA_ERROR_NOT_SUPPORTED);
  CHECK(guard_unknown("cuMemFree", reinterpret_cast<void*>(&tp_test_other_entry)) == known);
}

// pytorch#75147: a lock that another thread held when its process forked is held for ever in the child.
TEST_CASE("unknown entry: a child that is forked while others take stand-ins can take one") {
  pthread_atfork(&lock_unknown_for_fork, &unlock_unknown_after_fork, &unlock_unknown_after_fork);
  std::atomic<bool> stop{false};
  std::thread other([&] {
    while (!stop) (void)guard_unknown("cuMemAlloc", reinterpret_cast<void*>(&tp_test_entry));
  });
  for (int i = 0; i < 200; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(5);
      _exit(guard_unknown("cuMemAlloc", reinterpret_cast<void*>(&tp_test_entry)) != nullptr ? 7 : 8);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    REQUIRE((WIFEXITED(status) && WEXITSTATUS(status) == 7));
  }
  stop = true;
  other.join();
}

}  // namespace tidepool::shim
