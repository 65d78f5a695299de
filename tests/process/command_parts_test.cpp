// Parts of the command that are functions of their arguments.
#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "tests/process/child_process.h"
#include "tools/tidepool/command_table.h"
#include "tools/tidepool/event_json.h"
#include "tools/tidepool/json_text.h"
#include "tools/tidepool/path_template.h"
#include "tools/tidepool/progress.h"
#include "tools/tidepool/shell_text.h"

namespace tidepool::tools {
namespace {

TEST_CASE("shell words: a shell reads back what was quoted, whatever it was") {
  const unsigned seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  std::string script = "printf '%s\\0'";
  std::string wanted;
  for (int i = 0; i < 300; ++i) {
    std::string word(random() % 12, '\0');
    for (char& c : word) c = static_cast<char>(1 + random() % 255);
    script += " " + shell_quoted(word);
    wanted += word + '\0';
  }
  CHECK(test::run({{"/bin/sh", "-c", script}, "", {}, false, false}).out == wanted);
  CHECK(shell_quoted("train.py") == "train.py");
  CHECK(shell_quoted("") == "''");
  CHECK(shell_quoted("~/x") == "'~/x'");
  CHECK(shell_assignment("A=b c") == "A='b c'");
}

TEST_CASE("path templates: each part, and what is wrong with one") {
  TemplateValues values;
  values.pid = 42;
  values.host = "h";
  values.program = "e";
  values.time = "t";
  values.rank = "7";
  values.job = "j";
  std::string why;
  CHECK(fill_template("%p.%h.%e.%t.%r.%j.%%", values, &why) == "42.h.e.t.7.j.%");
  CHECK(why.empty());
  CHECK(fill_template("plain", values, &why) == "plain");
  CHECK(fill_template("%R/x", values, &why).empty());
  CHECK(why.find("%R is none of") == 0);
  why.clear();
  values.run_folder = "/run";
  CHECK(fill_template("%R/x", values, &why) == "/run/x");
  CHECK(why.empty());
  for (const char* bad : {"%", "a%", "%x", "%q", "%q{", "%q{}", "%q{NO_SUCH_VARIABLE}"}) {
    why.clear();
    CHECK(fill_template(bad, values, &why).empty());
    CHECK_FALSE(why.empty());
  }
}

TEST_CASE("json: any bytes become a string that is JSON and UTF-8") {
  CHECK(json_quoted("a\"b\\c\n\x01") == "\"a\\\"b\\\\c\\u000a\\u0001\"");
  CHECK(json_quoted("h\xc3\xa9 \xe2\x82\xac \xf0\x9f\x8c\x8a") ==
        "\"h\xc3\xa9 \xe2\x82\xac \xf0\x9f\x8c\x8a\"");
  for (const char* bad :
       {"\xff", "\xc3", "\xc0\x80", "\xed\xa0\x80", "\xe0\x80\x80", "\xf4\x90\x80\x80", "\xf8"}) {
    CHECK(json_quoted(bad).find("\"\\ufffd") == 0);
  }
}

TEST_CASE("progress: sums over processes, and never wider than the terminal") {
  ProcessStats stats{};
  const auto set = [&](Metric metric, std::uint64_t n) {
    stats.values[static_cast<std::size_t>(metric)] = n;
  };
  CHECK(progress_text({stats}, seconds(2), 80) == "tidepool 2.0s, no device memory yet");
  set(Metric::allocated_bytes_peak, 1);
  set(Metric::device_resident_bytes, 1 << 20);
  set(Metric::device_capacity_bytes, 2 << 20);
  set(Metric::wait_ns_total, 2'000'000);
  CHECK(progress_text({stats}, seconds(61), 80) ==
        "tidepool 1m01s, 1.0 MiB of 2.0 MiB held, 2ms waited, 0 B out, 0 B in");
  CHECK(progress_text({stats, stats}, seconds(61), 80) ==
        "tidepool 1m01s, 2.0 MiB held by 2 processes, 4ms waited, 0 B out, 0 B in");
  // Nothing is cut: what does not fit is left out.
  const std::string whole = progress_text({stats}, seconds(1), 1000);
  for (std::size_t columns = 1; columns < 90; ++columns) {
    const std::string part = progress_text({stats}, seconds(1), columns);
    CHECK(part.size() < columns);
    CHECK(whole.starts_with(part));
    CHECK((part.empty() || part == whole || whole[part.size()] == ','));
  }
}

TEST_CASE("log header: the version of the driver's kernel module, however it is told") {
  CHECK(
      kernel_driver_of(
          "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 18:56:32 UTC 2023\nGCC") ==
      "535.129.03");
  CHECK(kernel_driver_of(
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (x@y)\n") ==
        "580.159.04");
  CHECK(kernel_driver_of("NVRM version: NVIDIA UNIX Kernel Module\nGCC version: 12.2\n").empty());
  CHECK(kernel_driver_of("").empty());
}

TEST_CASE("text: lines are broken between words and indented") {
  CHECK(wrapped("", 4).empty());
  CHECK(wrapped("one two three", 2, 9) == "  one two\n  three\n");
  CHECK(wrapped("unbreakable", 0, 4) == "unbreakable\n");
}

}  // namespace
}  // namespace tidepool::tools
