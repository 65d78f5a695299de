#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "allocator/support/options.h"
#include "allocator/support/stats_page.h"

namespace tidepool {
namespace {

namespace fs = std::filesystem;

struct TemporaryFolder {
  std::string path = "/tmp/tidepool-test-XXXXXX";
  TemporaryFolder() { REQUIRE(mkdtemp(path.data()) != nullptr); }
  ~TemporaryFolder() { fs::remove_all(path); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
};

/// Runs `work` in a child that ends by _exit(0) unless work ends it otherwise; returns (pid, wait status).
template <class F>
std::pair<pid_t, int> in_child(F work) {
  const pid_t pid = fork();
  if (pid == 0) {
    work();
    _exit(0);
  }
  int status = -1;
  waitpid(pid, &status, 0);
  return {pid, status};
}

/// One number of a page file.
std::uint64_t value_in(const fs::path& file, Metric metric) {
  std::ifstream in(file, std::ios::binary);
  std::vector<char> bytes(sizeof(StatsPageLayout));
  in.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  REQUIRE(in.gcount() == static_cast<std::streamsize>(bytes.size()));
  std::uint64_t n;
  std::memcpy(&n,
              bytes.data() + offsetof(StatsPageLayout, cells) +
                  sizeof(StatsPageLayout::Cell) * static_cast<std::size_t>(metric),
              sizeof n);
  return n;
}

TEST_CASE("stats page: numbers count before there is a file") {
  StatsPage& stats = StatsPage::instance();
  const std::uint64_t before = stats.get(Metric::slow_path_total);
  stats.add(Metric::slow_path_total, 3);
  CHECK(stats.get(Metric::slow_path_total) == before + 3);
  stats.set(Metric::host_bytes, 9);
  stats.sub(Metric::host_bytes, 4);
  CHECK(stats.get(Metric::host_bytes) == 5);
  stats.raise(Metric::host_bytes_peak, 7);
  stats.raise(Metric::host_bytes_peak, 6);
  CHECK(stats.get(Metric::host_bytes_peak) == 7);
}

TEST_CASE("stats page: threads lose no count") {
  StatsPage& stats = StatsPage::instance();
  const std::uint64_t before = stats.get(Metric::swap_in_total);
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&stats, t] {
      for (unsigned i = 0; i < 10000; ++i) {
        stats.add(Metric::swap_in_total, 1);
        stats.raise(Metric::allocated_bytes_peak, 4 * i + t);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(stats.get(Metric::swap_in_total) == before + 40000);
  CHECK(stats.get(Metric::allocated_bytes_peak) == 4 * 9999 + 3);
}

TEST_CASE("stats page: survives SIGKILL, and keeps what was counted before it was attached") {
  TemporaryFolder folder;
  const auto [pid, status] = in_child([&] {
    StatsPage::instance().set(Metric::allocated_bytes, 11);
    StatsPage& stats = StatsPage::attach(folder.path.c_str());
    stats.set(Metric::swap_out_bytes_total, 12345);
    kill(getpid(), SIGKILL);
  });
  REQUIRE(WIFSIGNALED(status));
  const fs::path file = folder.path + "/stats." + std::to_string(pid);
  CHECK(value_in(file, Metric::swap_out_bytes_total) == 12345);
  CHECK(value_in(file, Metric::allocated_bytes) == 11);
  CHECK((fs::status(file).permissions() & fs::perms::all) ==
        (fs::perms::owner_read | fs::perms::owner_write));
}

TEST_CASE("stats page: a second program in the same process gets a file of its own") {
  TemporaryFolder folder;
  const auto [pid, status] = in_child([&] {
    const std::string taken = folder.path + "/stats." + std::to_string(getpid());
    std::ofstream(taken) << "first";
    StatsPage::attach(folder.path.c_str()).set(Metric::host_bytes, 4);
  });
  REQUIRE(status == 0);
  const std::string first = folder.path + "/stats." + std::to_string(pid);
  CHECK(fs::file_size(first) == 5);
  CHECK(value_in(first + ".1", Metric::host_bytes) == 4);
}

TEST_CASE("stats page: a forked child starts at zero in its own file and leaves the parent's alone") {
  TemporaryFolder folder;
  const auto [pid, status] = in_child([&] {
    StatsPage& stats = StatsPage::attach(folder.path.c_str());
    stats.set(Metric::slow_path_total, 5);
    const auto inner = in_child([&] {
      stats.reset_after_fork();
      if (stats.get(Metric::slow_path_total) != 0 || !stats.is_file()) _exit(1);
      stats.add(Metric::slow_path_total, 2);
    });
    _exit(WEXITSTATUS(inner.second));
  });
  REQUIRE(status == 0);
  std::vector<std::uint64_t> counts;
  for (const auto& entry : fs::directory_iterator(folder.path)) {
    counts.push_back(value_in(entry.path(), Metric::slow_path_total));
  }
  std::sort(counts.begin(), counts.end());
  CHECK(counts == std::vector<std::uint64_t>{2, 5});
}

TEST_CASE("stats page: a child whose folder is gone counts in private") {
  TemporaryFolder folder;
  const auto [pid, status] = in_child([&] {
    StatsPage& stats = StatsPage::attach(folder.path.c_str());
    stats.set(Metric::slow_path_total, 5);
    fs::remove_all(folder.path);
    const auto inner = in_child([&] {
      stats.reset_after_fork();
      stats.add(Metric::slow_path_total, 2);
      _exit(stats.get(Metric::slow_path_total) == 2 && !stats.is_file() ? 0 : 1);
    });
    _exit(inner.second == 0 && stats.get(Metric::slow_path_total) == 5 ? 0 : 1);
  });
  CHECK(status == 0);
}

// HAMi#1090: a file of another user's, and a crash.
TEST_CASE("stats page: without a usable folder the numbers stay private and errno is kept") {
  for (const char* folder : {static_cast<const char*>(nullptr), "", "/nonexistent/folder"}) {
    const auto [pid, status] = in_child([&] {
      errno = EDOM;
      StatsPage& stats = StatsPage::attach(folder);
      stats.add(Metric::swap_out_total, 1);
      _exit(errno == EDOM && !stats.is_file() && stats.get(Metric::swap_out_total) >= 1 ? 0 : 1);
    });
    CHECK(status == 0);
  }
}

TEST_CASE(
    "stats page: where the file gets no room the numbers stay private, and no signal ends the program") {
  TemporaryFolder folder;
  const auto [pid, status] = in_child([&] {
    const rlimit none{0, 0};
    if (setrlimit(RLIMIT_FSIZE, &none) != 0) _exit(2);
    StatsPage& stats = StatsPage::attach(folder.path.c_str());
    stats.add(Metric::swap_out_total, 1);
    _exit(!stats.is_file() && stats.get(Metric::swap_out_total) >= 1 ? 0 : 1);
  });
  CHECK(status == 0);
  CHECK(fs::is_empty(folder.path));
}

TEST_CASE("stats page: does not follow a link that someone laid") {
  TemporaryFolder folder;
  const auto [pid, status] = in_child([&] {
    const std::string target = folder.path + "/target";
    fs::create_symlink(target, folder.path + "/stats." + std::to_string(getpid()));
    StatsPage::attach(folder.path.c_str());
    _exit(fs::exists(target) ? 1 : 0);
  });
  CHECK(status == 0);
}

TEST_CASE("metrics: rows follow the naming rules") {
  CHECK(metric_rows().size() == kMetricCount);
  for (const MetricRow& row : metric_rows()) {
    const std::string name = row.name;
    INFO(name);
    CHECK((row.kind == MetricKind::kCounter) == name.ends_with("_total"));
    CHECK((row.kind == MetricKind::kPeak) == name.ends_with("_peak"));
    const std::string unit = row.unit;
    CHECK((unit.empty() || name.find("_" + unit) != std::string::npos));
  }
}

/// The word that is asked in a page file.
std::uint64_t asked_in(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  in.seekg(offsetof(StatsPageLayout, budget));
  std::uint64_t word = ~std::uint64_t{0};
  in.read(reinterpret_cast<char*>(&word), sizeof word);
  return word;
}

TEST_CASE("stats page: what was asked of a process is asked of what it forks and of what it becomes") {
  TemporaryFolder folder;
  std::uint64_t asked = 0;
  const auto [pid, status] = in_child([&] {
    StatsPage::attach(folder.path.c_str());
    StatsPage::instance().budget_control().ask(Amount::share(500'000));
    if (fork() == 0) {
      StatsPage::instance().reset_after_fork();
      _exit(0);
    }
    wait(nullptr);
    // As after exec: a process with this id that knows nothing yet.
    StatsPage::instance().~StatsPage();
    new (&StatsPage::instance()) StatsPage;
    StatsPage::attach(folder.path.c_str());
  });
  REQUIRE(status == 0);
  std::size_t pages = 0;
  for (const auto& entry : fs::directory_iterator(folder.path)) {
    if (asked == 0) asked = asked_in(entry.path());
    CHECK(asked_in(entry.path()) == asked);
    ++pages;
  }
  CHECK(pages == 3);
  CHECK(BudgetRequest::from_raw(asked).amount() == Amount::share(500'000));
  CHECK(fs::exists(folder.path + "/stats." + std::to_string(pid) + ".1"));
}

TEST_CASE("stats page: a process of another run that had the same id leaves nothing behind") {
  TemporaryFolder folder;
  const auto [pid, status] = in_child([&] {
    setenv(kRunIdVariable, "1-1", 1);
    StatsPage::attach(folder.path.c_str());
    StatsPage::instance().budget_control().ask(Amount::share(500'000));
    setenv(kRunIdVariable, "1-2", 1);
    StatsPage::instance().~StatsPage();
    new (&StatsPage::instance()) StatsPage;
    StatsPage::attach(folder.path.c_str());
  });
  REQUIRE(status == 0);
  CHECK(asked_in(folder.path + "/stats." + std::to_string(pid)) != 0);
  CHECK(asked_in(folder.path + "/stats." + std::to_string(pid) + ".1") == 0);
}

}  // namespace
}  // namespace tidepool
