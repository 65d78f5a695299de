#include "tools/simgpu/driver/report.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <new>

namespace simgpu {
namespace {

/// Used until cuInit.
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

void keep_text(ReportPage::ErrorText* rows, std::atomic<std::uint64_t>& total, const char* kind,
               const std::string& text) {
  const std::scoped_lock lock(text_mutex());
  const std::uint64_t n = total.load(std::memory_order_relaxed);
  if (n < ReportPage::kMaxErrors) {
    copy_text(rows[n].text, text.c_str());
    std::fprintf(stderr, "simgpu: %s%s\n", kind, text.c_str());
  }
  total.store(n + 1, std::memory_order_release);
}

}  // namespace

ReportPage& page() noexcept {
  return *g_page.load(std::memory_order_acquire);
}

void use_page(ReportPage* shared) {
  const std::scoped_lock lock(text_mutex());
  add_report(shared, g_private_page);
  new (&g_private_page) ReportPage{};  // a second call must not count it again
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

void note_digest(DigestRoles roles, const char* kernel) noexcept {
  switch (roles) {
    case DigestRoles::kKnown:
      return count_name(&ReportPage::digests_known, kernel);
    case DigestRoles::kInferred:
      return count_name(&ReportPage::digests_inferred, kernel);
    case DigestRoles::kUnknown:
      return count_name(&ReportPage::digests_unknown, kernel);
  }
}

void report_error(const std::string& text) {
  ReportPage& p = page();
  keep_text(p.errors, p.errors_total, "error: ", text);
}

std::string hex(std::uint64_t address) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%" PRIx64, address);
  return text;
}

void report_warning(const std::string& text) {
  ReportPage& p = page();
  keep_text(p.warnings, p.warnings_total, "", text);
}

void report_race(const std::string& text) {
  ReportPage& p = page();
  keep_text(p.races, p.races_listed, "", text);
}

}  // namespace simgpu
