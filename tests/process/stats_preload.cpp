// Stands for libtidepool.so in tests of the command: attaches the stats page as the library does, and writes
// the numbers that TIDEPOOL_TEST_STATS asks for ("metric=value ..."). It touches no CUDA.

#include <pthread.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "allocator/support/event_ring.h"
#include "allocator/support/options.h"
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

/// TIDEPOOL_TEST_EVENTS=N[/PAUSE]: N pairs of events, with a pause in microseconds after every 20.
void record_as_told() {
  const char* const told = std::getenv("TIDEPOOL_TEST_EVENTS");
  if (told == nullptr) return;
  const auto options =
      std::make_unique<Options>(load_options(environ, std::make_unique<OptionIssues>().get()));
  EventRing::instance().open(options->run_dir.c_str(), options->log);
  const char* const slash = std::strchr(told, '/');
  const std::uint64_t count = std::strtoull(told, nullptr, 10);
  for (std::uint64_t i = 0; i < count; ++i) {
    emit<Ev::budget>(Bytes(i), Bytes(i), Bytes(), std::uint64_t{0});
    emit<Ev::wait>(Nanos(static_cast<std::int64_t>(i)));
    if (slash != nullptr && i % 20 == 19)
      usleep(static_cast<useconds_t>(std::strtoul(slash + 1, nullptr, 10)));
  }
}

[[gnu::constructor]] void start() {
  StatsPage::attach(std::getenv("TIDEPOOL_RUN_DIR"));
  pthread_atfork(nullptr, nullptr, [] {
    StatsPage::instance().reset_after_fork();
    EventRing::instance().reset_after_fork();
  });
  count_as_told();
  record_as_told();
}

}  // namespace
}  // namespace tidepool
