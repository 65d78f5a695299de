#include "tests/simgpu_digest/sensitivity.h"

#include <catch2/catch.hpp>
#include <cstdio>
#include <string>

/// How sure one may be that a lost piece of a copy is seen.
using namespace digest_test;

namespace {

constexpr std::size_t kMiB = 1 << 20;

/// Trials in which the damage showed.
int caught(int trials, const dg::Stride& stride, std::size_t largest) {
  const dg::Mix clean = run_job(0, Damage::kNone, stride, largest);
  int count = 0;
  for (int i = 0; i < trials; ++i) {
    const Damage damage = i % 2 == 0 ? Damage::kDropped : Damage::kStale;
    const bool seen = run_job(static_cast<std::uint64_t>(i) + 1, damage, stride, largest) != clean;
    if (!seen && stride.period <= 4096) std::printf("seed %d: the damage was not seen\n", i + 1);
    count += seen ? 1 : 0;
  }
  std::printf("%d bytes of %d, buffers up to %d MiB: %d of %d lost or stale pieces of 4 KiB were seen\n",
              static_cast<int>(stride.line), static_cast<int>(stride.period),
              static_cast<int>(largest / kMiB), count, trials);
  return count;
}

}  // namespace

TEST_CASE("digest: the same job gives the same digest with and without swaps that lose nothing") {
  CHECK(run_job(1, Damage::kNone, dg::kEveryPage, kMiB) == run_job(2, Damage::kNone, dg::kEveryPage, kMiB));
}

TEST_CASE("digest: a lost piece of a copy is seen at every stride that is offered", "[plain]") {
  for (const char* name : {"4k", "full"}) CHECK(caught(100, *dg::stride_named(name), kMiB) >= 99);
}

TEST_CASE("digest: a lost piece of a copy is seen in buffers of up to 64 MiB too", "[.large]") {
  for (const char* name : {"4k", "full"}) CHECK(caught(100, *dg::stride_named(name), 64 * kMiB) >= 99);
}

TEST_CASE("digest: a stride of 64 KiB would miss most of them, so there is none", "[plain]") {
  CHECK_FALSE(dg::stride_named("64k").has_value());
  CHECK(caught(40, dg::Stride{64, 65536}, kMiB) < 20);
}
