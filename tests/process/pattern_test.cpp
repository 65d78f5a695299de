#include "tests/process/pattern.h"

#include <catch2/catch.hpp>

namespace tidepool::test {
namespace {

TEST_CASE("pattern: the whole text, letter by letter") {
  CHECK(matches("", ""));
  CHECK(matches("(exit 0).\n", "(exit 0).\n"));
  CHECK_FALSE(matches("ab", "a"));
  CHECK_FALSE(matches("a", "ab"));
  CHECK_FALSE(matches("ax", "ay"));
}

TEST_CASE("pattern: a star stays within its line") {
  CHECK(matches("begin: \n", "begin: *\n"));
  CHECK(matches("begin: a b\nend", "begin: *\nend"));
  CHECK(matches("a.b.c.d", "a*.d"));
  CHECK_FALSE(matches("begin: a\nb\n", "begin: *b\n"));
  CHECK_FALSE(matches("begin: a\nb\n", "begin: *\n"));
}

TEST_CASE("pattern: numbers, letters and spans of time") {
  CHECK(matches("process 120 (sh)", "process # (sh)"));
  CHECK_FALSE(matches("process  (sh)", "process # (sh)"));
  CHECK_FALSE(matches("process 1a (sh)", "process # (sh)"));
  CHECK(matches("1.2s", "#.%s"));
  CHECK_FALSE(matches("1.23s", "#.%s"));
  CHECK_FALSE(matches("1.s", "#.%s"));
  CHECK(matches("run-aB3_9z", "run-??????"));
  CHECK_FALSE(matches("run-aB3-9z", "run-??????"));
  CHECK_FALSE(matches("run-aB3_9", "run-??????"));
  for (const char* span : {"350us", "12ms", "1.2s", "100.0s"}) CHECK(matches(span, "@"));
  for (const char* other : {"", "12", "12s", "1.23s", ".5s", "1.2ms", "1.xs", "s"}) {
    CHECK_FALSE(matches(other, "@"));
  }
}

}  // namespace
}  // namespace tidepool::test
