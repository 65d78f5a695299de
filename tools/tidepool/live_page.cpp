#include "tools/tidepool/live_page.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>
#include <utility>

namespace tidepool::tools {
namespace {

namespace fs = std::filesystem;

constexpr char kFilePrefix[] = "stats.";
constexpr std::string_view kGone = " (deleted)";

/// What a process has mapped that has the name of a stats page.
struct Mapped {
  int problem = 0;    ///< errno; ENOENT: there is no such process
  std::string path;   ///< empty: nothing
  bool gone = false;  ///< the file has been removed
};

/// proc(5): the path is the sixth word of a line and goes to its end.
std::string path_in(const std::string& line) {
  std::size_t at = 0;
  for (int word = 0; word < 5; ++word) {
    at = line.find(' ', at);
    if (at == line.npos) return "";
    at = line.find_first_not_of(' ', at);
    if (at == line.npos) return "";
  }
  return line.substr(at);
}

Mapped mapped_page(pid_t pid) {
  Mapped got;
  errno = 0;
  std::ifstream maps("/proc/" + std::to_string(pid) + "/maps");
  if (!maps) return got.problem = errno == 0 ? EACCES : errno, got;
  for (std::string line; std::getline(maps, line);) {
    std::string path = path_in(line);
    if (!fs::path(path).filename().string().starts_with(kFilePrefix)) continue;
    got.gone = path.ends_with(kGone);
    if (got.gone) path.resize(path.size() - kGone.size());
    got.path = path;
    if (!got.gone) break;
  }
  if (got.path.empty() && maps.bad()) got.problem = EACCES;
  return got;
}

std::string process(pid_t pid) {
  return "process " + std::to_string(pid);
}

/// Ids of all processes that this user may look into.
std::vector<pid_t> visible_processes() {
  std::vector<pid_t> pids;
  std::error_code error;
  for (fs::directory_iterator entry("/proc", error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    struct stat file;
    if (!std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isdigit(c) != 0; }) ||
        ::stat(entry->path().c_str(), &file) != 0 || (file.st_uid != geteuid() && geteuid() != 0))
      continue;
    pids.push_back(static_cast<pid_t>(std::stol(name)));
  }
  return pids;
}

}  // namespace

LivePage::LivePage(LivePage&& other) noexcept
    : path_(std::move(other.path_)), page_(std::exchange(other.page_, nullptr)) {}

LivePage& LivePage::operator=(LivePage&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(page_, other.page_);
  return *this;
}

LivePage::~LivePage() {
  if (page_ != nullptr) munmap(page_, sizeof *page_);
}

std::optional<LivePage> LivePage::open(const std::string& path, std::string* problem) {
  std::optional<LivePage> opened;
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) {
    *problem = path + " cannot be opened: " + std::strerror(errno);
    return opened;
  }
  struct stat file;
  struct {
    std::uint64_t magic;
    std::uint32_t version;
  } start{};
  const bool is_page = fstat(fd, &file) == 0 && S_ISREG(file.st_mode) &&
                       pread(fd, &start, sizeof start, 0) == sizeof start && start.magic == kStatsPageMagic;
  if (!is_page) {
    *problem = path + " is no stats page";
  } else if (start.version != kStatsPageVersion || file.st_size != sizeof(StatsPageLayout)) {
    *problem = path + " is of another version of Tidepool (" + std::to_string(start.version) +
               ", this command knows " + std::to_string(kStatsPageVersion) + ")";
  } else {
    void* const at = mmap(nullptr, sizeof(StatsPageLayout), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) {
      *problem = path + " cannot be mapped: " + std::strerror(errno);
    } else if (auto* const page = static_cast<StatsPageLayout*>(at); page->metric_count != kMetricCount) {
      *problem = path + " is of another version of Tidepool";
      munmap(at, sizeof(StatsPageLayout));
    } else {
      opened = LivePage(path, page);
    }
  }
  close(fd);
  return opened;
}

std::string LivePage::program() const {
  return {page_->program, strnlen(page_->program, sizeof page_->program)};
}

std::string LivePage::run_id() const {
  return {page_->run_id, strnlen(page_->run_id, sizeof page_->run_id)};
}

bool LivePage::is_live() const {
  const Mapped mapped = mapped_page(pid());
  return !mapped.gone && mapped.path == path_;
}

std::vector<LivePage> live_pages_in(const std::string& folder, std::string* problem) {
  std::vector<LivePage> pages;
  bool any = false;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (!entry->path().filename().string().starts_with(kFilePrefix)) continue;
    std::optional<LivePage> opened = LivePage::open(entry->path().string(), problem);
    any = any || opened;
    if (opened && opened->is_live()) pages.push_back(std::move(*opened));
  }
  if (error) {
    *problem = folder + " cannot be read: " + error.message();
  } else if (pages.empty() && any) {
    *problem = "no process of " + folder + " runs any more";
  } else if (pages.empty() && problem->empty()) {
    *problem = folder + " holds nothing of a run: no stats.PID of this version";
  }
  std::sort(pages.begin(), pages.end(),
            [](const LivePage& a, const LivePage& b) { return a.pid() < b.pid(); });
  return pages;
}

std::vector<LivePage> live_pages_of(pid_t pid, std::string* problem) {
  std::vector<LivePage> pages;
  const Mapped own = mapped_page(pid);
  if (own.problem == ENOENT || own.problem == ESRCH) {
    *problem = "there is no " + process(pid);
  } else if (own.problem != 0) {
    *problem = process(pid) + " belongs to another user";
  } else if (own.gone) {
    *problem = process(pid) + " outlived its run, whose folder is gone. Give the next run a --run-dir";
  }
  if (!problem->empty()) return pages;
  // A run inside a run is a process of the outer one, with processes of its own.
  struct Seen {
    pid_t pid;
    std::string path;
    std::string run_id;
    bool is_taken = false;
  };
  std::vector<Seen> seen;
  for (const pid_t each : visible_processes()) {
    const Mapped mapped = mapped_page(each);
    if (mapped.path.empty() || mapped.gone) continue;
    std::string ignored;
    const std::optional<LivePage> opened = LivePage::open(mapped.path, &ignored);
    // This command maps pages as well, and a program may have forked with one.
    if (opened && opened->pid() == each) seen.push_back({each, mapped.path, opened->run_id()});
  }
  std::vector<pid_t> runs = {pid};
  for (std::size_t i = 0; i < runs.size(); ++i) {
    for (Seen& process : seen) {
      if (process.is_taken || !process.run_id.starts_with(std::to_string(runs[i]) + "-")) continue;
      process.is_taken = true;
      runs.push_back(process.pid);
    }
  }
  for (const Seen& process : seen) {
    std::string ignored;
    if (!process.is_taken) continue;
    if (std::optional<LivePage> page = LivePage::open(process.path, &ignored))
      pages.push_back(std::move(*page));
  }
  if (pages.empty() && !own.path.empty()) {
    if (std::optional<LivePage> page = LivePage::open(own.path, problem)) pages.push_back(std::move(*page));
    return pages;
  }
  if (pages.empty())
    *problem = process(pid) + " does not run under Tidepool, or has no run folder. Start it by tidepool run";
  return pages;
}

}  // namespace tidepool::tools
