#include "tests/shim/own_page.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>

#include "allocator/support/stats_page.h"

namespace tidepool::test {

std::uint64_t own_page_value(std::string_view metric) {
  const char* const folder = std::getenv("TIDEPOOL_RUN_DIR");
  const std::string path =
      std::string(folder != nullptr ? folder : "") + "/stats." + std::to_string(getpid());
  std::ifstream file(path, std::ios::binary);
  const auto page = std::make_unique<StatsPageLayout>();
  file.read(reinterpret_cast<char*>(page.get()), sizeof(StatsPageLayout));
  for (std::size_t i = 0; file && i < kMetricCount; ++i) {
    if (metric_rows()[i].name == metric) return page->cells[i].value;
  }
  std::fprintf(stderr, "no %s in %s\n", std::string(metric).c_str(), path.c_str());
  std::exit(1);
}

}  // namespace tidepool::test
