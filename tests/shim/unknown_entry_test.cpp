// The stand-in for a driver entry of an unknown version: all arguments arrive, and nothing managed is missing
// when it is called.

#include "shim/unknown_entry.h"

#include <catch2/catch.hpp>

#include "shim/managed.h"
#include "shim/process.h"
#include "tests/unit/runtime_fixture.h"

namespace tidepool::shim {

runtime::Runtime* g_test_runtime = nullptr;
runtime::Runtime* managed() noexcept {
  return g_test_runtime;
}
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
  g_test_runtime = nullptr;
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
  std::vector<runtime::DevicePtr> blocks;
  for (int i = 0; i < 5; ++i) blocks.push_back(program.allocate(MiB(4)));
  for (const auto block : blocks) REQUIRE(program.touch({block}, 0).ok());
  g_test_runtime = &program.runtime();
  auto* entry =
      reinterpret_cast<long (*)()>(guard_unknown("cuMemFree", reinterpret_cast<void*>(&tp_test_other_entry)));
  CHECK_FALSE(program.runtime().frozen());
  CHECK(entry() == 42);
  CHECK(program.runtime().frozen());
  program.synchronize();
  program.check();
  g_test_runtime = nullptr;
}

}  // namespace tidepool::shim
