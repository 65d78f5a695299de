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
  for (const auto list : {&ReportPage::unknown, &ReportPage::unsupported, &ReportPage::export_tables}) {
    const ReportPage::NameList& from = g_private_page.*list;
    const std::uint32_t used = from.used.load(std::memory_order_relaxed);
    for (std::uint32_t i = 0; i < used; ++i) {
      copy_text((to.*list).rows[i].name, from.rows[i].name);
      add((to.*list).rows[i].count, from.rows[i].count.load(std::memory_order_relaxed));
    }
    add((to.*list).other, from.other.load(std::memory_order_relaxed));
    (to.*list).used.store(used, std::memory_order_release);
  }
}

void count_name(ReportPage::NameList ReportPage::*which, const char* name) {
  const std::scoped_lock lock(text_mutex());
  ReportPage::NameList& list = page().*which;
  const std::uint32_t used = list.used.load(std::memory_order_relaxed);
  for (std::uint32_t i = 0; i < used; ++i) {
    if (std::strncmp(list.rows[i].name, name, sizeof list.rows[i].name - 1) == 0)
      return add(list.rows[i].count);
  }
  if (used == ReportPage::NameList::kMax) return add(list.other);
  copy_text(list.rows[used].name, name);
  add(list.rows[used].count);
  list.used.store(used + 1, std::memory_order_release);
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
  count_name(&ReportPage::unknown, name);
}
void note_unsupported(const char* name) noexcept {
  count_name(&ReportPage::unsupported, name);
}
void note_export_table(const char* id) noexcept {
  count_name(&ReportPage::export_tables, id);
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
