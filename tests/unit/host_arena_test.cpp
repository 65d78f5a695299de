#include "allocator/host_arena.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <fstream>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "tests/fakes/fake_device.h"

namespace tidepool::runtime {
namespace {

constexpr Bytes kGranule = MiB(2);
constexpr Bytes kChunk = MiB(16);

// The flags that the system has for the mapping at the address (man 5 proc, smaps: VmFlags).
std::string flags_of(const std::byte* at) {
  std::ifstream maps("/proc/self/smaps");
  const auto address = reinterpret_cast<std::uintptr_t>(at);
  bool here = false;
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t first = 0;
    std::uintptr_t last = 0;
    char dash = 0;
    std::istringstream range(line);
    if (range >> std::hex >> first >> dash >> last && dash == '-') here = address >= first && address < last;
    if (here && line.starts_with("VmFlags:")) return line + " ";
  }
  return {};
}

TEST_CASE("host arena: memory asks for huge pages, starts at one, and is not for children") {
  fakes::FakeDevice device;
  HostArena arena(device, MiB(64), kGranule, kChunk);
  const auto slot = arena.allocate(MiB(16));
  REQUIRE(slot.ok());
  REQUIRE(slot->size() == 1);
  CHECK(reinterpret_cast<std::uintptr_t>(slot->front().base) % MiB(2).count() == 0);
  const std::string flags = flags_of(slot->front().base);
  INFO(flags);
  CHECK(flags.find(" hg ") != std::string::npos);
  CHECK(flags.find(" dc ") != std::string::npos);
}

TEST_CASE("host arena: a slot is one run where one hole holds it") {
  fakes::FakeDevice device;
  HostArena arena(device, MiB(16), kGranule, kChunk);
  const auto first = arena.allocate(MiB(2));
  const auto second = arena.allocate(MiB(4));
  const auto third = arena.allocate(MiB(2));
  REQUIRE((first.ok() && second.ok() && third.ok()));
  arena.release(*first);
  arena.release(*second);
  // Holes of 6 MiB before the third and of 8 behind it.
  const auto fits = arena.allocate(MiB(8));
  REQUIRE(fits.ok());
  CHECK(fits->size() == 1);
  const auto snug = arena.allocate(MiB(6));
  REQUIRE(snug.ok());
  CHECK(snug->size() == 1);
  CHECK(snug->front().base == first->front().base);
  CHECK_FALSE(arena.allocate(MiB(2)).ok());
}

TEST_CASE("host arena: what is in pieces is used in pieces") {
  fakes::FakeDevice device;
  HostArena arena(device, MiB(16), kGranule, kChunk);
  std::vector<HostSlot> slots;
  for (int i = 0; i < 8; ++i) slots.push_back(*arena.allocate(kGranule));
  for (std::size_t i = 0; i < slots.size(); i += 2) arena.release(slots[i]);
  const auto scattered = arena.allocate(MiB(8));
  REQUIRE(scattered.ok());
  CHECK(scattered->size() == 4);
  CHECK(arena.used() == MiB(16));
}

TEST_CASE("host arena: no run crosses from one registration into another") {
  fakes::FakeDevice device;
  HostArena arena(device, MiB(64), kGranule, kChunk);
  REQUIRE(arena.grow_to(MiB(64)).ok());
  CHECK(arena.pinned() == MiB(64));
  const auto all = arena.allocate(MiB(64));
  REQUIRE(all.ok());
  for (const HostRun& run : *all) CHECK(run.size <= kChunk);
  arena.release(*all);
  const auto again = arena.allocate(MiB(64));
  REQUIRE(again.ok());
  CHECK(again->size() == 4);
}

TEST_CASE("host arena: slots never overlap, and everything comes back") {
  const unsigned seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  fakes::FakeDevice device;
  HostArena arena(device, MiB(128), kGranule, kChunk);
  std::vector<HostSlot> live;
  std::map<std::byte*, Bytes> taken;
  Bytes used;
  for (int round = 0; round < 2000; ++round) {
    if (random() % 2 == 0 || live.empty()) {
      const Bytes size = kGranule * (1 + random() % 12);
      const auto slot = arena.allocate(size);
      REQUIRE(slot.ok() == (used + size <= MiB(128)));
      if (!slot.ok()) continue;
      Bytes sum;
      for (const HostRun& run : *slot) {
        const auto next = taken.lower_bound(run.base);
        REQUIRE((next == taken.end() || run.base + run.size.count() <= next->first));
        REQUIRE(
            (next == taken.begin() || std::prev(next)->first + std::prev(next)->second.count() <= run.base));
        taken.emplace(run.base, run.size);
        sum += run.size;
      }
      REQUIRE(sum == size);
      used += size;
      live.push_back(*slot);
    } else {
      const std::size_t which = random() % live.size();
      for (const HostRun& run : live[which]) {
        taken.erase(run.base);
        used -= run.size;
      }
      arena.release(live[which]);
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(which));
    }
    REQUIRE(arena.used() == used);
  }
  for (const HostSlot& slot : live) arena.release(slot);
  CHECK(arena.used() == Bytes());
  CHECK(arena.allocate(MiB(128)).ok());
}

constexpr Nanos kPatience = seconds(64);

/// Looks once a second for so long; how many chunks were given back.
int look(HostArena& arena, Nanos& now, int times) {
  int given = 0;
  for (; times > 0; --times, now += seconds(1)) given += arena.give_back_idle(now) ? 1 : 0;
  return given;
}

TEST_CASE("host arena: what a spike has pinned is given back, and what is needed stays") {
  fakes::FakeDevice device;
  HostArena arena(device, MiB(512), kGranule, kChunk, kPatience);
  Nanos now = seconds(1000);
  const auto steady = arena.allocate(MiB(32));
  REQUIRE(look(arena, now, 10) == 0);
  const auto spike = arena.allocate(MiB(256));
  REQUIRE((steady.ok() && spike.ok()));
  arena.release(*spike);
  CHECK(arena.pinned() == MiB(288));
  // The span of the spike and the one behind it keep all.
  CHECK(look(arena, now, 110) == 0);
  CHECK(look(arena, now, 60) == 16);
  CHECK(arena.pinned() == MiB(32));
  CHECK(arena.used() == MiB(32));
  CHECK(device.calls("unregister_host") == 16);
  CHECK(arena.allocate(MiB(480)).ok());
  CHECK(device.errors().empty());
}

TEST_CASE("host arena: a chunk that is used in part stays") {
  fakes::FakeDevice device;
  HostArena arena(device, MiB(512), kGranule, kChunk, kPatience);
  Nanos now = seconds(1000);
  const auto first = arena.allocate(MiB(2));
  const auto rest = arena.allocate(MiB(12));
  const auto spike = arena.allocate(MiB(128));
  REQUIRE((first.ok() && rest.ok() && spike.ok()));
  arena.release(*first);  // the chunk begins with a hole
  arena.release(*spike);
  (void)look(arena, now, 300);
  CHECK(arena.pinned() == MiB(16));
  for (const HostRun& run : *rest) std::fill_n(run.base, run.size.count(), std::byte{1});
  arena.release(*rest);
  CHECK(look(arena, now, 300) == 1);
  CHECK(arena.pinned() == Bytes());
  CHECK(device.errors().empty());
}

TEST_CASE("host arena: what is asked for or used once in a span stays pinned") {
  fakes::FakeDevice device;
  HostArena arena(device, MiB(512), kGranule, kChunk, kPatience);
  Nanos now = seconds(1000);
  for (int span = 0; span < 10; ++span) {
    REQUIRE(arena.grow_to(MiB(128)).ok());
    const auto slot = arena.allocate(MiB(160));
    REQUIRE(slot.ok());
    arena.release(*slot);
    CHECK(look(arena, now, 60) == 0);
  }
  CHECK(device.calls("register_host") == 10);
}

TEST_CASE("host arena: memory that is pinned again makes it wait for longer") {
  fakes::FakeDevice device;
  HostArena arena(device, MiB(512), kGranule, kChunk, kPatience);
  Nanos now = seconds(1000);
  int longest = 0;
  for (int round = 0; round < 12; ++round) {
    const auto slot = arena.allocate(MiB(64));
    REQUIRE(slot.ok());
    arena.release(*slot);
    int looks = 0;
    for (; arena.pinned() > Bytes(); ++looks, now += seconds(1)) (void)arena.give_back_idle(now);
    if (round > 0) {
      INFO("round " << round << ": " << looks << " s, before " << longest);
      CHECK((looks > longest * 3 / 2 || looks > 3600));
    }
    longest = std::max(longest, looks);
  }
  CHECK(longest < 3 * 3600);  // an hour is the longest span
}

TEST_CASE("host arena: a chunk that the driver keeps is used again") {
  fakes::FakeDevice device;
  HostArena arena(device, MiB(64), kGranule, kChunk, kPatience);
  Nanos now = seconds(1000);
  const auto slot = arena.allocate(MiB(64));
  REQUIRE(slot.ok());
  arena.release(*slot);
  REQUIRE(device.faults().add_text("unregister_host nth=1 return=999").empty());
  while (device.calls("unregister_host") == 0) CHECK(look(arena, now, 1) == 0);
  CHECK(arena.pinned() == MiB(64));
  const auto again = arena.allocate(MiB(64));
  REQUIRE(again.ok());
  CHECK(arena.used() == MiB(64));
  CHECK(device.errors().empty());
}

}  // namespace
}  // namespace tidepool::runtime
