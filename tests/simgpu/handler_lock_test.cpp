#include "tools/simgpu/driver/handler_lock.h"

#include <catch2/catch.hpp>
#include <csignal>
#include <mutex>

namespace {

simgpu::HandlerLock g_lock;
int g_calls = 0;
bool g_was_free = false;

void on_signal(int /*signal*/) {
  ++g_calls;
  g_was_free = g_lock.try_with([] {});
}

}  // namespace

TEST_CASE("handler lock: what a lock protects is not looked at while it is held") {
  bool looked = false;
  {
    const std::scoped_lock held(g_lock);
    CHECK_FALSE(g_lock.try_with([&] { looked = true; }));
  }
  CHECK_FALSE(looked);
  CHECK(g_lock.try_with([&] { looked = true; }));
  CHECK(looked);
}

// A handler of the program may leave by siglongjmp and never come back.
TEST_CASE("handler lock: a signal that comes meanwhile finds the lock free, and all signals as they were") {
  struct sigaction ours {};
  ours.sa_handler = on_signal;
  struct sigaction before {};
  REQUIRE(sigaction(SIGUSR1, &ours, &before) == 0);
  int calls_inside = -1;
  CHECK(g_lock.try_with([&] {
    std::raise(SIGUSR1);
    calls_inside = g_calls;
  }));
  CHECK(calls_inside == 0);
  CHECK(g_calls == 1);
  CHECK(g_was_free);
  {
    const std::scoped_lock held(g_lock);
    CHECK_FALSE(g_lock.try_with([] {}));
  }
  std::raise(SIGUSR1);
  CHECK(g_calls == 2);
  sigaction(SIGUSR1, &before, nullptr);
}
