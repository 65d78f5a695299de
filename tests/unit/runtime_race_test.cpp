// Many threads on one small device: launches, frees, and the evictions that they force on each other.

#include <atomic>
#include <catch2/catch.hpp>
#include <latch>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "allocator/runtime.h"
#include "allocator/support/options.h"
#include "allocator/support/stats_page.h"
#include "tests/fakes/fake_device.h"

namespace tidepool::runtime {
namespace {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr std::uint64_t kSeeds = 4;
constexpr int kSearches = 300;  // each fills new memory, which a sanitizer looks at byte by byte
#else
constexpr std::uint64_t kSeeds = 12;
constexpr int kSearches = 2000;
#endif

/// One thread's blocks, in its own stream. Each word's value follows from how often the block was touched, so
/// a kernel that reads anything else saw lost, stale or another thread's bytes.
class Worker {
 public:
  Worker(fakes::FakeDevice& device, Runtime& runtime, std::uint64_t seed, std::atomic<int>& wrong)
      : device_(device),
        runtime_(runtime),
        random_(seed),
        wrong_(wrong),
        stream_(device.create_program_stream(false)) {}

  void run(int steps) {
    for (int step = 0; step < steps; ++step) {
      const std::uint64_t action = random_() % 12;
      if (blocks_.size() < 3) {
        allocate();
      } else if (action == 0) {
        free(random_() % blocks_.size());
      } else {
        touch(random_() % blocks_.size(), random_() % blocks_.size());
      }
      if (action == 1) device_.run_some(3);
      std::this_thread::yield();
    }
    while (!blocks_.empty()) free(0);
  }

 private:
  struct Owned {
    DevicePtr at;
    std::uint64_t stamp;
  };

  void allocate() {
    const auto at = runtime_.allocate(MiB(2));
    if (!at.ok()) {
      ++wrong_;
      return;
    }
    blocks_.push_back({*at, 0});
  }

  void free(std::size_t i) {
    if (!runtime_.free(blocks_[i].at).ok()) ++wrong_;
    blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(i));
  }

  void touch(std::size_t i, std::size_t j) {
    Owned& a = blocks_[i];
    Owned& b = blocks_[j];
    const BlockId set[] = {runtime_.find(a.at.address()), runtime_.find(b.at.address())};
    const std::size_t count = i == j ? 1 : 2;
    const auto enqueue = [&] {
      return device_
          .submit(stream_, "kernel",
                  [this, pa = a, pb = b, count](fakes::FakeDevice::Access& access) {
                    step(access, pa);
                    if (count == 2) step(access, pb);
                  })
          .code();
    };
    if (runtime_.launch({set, count}, stream_, "test kernel", enqueue) != 0) {
      ++wrong_;
      return;
    }
    ++a.stamp;
    if (count == 2) ++b.stamp;
  }

  void step(fakes::FakeDevice::Access& access, const Owned& block) {
    std::uint64_t seen = 0;
    access.read(block.at + KiB(1024), &seen, Bytes(8));
    if (block.stamp != 0 && seen != (block.stamp ^ block.at.address())) ++wrong_;
    const std::uint64_t next = (block.stamp + 1) ^ block.at.address();
    access.write(block.at + KiB(1024), &next, Bytes(8));
  }

  fakes::FakeDevice& device_;
  Runtime& runtime_;
  std::mt19937_64 random_;
  std::atomic<int>& wrong_;
  const StreamHandle stream_;
  std::vector<Owned> blocks_;
};

/// Returns how many bytes the threads pushed out of each other's way.
Bytes run_threads(std::uint64_t seed, int threads, int steps, const char* budget, Bytes limit,
                  const char* check = "full") {
  fakes::FakeDevice device({MiB(256), MiB(2), seed});
  Options options = default_options();
  REQUIRE(set_option(options, *find_option("TIDEPOOL_DEVICE_BUDGET"), budget).ok());
  REQUIRE(set_option(options, *find_option("TIDEPOOL_CHECK"), check).ok());
  const auto created = Runtime::create(device, options, GiB(4));
  REQUIRE(created.ok());
  const std::unique_ptr<Runtime> runtime(*created);
  std::atomic<int> wrong{0};
  std::vector<std::thread> running;
  std::latch start(threads);
  for (int i = 0; i < threads; ++i) {
    running.emplace_back([&, i] {
      start.arrive_and_wait();
      Worker(device, *runtime, seed * 100 + static_cast<std::uint64_t>(i), wrong).run(steps);
    });
  }
  for (std::thread& thread : running) thread.join();
  device.run_all();
  INFO("seed " << seed);
  const char* broken = runtime->check();
  INFO((broken != nullptr ? broken : ""));
  CHECK(broken == nullptr);
  CHECK(wrong == 0);
  CHECK(device.errors().empty());
  CHECK(device.peak() <= limit);
  CHECK(runtime->allocated() == Bytes());
  return device.copied_to_host();
}

/// Threads whose budget is changed from outside all the time. Nothing may be refused or lost, and in the end
/// the last budget is kept. Returns how many of the budgets were taken.
int run_under_changes(std::uint64_t seed, int threads, int steps) {
  fakes::FakeDevice device({MiB(256), MiB(2), seed});
  Options options = default_options();
  REQUIRE(set_option(options, *find_option("TIDEPOOL_DEVICE_BUDGET"), "32MiB").ok());
  REQUIRE(set_option(options, *find_option("TIDEPOOL_CHECK"), "full").ok());
  BudgetControl& control = StatsPage::instance().budget_control();
  control.asked.store(0);
  const auto created = Runtime::create(device, options, GiB(4));
  REQUIRE(created.ok());
  const std::unique_ptr<Runtime> runtime(*created);
  std::atomic<int> wrong{0};
  std::atomic<int> left{threads};
  std::vector<std::thread> running;
  std::latch start(threads + 1);
  for (int i = 0; i < threads; ++i) {
    running.emplace_back([&, i] {
      start.arrive_and_wait();
      Worker(device, *runtime, seed * 100 + static_cast<std::uint64_t>(i), wrong).run(steps);
      --left;
    });
  }
  int taken = 0;
  start.arrive_and_wait();
  for (std::mt19937_64 random(seed); left > 0;) {
    const BudgetRequest request = control.ask(Amount::bytes(MiB(16 + random() % 32)));
    for (int nap = 0; nap < 100 && left > 0; ++nap) std::this_thread::yield();
    if (control.answers[0].taken.load() == request.raw()) ++taken;
  }
  for (std::thread& thread : running) thread.join();
  control.ask(Amount::bytes(MiB(16)));
  runtime->obey();
  device.run_all();
  runtime->obey();
  INFO("seed " << seed);
  const char* broken = runtime->check();
  INFO((broken != nullptr ? broken : ""));
  CHECK(broken == nullptr);
  CHECK(wrong == 0);
  CHECK(device.errors().empty());
  CHECK(device.peak() <= MiB(48));
  CHECK(runtime->keep_limit());
  CHECK(device.in_use() <= MiB(16));
  control.asked.store(0);
  return taken;
}

/// Threads that each take most of the device for one launch, and free it at once. Returns how many launches
/// or calls were refused.
int refusals(std::uint64_t seed, int threads, int steps) {
  fakes::FakeDevice device({MiB(256), MiB(2), seed});
  Options options = default_options();
  REQUIRE(set_option(options, *find_option("TIDEPOOL_DEVICE_BUDGET"), "16MiB").ok());
  const auto created = Runtime::create(device, options, GiB(4));
  REQUIRE(created.ok());
  const std::unique_ptr<Runtime> runtime(*created);
  std::atomic<int> refused{0};
  std::vector<std::thread> running;
  std::latch start(threads);
  for (int i = 0; i < threads; ++i) {
    running.emplace_back([&, i] {
      const StreamHandle stream = device.create_program_stream(false);
      start.arrive_and_wait();
      for (int step = 0; step < steps; ++step) {
        // Sizes that differ too much for a freed block to serve the next allocation.
        const auto at = runtime->allocate(MiB((step + i) % 2 == 0 ? 10 : 14));
        if (!at.ok()) {
          ++refused;
          continue;
        }
        const BlockId set[] = {runtime->find(at->address())};
        const int code = runtime->launch(set, stream, "test kernel", [&] {
          return device.submit(stream, "kernel", [](fakes::FakeDevice::Access&) {}).code();
        });
        if (code != 0) ++refused;
        if (!runtime->free(*at).ok()) ++refused;
      }
    });
  }
  for (std::thread& thread : running) thread.join();
  device.run_all();
  CHECK(runtime->check() == nullptr);
  return refused;
}

}  // namespace

TEST_CASE("race: memory that another thread frees during the search for some is found") {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    INFO("seed " << seed);
    CHECK(refusals(seed, 3, kSearches) == 0);
  }
}

TEST_CASE("race: threads that evict each other's blocks keep their bytes") {
  Bytes moved;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) moved += run_threads(seed, 4, 1000, "16MiB", MiB(16));
  CHECK(moved > MiB(8) * kSeeds);
}

TEST_CASE("race: threads that take each other's addresses away keep their bytes, and move none that fit") {
  for (std::uint64_t seed = 1; seed <= kSeeds / 2; ++seed) {
    CHECK(run_threads(seed, 4, 200, "120MiB", MiB(120), "unmap") == Bytes());
    CHECK(run_threads(seed, 4, 200, "16MiB", MiB(16), "unmap") > Bytes());
  }
}

TEST_CASE("race: a budget that changes all the time costs nobody a byte or a launch") {
  int taken = 0;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) taken += run_under_changes(seed, 4, 500);
  CHECK(taken > 0);
}

TEST_CASE("race: threads whose blocks all fit share the fast path") {
  CHECK(run_threads(1, 3, 300, "120MiB", MiB(120)) == Bytes());
}

}  // namespace tidepool::runtime
