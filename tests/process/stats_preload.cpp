// Stands for libtidepool.so in tests of the command: attaches the stats page as the library does, and writes
// the numbers that TIDEPOOL_TEST_STATS asks for ("metric=value ..."). It touches no CUDA.

#include <pthread.h>

#include <cstdlib>
#include <string>

#include "allocator/support/stats_page.h"

namespace tidepool {
namespace {

void count_as_told() {
  const char* const told = std::getenv("TIDEPOOL_TEST_STATS");
  const std::string text = told == nullptr ? "" : told;
  for (std::size_t i = 0; i < kMetricCount; ++i) {
    const std::string key = std::string(metric_rows()[i].name) + "=";
    const std::size_t found = (" " + text).find(" " + key);
    if (found == std::string::npos) continue;
    StatsPage::instance().set(static_cast<Metric>(i),
                              std::strtoull(text.c_str() + found + key.size(), nullptr, 10));
  }
}

[[gnu::constructor]] void start() {
  StatsPage::attach(std::getenv("TIDEPOOL_RUN_DIR"));
  pthread_atfork(nullptr, nullptr, [] { StatsPage::instance().reset_after_fork(); });
  count_as_told();
}

}  // namespace
}  // namespace tidepool
