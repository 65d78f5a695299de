#include "tools/probe/record.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <limits>
#include <string>

namespace tidepool::probe {
namespace {

/// What a section writes into a file of memory.
template <class F>
std::string written(F&& f) {
  char* text = nullptr;
  std::size_t size = 0;
  std::FILE* file = ::open_memstream(&text, &size);
  REQUIRE(file != nullptr);
  Records records(file, "vmm");
  f(records);
  std::fclose(file);
  std::string result(text, size);
  std::free(text);
  return result;
}

Samples samples(std::initializer_list<double> values) {
  Samples s;
  for (const double value : values) s.add(value);
  return s;
}

}  // namespace

TEST_CASE("record: text is escaped, and what is not ASCII is kept") {
  REQUIRE(json_text("") == "\"\"");
  REQUIRE(json_text("a \"b\" \\ c") == "\"a \\\"b\\\" \\\\ c\"");
  REQUIRE(json_text("1\n2\t3\r") == "\"1\\n2\\u00093\\u000d\"");
  REQUIRE(json_text(std::string_view("\0\x1f\x7f", 3)) == "\"\\u0000\\u001f\\u007f\"");
  REQUIRE(json_text("Ω…") == "\"Ω…\"");
}

TEST_CASE("record: whole numbers are exact, fractions have nine digits, and nothing infinite is written") {
  REQUIRE(json_value(std::numeric_limits<std::uint64_t>::max()) == "18446744073709551615");
  REQUIRE(json_value(std::numeric_limits<std::int64_t>::min()) == "-9223372036854775808");
  REQUIRE(json_value(true) == "true");
  REQUIRE(json_value(0.0) == "0");
  REQUIRE(json_value(1.0 / 3) == "0.333333333");
  REQUIRE(json_value(3.35e12) == "3.35e+12");
  REQUIRE(json_value(123456789.0) == "123456789");
  REQUIRE(json_value(std::numeric_limits<double>::quiet_NaN()) == "null");
  REQUIRE(json_value(-std::numeric_limits<double>::infinity()) == "null");
}

TEST_CASE("record: quantiles are values that were measured") {
  const Samples s = samples({5, 1, 4, 2, 3, 6, 7, 8, 9, 10});
  REQUIRE(s.quantile(0) == 1);
  REQUIRE(s.quantile(0.5) == 5);
  REQUIRE(s.quantile(0.9) == 9);
  REQUIRE(s.quantile(1) == 10);
  REQUIRE(samples({7}).quantile(0.5) == 7);
}

TEST_CASE("record: the median of an even number is between the middle two, and excess is what lies above") {
  REQUIRE(samples({4, 1, 2, 10}).median() == 3);
  REQUIRE(samples({1, 9}).median() == 5);
  REQUIRE(samples({3, 1, 2}).median() == 2);
  REQUIRE(Samples().median() == 0);
  REQUIRE(samples({4, 1, 2, 10}).excess_over(3) == 8);
  REQUIRE(written([](Records& r) {
            r.result("x", {}, "ns", samples({1, 9}));
          }).find("\"p50\":5,") != std::string::npos);
}

TEST_CASE("record: every kind has the members that its description names") {
  REQUIRE(written([](Records& r) {
            r.start({{"driver_version", 13000}, {"preloaded", false}});
          }) ==
          "{\"schema\":\"tidepool.probe/1\",\"section\":\"vmm\",\"kind\":\"start\",\"driver_version\":13000,"
          "\"preloaded\":false}\n");
  REQUIRE(written([](Records& r) {
            r.result("create", {{"handle_bytes", std::uint64_t{2}}}, "ns", samples({1, 2, 3}));
          }) ==
          "{\"section\":\"vmm\",\"kind\":\"result\",\"name\":\"create\",\"params\":{\"handle_bytes\":2},"
          "\"unit\":\"ns\",\"n\":3,\"min\":1,\"p50\":2,\"p90\":3,\"max\":3}\n");
  REQUIRE(written([](Records& r) { r.answer("a", {}, std::string("b")); }) ==
          "{\"section\":\"vmm\",\"kind\":\"answer\",\"name\":\"a\",\"value\":\"b\"}\n");
  REQUIRE(written([](Records& r) {
            r.answer("a", {{"n", 1}}, true, "why");
          }) ==
          "{\"section\":\"vmm\",\"kind\":\"answer\",\"name\":\"a\",\"params\":{\"n\":1},\"value\":true,"
          "\"detail\":\"why\"}\n");
  REQUIRE(written([](Records& r) { r.skipped("a", "b \"c\""); }) ==
          "{\"section\":\"vmm\",\"kind\":\"skipped\",\"name\":\"a\",\"why\":\"b \\\"c\\\"\"}\n");
  REQUIRE(written([](Records& r) { r.end(1.5); }) ==
          "{\"section\":\"vmm\",\"kind\":\"end\",\"seconds\":1.5}\n");
}

TEST_CASE("record: a figure that was not measured is skipped, not made up") {
  REQUIRE(written([](Records& r) { r.result("create", {}, "ns", Samples()); }).find("\"kind\":\"skipped\"") !=
          std::string::npos);
}

}  // namespace tidepool::probe
