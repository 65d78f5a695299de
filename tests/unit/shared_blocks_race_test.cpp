// Threads that use the same blocks at once, with an order between them and without, on a device that is too
// small: one takes back what another is sending away, frees what a third has used, and meets copies that a
// hash has saved.

#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <latch>
#include <memory>
#include <mutex>
#include <random>
#include <shared_mutex>
#include <thread>
#include <vector>

#include "allocator/runtime.h"
#include "allocator/support/message.h"
#include "allocator/support/options.h"
#include "allocator/support/stats_page.h"
#include "tests/fakes/fake_device.h"

namespace tidepool::runtime {
namespace {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr std::uint64_t kSeeds = 3;
constexpr int kSteps = 100;  // copies and hashes are looked at byte by byte
#else
constexpr std::uint64_t kSeeds = 4;
constexpr int kSteps = 200;
#endif

constexpr std::size_t kThreads = 4;
constexpr std::size_t kBlocks = 12;
constexpr Bytes kSize = MiB(2);
constexpr const char* kBudget = "16MiB";
constexpr Bytes kLimit = MiB(16);

/// A block that all threads use. Each has a word of it to itself, and does not wait for the others; one more
/// belongs to whoever holds `common`, in an order that the streams are told.
struct Shared {
  std::shared_mutex life;  ///< held shared while work on the block is enqueued, else to free it
  DevicePtr at;
  std::array<std::uint64_t, kThreads + 1> stamps{};  ///< how often each word was written; 0: never
  std::mutex common;                                 ///< the last word, its stamp and `last_user`
  std::size_t last_user = 0;
};

/// The device, its runtime, and what the threads share.
struct World {
  fakes::FakeDevice device;
  std::unique_ptr<Runtime> runtime;
  std::array<StreamHandle, kThreads> streams{};
  std::array<Shared, kBlocks> blocks;
  std::atomic<int> wrong{0};
  std::atomic<int> leaving_met{0};

  explicit World(std::uint64_t seed, const char* check) : device({MiB(256), MiB(2), seed}) {
    Options options = default_options();
    REQUIRE(set_option(options, *find_option("TIDEPOOL_DEVICE_BUDGET"), kBudget).ok());
    REQUIRE(set_option(options, *find_option("TIDEPOOL_CHECK"), check).ok());
    const auto created = Runtime::create(device, options, GiB(4));
    REQUIRE(created.ok());
    runtime.reset(*created);
    REQUIRE(runtime->allocate(KiB(4)).ok());  // hashes find their memory beside it
    for (StreamHandle& stream : streams) stream = device.create_program_stream(false);
    for (Shared& block : blocks) {
      const auto at = runtime->allocate(kSize);
      REQUIRE(at.ok());
      block.at = *at;
    }
  }
};

class Worker {
 public:
  Worker(World& world, std::size_t number, std::uint64_t seed)
      : world_(world), device_(world.device), number_(number), random_(seed) {}

  void run(int steps) {
    for (int step = 0; step < steps; ++step) {
      const std::uint64_t action = random_() % 64;
      Shared& block = world_.blocks[random_() % kBlocks];
      if (action == 0) {
        renew(block);
      } else if (action < 12) {
        use_common(block);
      } else {
        use_own(block, world_.blocks[random_() % kBlocks], action % 3 == 0);
      }
      if (action % 8 == 1) device_.run_some(6);
      std::this_thread::yield();
    }
  }

 private:
  struct Word {
    DevicePtr at;
    std::uint64_t now;   ///< stamps
    std::uint64_t next;  ///< the same: it is only read
  };

  /// What a word holds comes back after every second write, and with it the hash of the block.
  static std::uint64_t value_of(const Word& word, std::uint64_t stamp) {
    return word.at.address() ^ (stamp % 2);
  }
  static DevicePtr word_of(const Shared& block, std::size_t word) { return block.at + KiB(256) * word; }

  void step(fakes::FakeDevice::Access& access, const Word& word) {
    std::uint64_t seen = 0;
    access.read(word.at, &seen, Bytes(8));
    if (word.now != 0 && seen != value_of(word, word.now)) ++world_.wrong;
    if (word.next == word.now) return;
    const std::uint64_t next = value_of(word, word.next);
    access.write(word.at, &next, Bytes(8));
  }

  /// The blocks are held by the caller, so that nobody frees them before the work is enqueued.
  bool launch(std::span<const BlockId> set, std::vector<Word> words) {
    for (const BlockId id : set) {
      if (world_.runtime->arena().block(id).load().state() == BlockState::kOutgoing) ++world_.leaving_met;
    }
    const StreamHandle stream = world_.streams[number_];
    const bool is_slow = random_() % 8 == 0;
    const int code = world_.runtime->launch(set, stream, "test kernel", [&] {
      if (is_slow) std::this_thread::yield();  // with the blocks checked and no ticket stored
      return device_
          .submit(stream, "kernel",
                  [this, words = std::move(words)](fakes::FakeDevice::Access& access) {
                    for (const Word& word : words) step(access, word);
                  })
          .code();
    });
    if (code != 0) ++world_.wrong;
    return code == 0;
  }

  BlockId id_of(const Shared& block) { return world_.runtime->find(block.at.address()); }

  /// The thread's own words of two blocks: nothing orders this after what others do there. Two writes leave
  /// the blocks as they were, and whatever was copied in between never was all of a block.
  void use_own(Shared& a, Shared& b, bool writes) {
    const std::shared_lock first(a.life);
    std::shared_lock<std::shared_mutex> second;
    if (&a != &b) {
      second = std::shared_lock(b.life, std::try_to_lock);
      if (!second.owns_lock()) return;
    }
    std::vector<BlockId> set{id_of(a)};
    if (&a != &b) set.push_back(id_of(b));
    for (int times = writes ? 2 : 1; times > 0; --times) {
      std::vector<Word> words{next_word(a, number_, writes)};
      if (&a != &b) words.push_back(next_word(b, number_, writes));
      if (!launch(set, words) || !writes) return;
      ++a.stamps[number_];
      if (&a != &b) ++b.stamps[number_];
      device_.run_some(random_() % 4);
    }
  }

  Word next_word(const Shared& block, std::size_t word, bool writes) const {
    const std::uint64_t now = block.stamps[word];
    return {word_of(block, word), now, writes ? now + 1 : now};
  }

  /// The word that all write, one after the other.
  void use_common(Shared& block) {
    const std::shared_lock alive(block.life);
    const std::lock_guard mine(block.common);
    order(block.last_user, number_);
    const BlockId set[] = {id_of(block)};
    block.last_user = number_;
    if (launch(set, {next_word(block, kThreads, true)})) ++block.stamps[kThreads];
  }

  /// What one stream does from here on comes after what another has been given so far.
  void order(std::size_t before, std::size_t after) {
    if (before == after) return;
    const auto event = device_.create_event();
    const bool is_ordered = event.ok() && device_.record(*event, world_.streams[before]).ok() &&
                            device_.wait(world_.streams[after], *event).ok() &&
                            device_.destroy_event(*event).ok();
    if (!is_ordered) ++world_.wrong;
  }

  /// Frees the block, by cudaFree or in the order of the thread's stream, and allocates another in its place.
  void renew(Shared& block) {
    const std::unique_lock alone(block.life);
    const StreamHandle stream = world_.streams[number_];
    const bool in_order = random_() % 2 == 0;
    if (in_order) {
      for (std::size_t other = 0; other < kThreads; ++other) order(other, number_);
    }
    const Status freed =
        in_order ? world_.runtime->free_in(block.at, stream) : world_.runtime->free(block.at);
    const auto at = in_order ? world_.runtime->allocate_in(kSize, stream) : world_.runtime->allocate(kSize);
    if (!freed.ok() || !at.ok()) {
      ++world_.wrong;
      return;
    }
    if (in_order) {
      for (std::size_t other = 0; other < kThreads; ++other) order(number_, other);
    }
    block.at = *at;
    block.stamps = {};
  }

  World& world_;
  fakes::FakeDevice& device_;
  const std::size_t number_;
  std::mt19937_64 random_;
};

struct Seen {
  std::uint64_t hashes = 0;
  std::uint64_t saved_bytes = 0;
  int leaving_met = 0;
};

void run_world(std::uint64_t seed, const char* check, Seen* seen) {
  INFO("seed " << seed << ", TIDEPOOL_CHECK=" << check);
  const std::uint64_t saved = StatsPage::instance().get(Metric::clean_bytes_total);
  const std::uint64_t differing = times_reported(Msg::TP3004);
  World world(seed, check);
  std::vector<std::thread> running;
  std::latch start(kThreads);
  for (std::size_t i = 0; i < kThreads; ++i) {
    running.emplace_back([&, i] {
      start.arrive_and_wait();
      Worker(world, i, seed * 100 + i).run(kSteps);
    });
  }
  for (std::thread& thread : running) thread.join();
  world.device.run_all();
  const char* broken = world.runtime->check();
  INFO((broken != nullptr ? broken : ""));
  CHECK(broken == nullptr);
  CHECK(world.wrong == 0);
  CHECK(world.device.errors().empty());
  CHECK(world.device.peak() <= kLimit);
  CHECK(times_reported(Msg::TP3004) == differing);
  for (Shared& block : world.blocks) CHECK(world.runtime->free(block.at).ok());
  seen->hashes += world.device.calls("hash_to_host");
  seen->saved_bytes += StatsPage::instance().get(Metric::clean_bytes_total) - saved;
  seen->leaving_met += world.leaving_met;
}

}  // namespace

TEST_CASE("race: blocks that threads share keep their bytes, ordered or not, copied or saved by a hash") {
  Seen seen;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    run_world(seed, seed % 4 == 0 ? "full" : "off", &seen);
  }
  // Else this would not have looked at what it is for.
  CHECK(seen.hashes > 10 * kSeeds);
  CHECK(seen.saved_bytes > kSize.count() * kSeeds);
  CHECK(seen.leaving_met > static_cast<int>(10 * kSeeds));
}

TEST_CASE("race: blocks that threads share keep their bytes where no idle block has an address") {
  Seen seen;
  for (std::uint64_t seed = 1; seed <= kSeeds / 2; ++seed) run_world(seed, "unmap", &seen);
}

}  // namespace tidepool::runtime
