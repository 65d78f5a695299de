// When a long wait is told of.

#include <catch2/catch.hpp>

#include "allocator/support/long_wait.h"

namespace tidepool::test {

TEST_CASE("long wait: it is told of after 10 s, 1 min, 6 min and so on, once each") {
  LongWait wait;
  int told = 0;
  std::int64_t now = 0;
  const auto until = [&](std::int64_t last) {
    for (; now <= last; ++now) told += wait.is_due(seconds(now)) ? 1 : 0;
    return told;
  };
  CHECK(until(9) == 0);
  CHECK(until(10) == 1);
  CHECK(until(59) == 1);
  CHECK(until(60) == 2);
  CHECK(until(359) == 2);
  CHECK(until(360) == 3);
  CHECK(until(86'400) == 6);
}

TEST_CASE("long wait: who looks late is told once") {
  LongWait wait;
  CHECK(wait.is_due(seconds(400)));
  CHECK_FALSE(wait.is_due(seconds(2'159)));
  CHECK(wait.is_due(seconds(2'160)));
}

}  // namespace tidepool::test
