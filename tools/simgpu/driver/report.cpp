#include "tools/simgpu/driver/report.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <mutex>

namespace simgpu {
namespace {

/// Used until cuInit, and for good where no command reads a report.
ReportPage g_private_page{};
std::atomic<ReportPage*> g_page{&g_private_page};
std::mutex& text_mutex() {
  static auto* mutex = new std::mutex;
  return *mutex;
}

template <std::size_t N>
void copy_text(char (&to)[N], const char* from) {
  const std::size_t n = std::min(std::strlen(from), N - 1);
  std::memcpy(to, from, n);
  to[n] = '\0';
}

/// Lookups and calls from before cuInit belong to the process that then owns the page.
void carry_over(ReportPage& to) {
  for (std::size_t i = 0; i < ReportPage::kMaxEntries; ++i) {
    add(to.calls[i], g_private_page.calls[i].load(std::memory_order_relaxed));
  }
  const std::uint32_t unknown = g_private_page.unknown_count.load(std::memory_order_relaxed);
  for (std::uint32_t i = 0; i < unknown; ++i) {
    copy_text(to.unknown[i].name, g_private_page.unknown[i].name);
    to.unknown[i].count.store(g_private_page.unknown[i].count.load(std::memory_order_relaxed),
                              std::memory_order_relaxed);
  }
  to.unknown_count.store(unknown, std::memory_order_release);
}

}  // namespace

ReportPage& page() noexcept {
  return *g_page.load(std::memory_order_acquire);
}

void open_page(const std::string& path) {
  if (path.empty()) return;
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) {
    std::fprintf(stderr, "simgpu: warning: no report: cannot open its page %s\n", path.c_str());
    return;
  }
  void* mapped = ::mmap(nullptr, sizeof(ReportPage), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ::close(fd);
  if (mapped == MAP_FAILED) {
    std::fprintf(stderr, "simgpu: warning: no report: cannot map its page\n");
    return;
  }
  auto* shared = static_cast<ReportPage*>(mapped);
  std::int32_t nobody = 0;
  if (!shared->owner_pid.compare_exchange_strong(nobody, static_cast<std::int32_t>(::getpid()))) {
    shared->other_processes.fetch_add(1);
    ::munmap(mapped, sizeof(ReportPage));
    return;
  }
  const std::scoped_lock lock(text_mutex());
  carry_over(*shared);
  shared->version.store(ReportPage::kVersion, std::memory_order_release);
  g_page.store(shared, std::memory_order_release);
}

void note_unknown_entry(const char* name) noexcept {
  const std::scoped_lock lock(text_mutex());
  ReportPage& p = page();
  const std::uint32_t known = p.unknown_count.load(std::memory_order_relaxed);
  for (std::uint32_t i = 0; i < known; ++i) {
    if (std::strncmp(p.unknown[i].name, name, sizeof p.unknown[i].name - 1) == 0)
      return add(p.unknown[i].count);
  }
  if (known == ReportPage::kMaxUnknown) return add(p.unknown_other);
  copy_text(p.unknown[known].name, name);
  add(p.unknown[known].count);
  p.unknown_count.store(known + 1, std::memory_order_release);
}

void report_error(const std::string& text) {
  const std::scoped_lock lock(text_mutex());
  ReportPage& p = page();
  const std::uint64_t n = p.errors_total.load(std::memory_order_relaxed);
  if (n < ReportPage::kMaxErrors) {
    copy_text(p.errors[n].text, text.c_str());
    std::fprintf(stderr, "simgpu: error: %s\n", text.c_str());
  }
  p.errors_total.store(n + 1, std::memory_order_release);
}

}  // namespace simgpu
