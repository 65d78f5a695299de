// Which handles a block is given, and what is traded for them.

#include "allocator/handle_pool.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <random>
#include <vector>

#include "tests/fakes/fake_device.h"

namespace tidepool::runtime {
namespace {

constexpr Bytes kLimit = MiB(256);
constexpr Bytes kSmall = MiB(64);  // the fake device writes a pattern into each new handle

/// A pool whose device has all the memory that the limit allows, unless it has `total`.
struct Pool {
  explicit Pool(Bytes total = kLimit) : device({.total = total}), pool(device, kLimit) {}

  std::vector<Extent> take(Bytes size) {
    std::vector<Extent> extents;
    REQUIRE(pool.take(size, extents) == Bytes());
    return extents;
  }
  void put(const std::vector<Extent>& extents) {
    for (const Extent& extent : extents) pool.put(extent);
  }

  fakes::FakeDevice device;
  HandlePool pool;
};

Bytes sum(const std::vector<Extent>& extents) {
  Bytes all;
  for (const Extent& extent : extents) all += extent.size;
  return all;
}

}  // namespace

TEST_CASE("handles: a block has one of its size, and those beyond 128 MiB as few as may be") {
  Pool pool;
  for (const Bytes size : {MiB(2), MiB(6), MiB(30), MiB(128)}) {
    const std::vector<Extent> got = pool.take(size);
    REQUIRE(got.size() == 1);
    CHECK(got[0].size == size);
    pool.put(got);
  }
  const std::vector<Extent> large = pool.take(MiB(250));
  REQUIRE(large.size() == 2);
  CHECK(large[0].size == HandlePool::kLargest);
  CHECK(large[1].size == MiB(122));
  pool.put(large);
}

TEST_CASE("handles: what comes back serves the next block of that size") {
  Pool pool;
  const std::vector<Extent> first = pool.take(MiB(30));
  const PhysicalHandle handle = first[0].handle;
  pool.put(first);
  CHECK(pool.take(MiB(30))[0].handle == handle);
  CHECK(pool.pool.created() == MiB(30));
}

TEST_CASE("handles: nothing is taken until there is enough, so that memory does not fall to pieces") {
  Pool pool;
  const std::vector<Extent> most = pool.take(kLimit - MiB(2));
  std::vector<Extent> none;
  CHECK(pool.pool.take(MiB(64), none) == MiB(64));
  CHECK(none.empty());
  CHECK(pool.pool.created() == kLimit - MiB(2));
  pool.put(most);
}

TEST_CASE("handles: sizes that change are traded below the limit, and stay one handle for a block") {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    INFO("seed " << seed);
    std::mt19937_64 random(seed);  // NOLINT(cert-msc51-cpp)
    Pool pool;
    pool.pool.set_limit(kSmall);
    std::vector<std::vector<Extent>> blocks;
    Bytes used;
    for (int step = 0; step < 60; ++step) {
      const Bytes size = MiB(2) * (1 + random() % 12);
      while (used + size > kSmall) {
        const std::size_t one = random() % blocks.size();
        used -= sum(blocks[one]);
        pool.put(blocks[one]);
        blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(one));
      }
      blocks.push_back(pool.take(size));
      used += size;
      REQUIRE(blocks.back().size() == 1);
      REQUIRE(pool.pool.created() <= kSmall);
      REQUIRE(pool.pool.created() == used + pool.pool.spare());
      REQUIRE(pool.device.in_use() == pool.pool.created());
    }
    for (const auto& block : blocks) pool.put(block);
    pool.pool.trim_to(MiB(10));
    CHECK(pool.pool.created() <= MiB(10));
    CHECK(pool.device.in_use() == pool.pool.created());
  }
}

TEST_CASE("handles: a create that fails costs no memory, and pieces do where a whole one cannot be had") {
  Pool pool;
  pool.put(pool.take(MiB(200)));
  REQUIRE(pool.device.faults().add_text("create nth=1 return=2").empty());
  const std::vector<Extent> got = pool.take(MiB(100));
  CHECK(sum(got) == MiB(100));
  CHECK(pool.pool.created() <= kLimit);
  pool.put(got);
  CHECK(pool.pool.available() == kLimit);
}

TEST_CASE("handles: a device with less than the limit gives what it has") {
  Pool pool(MiB(100));
  std::vector<Extent> got;
  const Bytes missing = pool.pool.take(MiB(128), got);
  CHECK(sum(got) + missing == MiB(128));
  CHECK(sum(got) == MiB(100));
  CHECK(pool.pool.created() == MiB(100));
  pool.put(got);
  // What it has in another size than wanted is traded.
  CHECK(sum(pool.take(MiB(50))) == MiB(50));
  CHECK(pool.pool.created() <= MiB(100));
}

TEST_CASE("handles: a driver that does not take one back leaves it where it was") {
  Pool pool;
  pool.put(pool.take(MiB(250)));
  REQUIRE(pool.device.faults().add_text("destroy after=0 return=2").empty());
  std::vector<Extent> got;
  (void)pool.pool.take(MiB(64), got);
  CHECK(pool.pool.created() <= kLimit);
  CHECK(pool.device.in_use() == pool.pool.created());
  CHECK(sum(got) + pool.pool.spare() == pool.pool.created());
  pool.device.faults().clear();
  pool.put(got);
  CHECK(sum(pool.take(MiB(64))) == MiB(64));
}

}  // namespace tidepool::runtime
