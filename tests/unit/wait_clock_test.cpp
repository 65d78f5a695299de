// Scopes that charge waiting to its causes.
#include "allocator/wait_clock.h"

#include <time.h>

#include <catch2/catch.hpp>
#include <cstdint>
#include <string>

namespace tidepool::runtime {
namespace {

std::uint64_t now(Metric metric) {
  return StatsPage::instance().get(metric);
}

std::uint64_t all_causes() {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < kMetricCount; ++i) {
    const auto metric = static_cast<Metric>(i);
    if (std::string(metric_rows()[i].name).starts_with("wait_") && metric != Metric::wait_ns_total)
      sum += now(metric);
  }
  return sum;
}

void sleep_ms(long ms) {
  const timespec time{0, ms * 1'000'000};
  nanosleep(&time, nullptr);
}

constexpr std::uint64_t kMs = 1'000'000;

}  // namespace

TEST_CASE("wait clock: time in an inner scope is the inner cause's alone, and all of it adds up") {
  const std::uint64_t whole = now(Metric::wait_ns_total);
  const std::uint64_t turn = now(Metric::wait_turn_ns_total);
  const std::uint64_t causes = all_causes();
  {
    const WaitClock outer(Metric::wait_moving_ns_total);
    {
      const WaitClock inner(Metric::wait_turn_ns_total);
      sleep_ms(20);
      const WaitClock innermost(Metric::wait_mapping_ns_total);
      sleep_ms(2);
    }
    const WaitClock again(Metric::wait_turn_ns_total);
    sleep_ms(20);
    CHECK(now(Metric::wait_ns_total) == whole);  // told by the outermost, once
  }
  CHECK(now(Metric::wait_turn_ns_total) - turn >= 40 * kMs);
  CHECK(now(Metric::wait_ns_total) - whole >= 42 * kMs);
  CHECK(all_causes() - causes == now(Metric::wait_ns_total) - whole);
}

TEST_CASE("wait clock: a scope in no other counts as waiting, too") {
  const std::uint64_t whole = now(Metric::wait_ns_total);
  const std::uint64_t pinning = now(Metric::wait_pinning_ns_total);
  {
    const WaitClock clock(Metric::wait_pinning_ns_total);
    sleep_ms(2);
    CHECK(clock.so_far() >= millis(2));
  }
  CHECK(now(Metric::wait_ns_total) - whole >= 2 * kMs);
  CHECK(now(Metric::wait_ns_total) - whole == now(Metric::wait_pinning_ns_total) - pinning);
}

}  // namespace tidepool::runtime
