#include <catch2/catch.hpp>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "allocator/support/edit_distance.h"
#include "allocator/support/host_memory.h"
#include "allocator/support/options.h"

namespace tidepool {
namespace {

/// load_options() of the given variables; Options is large, so it lives on the heap here.
struct Loaded {
  std::unique_ptr<Options> options = std::make_unique<Options>();
  OptionIssues issues;
  explicit Loaded(std::vector<const char*> environment) {
    environment.push_back(nullptr);
    *options = load_options(environment.data(), &issues);
  }
  [[nodiscard]] std::string issue(std::size_t i = 0) const {
    return issues.kept().size() > i ? issues.kept()[i].text : "(none)";
  }
};

const OptionRow& row_of(const char* variable) {
  const OptionRow* const row = find_option(variable);
  REQUIRE(row != nullptr);
  return *row;
}

TEST_CASE("options: every default goes through its own setter") {
  auto options = std::make_unique<Options>();
  for (const OptionRow& row : option_rows()) {
    INFO(row.variable);
    CHECK(set_option(*options, row, row.default_text).ok());
    CHECK(find_option(row.variable) == &row);
    CHECK(std::strlen(row.help) > 10);
  }
}

TEST_CASE("options: every bound is inside, and one step beyond is outside") {
  auto options = std::make_unique<Options>();
  for (const OptionRow& row : option_rows()) {
    if (is_word(row.kind) || row.low[0] == '\0') continue;
    INFO(row.variable);
    CHECK(set_option(*options, row, row.low).ok());
    CHECK(set_option(*options, row, row.high).ok());
  }
  CHECK(set_option(*options, row_of("TIDEPOOL_MIN_BLOCK"), "1048575").out_of_range);
  CHECK(set_option(*options, row_of("TIDEPOOL_MIN_BLOCK"), "1073741825").out_of_range);
  CHECK(set_option(*options, row_of("TIDEPOOL_DEVICE_BUDGET"), "15.9MiB").out_of_range);
  CHECK(set_option(*options, row_of("TIDEPOOL_DEVICE_BUDGET"), "100.0001%").out_of_range);
  CHECK(set_option(*options, row_of("TIDEPOOL_DEVICE_BUDGET"), "0%").out_of_range);
  CHECK(set_option(*options, row_of("TIDEPOOL_DEVICE_RESERVE"), "0%").ok());
  CHECK(set_option(*options, row_of("TIDEPOOL_HOST_BUDGET"), "91%").out_of_range);
  CHECK(set_option(*options, row_of("TIDEPOOL_DEVICE_RESERVE"), "51%").out_of_range);
}

TEST_CASE("options: host memory is known, so bytes beyond its bound are refused at once") {
  auto options = std::make_unique<Options>();
  const std::string too_much = std::to_string(host_memory().count());
  CHECK(set_option(*options, row_of("TIDEPOOL_HOST_BUDGET"), too_much).out_of_range);
  CHECK(set_option(*options, row_of("TIDEPOOL_HOST_BUDGET"), "16MiB").ok());
}

TEST_CASE("options: defaults without any variable") {
  const Loaded got({"HOME=/home/user", "TIDEPOOLX=1", "TIDEPOOL_TEST_DATA=/data"});
  CHECK(got.issues.count() == 0);
  CHECK_FALSE(got.options->disable);
  CHECK_FALSE(got.options->quiet);
  CHECK_FALSE(got.options->strict);
  CHECK(got.options->check == CheckLevel::kOff);
  CHECK(got.options->run_dir.empty());
  CHECK(got.options->min_block == MiB(1));
  CHECK(got.options->device_budget == Amount::share(1'000'000));
  CHECK(got.options->device_reserve.is_auto);
  CHECK(got.options->host_budget == Amount::share(500'000));
  OptionIssues issues;
  CHECK(load_options(nullptr, &issues).min_block == MiB(1));
}

TEST_CASE("options: variables are taken") {
  const Loaded got({"TIDEPOOL_DISABLE=yes", "TIDEPOOL_DEVICE_BUDGET=48MiB", "TIDEPOOL_DEVICE_RESERVE=0",
                    "TIDEPOOL_HOST_BUDGET=12.5%", "TIDEPOOL_CHECK=full", "TIDEPOOL_RUN_DIR=/tmp/a=b",
                    "TIDEPOOL_MIN_BLOCK=4M", "TIDEPOOL_QUIET=on"});
  CHECK(got.issues.count() == 0);
  CHECK(got.options->disable);
  CHECK(got.options->quiet);
  CHECK(got.options->device_budget == Amount::bytes(MiB(48)));
  CHECK_FALSE(got.options->device_reserve.is_auto);
  CHECK(got.options->host_budget == Amount::share(125'000));
  CHECK(got.options->check == CheckLevel::kFull);
  CHECK(std::string(got.options->run_dir.c_str()) == "/tmp/a=b");
  CHECK(got.options->min_block == MiB(4));
}

TEST_CASE("options: switches take eight words and no other") {
  auto options = std::make_unique<Options>();
  const OptionRow& row = row_of("TIDEPOOL_QUIET");
  for (const char* word : {"1", "on", "yes", "true"}) {
    options->quiet = false;
    CHECK((set_option(*options, row, word).ok() && options->quiet));
  }
  for (const char* word : {"0", "off", "no", "false"}) {
    options->quiet = true;
    CHECK((set_option(*options, row, word).ok() && !options->quiet));
  }
  for (const char* word : {"", "2", "On", "TRUE", "y", " 1", "enable"}) {
    CHECK_FALSE(set_option(*options, row, word).ok());
  }
}

TEST_CASE("options: a refused value keeps the default and says why") {
  const Loaded got(
      {"TIDEPOOL_DEVICE_BUDGET=12GB", "TIDEPOOL_MIN_BLOCK=1", "TIDEPOOL_CHECK=paranoid", "TIDEPOOL_QUIET="});
  CHECK(got.issues.count() == 4);
  CHECK(got.issues.any_error());
  CHECK(got.options->device_budget == Amount::share(1'000'000));
  CHECK(got.options->min_block == MiB(1));
  CHECK(got.issue(0) ==
        "TIDEPOOL_DEVICE_BUDGET=12GB is not valid: its unit is none of B, K, KiB, M, MiB, G, GiB, T, TiB");
  CHECK(got.issue(1) == "TIDEPOOL_MIN_BLOCK=1 is out of range 1MiB..1GiB (without a unit it means bytes)");
  CHECK(got.issue(2) == "TIDEPOOL_CHECK=paranoid is none of off, cheap, full, unmap");
  CHECK(got.issue(3) == "TIDEPOOL_QUIET= is not valid: it is none of 1, 0, on, off, yes, no, true, false");
}

TEST_CASE("options: an unknown variable is a warning with the name that was meant") {
  const Loaded got({"TIDEPOOL_DEVICE_BUDGT=16GiB"});
  CHECK(got.issues.count() == 1);
  CHECK_FALSE(got.issues.any_error());
  CHECK(got.issues.kept()[0].is_unknown);
  CHECK(got.issue() == "unknown variable TIDEPOOL_DEVICE_BUDGT (did you mean TIDEPOOL_DEVICE_BUDGET?)");
  CHECK(Loaded({"TIDEPOOL_WIDTH_OF_THE_SEA=1"}).issue() == "unknown variable TIDEPOOL_WIDTH_OF_THE_SEA");
  CHECK(Loaded({"TIDEPOOL_=1"}).issue() == "unknown variable TIDEPOOL_");
  CHECK(Loaded({"TIDEPOOL_BUDGET=1"}).issue() ==
        "unknown variable TIDEPOOL_BUDGET (did you mean TIDEPOOL_DEVICE_BUDGET?)");
  CHECK(Loaded({"TIDEPOOL_quiet=1"}).issues.count() == 1);
}

TEST_CASE("options: two neighbours that changed places are one edit") {
  static_assert(edit_distance("", "") == 0);
  static_assert(edit_distance("hlep", "help") == 1);
  static_assert(edit_distance("kitten", "sitting") == 3);
  static_assert(edit_distance("ca", "abc") == 3);  // no character moves twice
  static_assert(edit_distance("budget", "") == 6);
  static_assert(edit_distance("", "log") == 3);
  static_assert(edit_distance(std::string_view("bogus"), "log") == 3);
}

TEST_CASE("options: the suggestion is at most three edits away, and no more than a third of the word") {
  CHECK(nearest_option("TIDEPOOL_FOO") == nullptr);
  CHECK(nearest_option("TIDEPOOL_LGO") == find_option("TIDEPOOL_LOG"));
  CHECK(nearest_option("TIDEPOOL_QIUET") == find_option("TIDEPOOL_QUIET"));
  CHECK(nearest_option("TIDEPOOL_DEVICEBUDGETS") == find_option("TIDEPOOL_DEVICE_BUDGET"));
  CHECK(nearest_option("TIDEPOOL_DEVICE_BUDGET1234") == nullptr);
  CHECK(nearest_option(std::string(500, 'T')) == nullptr);
}

TEST_CASE("options: the first of two equal variables counts, as with getenv") {
  const Loaded got({"TIDEPOOL_MIN_BLOCK=4M", "TIDEPOOL_MIN_BLOCK=8M"});
  CHECK(got.options->min_block == MiB(4));
}

TEST_CASE("options: issues beyond the room are counted") {
  std::vector<std::string> texts;
  texts.reserve(40);
  for (int i = 0; i < 40; ++i) texts.push_back("TIDEPOOL_NONSENSE_NUMBER_" + std::to_string(i) + "=1");
  std::vector<const char*> environment;
  environment.reserve(texts.size());
  for (const std::string& text : texts) environment.push_back(text.c_str());
  const Loaded got(environment);
  CHECK(got.issues.count() == 40);
  CHECK(got.issues.kept().size() == OptionIssues::kRoom);
}

TEST_CASE("options: very long names and values are cut, not copied over the end") {
  const std::string name = "TIDEPOOL_" + std::string(10000, 'A') + "=1";
  const std::string value = "TIDEPOOL_RUN_DIR=/" + std::string(PATH_MAX, 'b');
  const Loaded got({name.c_str(), value.c_str()});
  CHECK(got.issues.count() == 2);
  CHECK(got.options->run_dir.empty());
  CHECK(std::strlen(got.issues.kept()[1].text) < sizeof(OptionIssue::text));
}

TEST_CASE("options: capacity is the budget or the device less its reserve, whichever is lower") {
  auto options = std::make_unique<Options>(default_options());
  CHECK(device_reserve_of(*options, GiB(80)) == MiB(512));
  CHECK(device_reserve_of(*options, GiB(2)) == Bytes(0));
  CHECK_FALSE(is_reserve_too_large(*options, GiB(80)));
  // What is given in bytes may be more than half of a device.
  REQUIRE(set_option(*options, *find_option("TIDEPOOL_DEVICE_RESERVE"), "9TiB").ok());
  CHECK(is_reserve_too_large(*options, GiB(80)));
  CHECK(device_reserve_of(*options, GiB(80)) == GiB(40));
  CHECK(device_capacity_of(*options, GiB(80)) == GiB(40));
  REQUIRE(set_option(*options, *find_option("TIDEPOOL_DEVICE_RESERVE"), "40GiB").ok());
  CHECK_FALSE(is_reserve_too_large(*options, GiB(80)));
  *options = default_options();
  CHECK(device_capacity_of(*options, GiB(80)) == GiB(80) - MiB(512));
  options->device_budget = Amount::bytes(MiB(48));
  CHECK(device_capacity_of(*options, GiB(80)) == MiB(48));
  options->device_budget = Amount::bytes(GiB(100));
  options->device_reserve = {false, Amount::share(250'000)};
  CHECK(device_capacity_of(*options, GiB(80)) == GiB(60));
  options->device_reserve = {false, Amount::bytes(GiB(100))};
  CHECK(device_capacity_of(*options, GiB(80)) == GiB(40));
  CHECK(host_budget_of(*options, GiB(64)) == GiB(32));
}

TEST_CASE("options: a share that is less than the least budget counts as the least") {
  auto options = std::make_unique<Options>(default_options());
  REQUIRE(set_option(*options, row_of("TIDEPOOL_DEVICE_BUDGET"), "0.01%").ok());
  CHECK_FALSE(is_budget_too_small(*options, GiB(160)));
  CHECK(is_budget_too_small(*options, GiB(80)));
  CHECK(device_capacity_of(*options, GiB(80)) == kLeastDeviceBudget);
  CHECK(device_capacity_of(*options, MiB(8)) == MiB(8));
  REQUIRE(set_option(*options, row_of("TIDEPOOL_DEVICE_BUDGET"), row_of("TIDEPOOL_DEVICE_BUDGET").low).ok());
  CHECK(options->device_budget == Amount::bytes(kLeastDeviceBudget));
}

TEST_CASE("options: a budget in bytes may be more than the device has, and that can be told") {
  auto options = std::make_unique<Options>(default_options());
  CHECK_FALSE(is_budget_too_large(*options, GiB(80)));
  options->device_budget = Amount::bytes(GiB(80));
  CHECK_FALSE(is_budget_too_large(*options, GiB(80)));
  CHECK(is_budget_too_large(*options, GiB(80) - Bytes(1)));
}

}  // namespace
}  // namespace tidepool
