// What happens when a thread ends that has launched: its slot is given back, and hooks are called.

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <future>
#include <memory>
#include <thread>

#include "allocator/epoch.h"

namespace tidepool::runtime {
namespace {

constexpr auto kSoon = std::chrono::seconds(5);

/// A hook that counts its calls, and waits in the first of them until it is let go.
class Waiting {
 public:
  Waiting() { REQUIRE(EpochRegistry::instance().add_exit_hook(&called, this)); }
  ~Waiting() { EpochRegistry::instance().remove_exit_hook(this); }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

  std::promise<void> is_inside;
  std::promise<void> may_go;
  std::atomic<int> calls{0};

 private:
  static void called(void* self) {
    auto& waiting = *static_cast<Waiting*>(self);
    if (waiting.calls.fetch_add(1) != 0) return;
    waiting.is_inside.set_value();
    waiting.may_go.get_future().wait();
  }
};

/// A thread that has had a slot, from beginning to end.
void end_with_slot() {
  std::thread([] { REQUIRE(EpochRegistry::instance().mine() != nullptr); }).join();
}

}  // namespace

TEST_CASE("thread end: one that waits in its hook keeps no other from ending") {
  Waiting waiting;
  std::thread first([] { (void)EpochRegistry::instance().mine(); });
  waiting.is_inside.get_future().wait();
  auto second = std::async(std::launch::async, end_with_slot);
  const bool has_ended = second.wait_for(kSoon) == std::future_status::ready;
  waiting.may_go.set_value();
  first.join();
  second.wait();
  CHECK(has_ended);
  CHECK(waiting.calls >= 2);
}

TEST_CASE("thread end: each hook is called, until it is taken away") {
  Waiting one;
  one.may_go.set_value();
  {
    Waiting other;
    other.may_go.set_value();
    end_with_slot();
    CHECK(one.calls == 1);
    CHECK(other.calls == 1);
  }
  end_with_slot();
  CHECK(one.calls == 2);
}

TEST_CASE("thread end: a hook is not taken away while a thread is in it") {
  auto waiting = std::make_unique<Waiting>();
  std::promise<void>& may_go = waiting->may_go;
  std::thread first([] { (void)EpochRegistry::instance().mine(); });
  waiting->is_inside.get_future().wait();
  auto removed = std::async(std::launch::async, [&] { waiting.reset(); });
  constexpr auto kLongEnough = std::chrono::milliseconds(100);
  CHECK(removed.wait_for(kLongEnough) == std::future_status::timeout);
  may_go.set_value();
  first.join();
  removed.get();
}

TEST_CASE("thread end: a forked child has none of its parent's hooks", "[plain]") {
  static std::atomic<bool> is_child;
  const auto hook = +[](void*) {
    if (is_child) ::_exit(9);
  };
  int context = 0;
  REQUIRE(EpochRegistry::instance().add_exit_hook(hook, &context));
  int status = 0;
  std::thread([&] {
    (void)EpochRegistry::instance().mine();
    const pid_t child = ::fork();
    if (child == 0) {
      is_child = true;
      EpochRegistry::instance().reset_after_fork();
      pthread_key_t last{};  // destructors run in the order of keys: this one's after the registry's
      if (::pthread_key_create(&last, [](void*) { ::_exit(7); }) != 0) ::_exit(8);
      ::pthread_setspecific(last, &last);
      ::pthread_exit(nullptr);
    }
    ::waitpid(child, &status, 0);
  }).join();
  EpochRegistry::instance().remove_exit_hook(&context);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 7);
}

}  // namespace tidepool::runtime
