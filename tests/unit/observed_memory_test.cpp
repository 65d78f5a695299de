#include "allocator/observed_memory.h"

#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <thread>

namespace tidepool::runtime {
namespace {

constexpr std::uint64_t kBase = std::uint64_t{0x7f00'0000'0000};

}  // namespace

TEST_CASE("observed memory: an address belongs to the allocation that holds it, to the last piece") {
  ObservedMemory memory;
  const BlockId small = memory.add(kBase, Bytes(1000), 0);
  const BlockId next = memory.add(kBase + 1024, Bytes(256), 0);
  const BlockId large = memory.add(kBase + MiB(1).count(), MiB(5) + Bytes(1), 1);
  CHECK(small != kNoBlock);
  CHECK(memory.find(kBase) == small);
  CHECK(memory.find(kBase + 999) == small);
  CHECK(memory.find(kBase + 1024) == next);
  CHECK(memory.find(kBase + 1279) == next);
  CHECK(memory.find(kBase + 1280) == kNoBlock);
  CHECK(memory.find(kBase + MiB(1).count() - 1) == kNoBlock);
  for (std::uint64_t at = MiB(1).count(); at <= MiB(6).count(); at += KiB(64).count())
    CHECK(memory.find(kBase + at) == large);
  CHECK(memory.find(kBase + MiB(6).count() + 256) == kNoBlock);
  CHECK(memory.held() == Bytes(1256) + MiB(5) + Bytes(1));
  CHECK(memory.remove(kBase + 1).id == kNoBlock);  // not where one starts
  const ObservedMemory::Entry gone = memory.remove(kBase + MiB(1).count());
  CHECK(gone.id == large);
  CHECK(gone.size == MiB(5) + Bytes(1));
  CHECK(gone.device == 1);
  CHECK(memory.find(kBase + MiB(3).count()) == kNoBlock);
  CHECK(memory.find(kBase + 999) == small);
}

TEST_CASE("observed memory: what is not memory has no allocation, at either end of the space") {
  ObservedMemory memory;
  CHECK(memory.add(0, Bytes(256), 0) == kNoBlock);
  CHECK(memory.add(kBase, Bytes(), 0) == kNoBlock);
  CHECK(memory.add(~std::uint64_t{0} - 100, Bytes(50), 0) == kNoBlock);
  CHECK(memory.add(kBase, Bytes(~std::uint64_t{0}), 0) == kNoBlock);
  for (const std::uint64_t address : {std::uint64_t{0}, kBase, ~std::uint64_t{0}})
    CHECK(memory.find(address) == kNoBlock);
  CHECK(memory.held() == Bytes());
}

TEST_CASE("observed memory: an allocation whose end was not seen gives way to the next at its address") {
  ObservedMemory memory;
  (void)memory.add(kBase, MiB(8), 0);
  const BlockId second = memory.add(kBase, MiB(2), 0);
  CHECK(memory.find(kBase + MiB(1).count()) == second);
  CHECK(memory.find(kBase + MiB(3).count()) == kNoBlock);
  CHECK(memory.held() == MiB(2));
}

TEST_CASE("observed memory: a device that is reset takes its allocations with it, and no others") {
  ObservedMemory memory;
  (void)memory.add(kBase, MiB(4), 0);
  (void)memory.add(kBase + MiB(4).count(), KiB(4), 0);
  const BlockId other = memory.add(kBase + MiB(8).count(), MiB(4), 1);
  memory.remove_all(0);
  CHECK(memory.find(kBase) == kNoBlock);
  CHECK(memory.find(kBase + MiB(4).count()) == kNoBlock);
  CHECK(memory.find(kBase + MiB(8).count()) == other);
  CHECK(memory.held() == MiB(4));
}

TEST_CASE("observed memory: random allocations are found as in a map") {
  std::mt19937_64 random(1);
  ObservedMemory memory;
  std::map<std::uint64_t, std::pair<std::uint64_t, BlockId>> model;
  const auto holder = [&](std::uint64_t address) {
    auto at = model.upper_bound(address);
    if (at == model.begin()) return kNoBlock;
    --at;
    const std::uint64_t end = (at->first + at->second.first + 255) / 256 * 256;
    return address < end ? at->second.second : kNoBlock;
  };
  for (int step = 0; step < 20'000; ++step) {
    const std::uint64_t at = kBase + random() % (MiB(64).count() / 256) * 256;
    if (random() % 3 != 0) {
      const auto above = model.lower_bound(at);
      const std::uint64_t room = (above == model.end() ? kBase + MiB(64).count() : above->first) - at;
      if (holder(at) != kNoBlock || room == 0) continue;
      const std::uint64_t size =
          1 + random() % std::min<std::uint64_t>(room, random() % 2 ? 5000 : 9'000'000);
      model[at] = {size, memory.add(at, Bytes(size), 0)};
    } else if (!model.empty()) {
      auto one = model.lower_bound(at);
      if (one == model.end()) one = model.begin();
      CHECK(memory.remove(one->first).id == one->second.second);
      model.erase(one);
    }
    const std::uint64_t asked = kBase + random() % MiB(64).count();
    if (memory.find(asked) != holder(asked)) {
      CHECK(memory.find(asked) == holder(asked));
      return;
    }
  }
}

TEST_CASE("observed memory: threads look up while others allocate and free") {
  ObservedMemory memory;
  const BlockId fixed = memory.add(kBase, KiB(4), 0);
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::thread reader([&] {
    while (!stop.load()) {
      if (memory.find(kBase + 100) != fixed) ++wrong;
    }
  });
  std::vector<std::thread> writers;
  for (std::uint64_t i = 1; i <= 2; ++i) {
    writers.emplace_back([&, i] {
      for (int step = 0; step < 2000; ++step) {
        const std::uint64_t at = kBase + i * KiB(512).count();
        const BlockId id = memory.add(at, KiB(300), 0);
        if (memory.find(at + 1000) != id || memory.remove(at).id != id) ++wrong;
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  stop = true;
  reader.join();
  CHECK(wrong == 0);
  CHECK(memory.held() == KiB(4));
}

}  // namespace tidepool::runtime
