#include "tools/simgpu/cmd/report.h"

#include <algorithm>
#include <iterator>

namespace simgpu::cmd {
namespace {

constexpr const char* kEntryNames[] = {
#define SIMGPU_ENTRY(base, exported, since, twin) #exported,
#include "tools/simgpu/driver/entries.def"
#undef SIMGPU_ENTRY
};
static_assert(std::size(kEntryNames) <= ReportPage::kMaxEntries);

}  // namespace

std::unique_ptr<ReportPage> all_processes(const Machine& machine) {
  auto sum = std::make_unique<ReportPage>();
  add_report(sum.get(), machine.departed);
  for (const ProcessSlot& slot : machine.processes) {
    if (slot.departed.load() == 0) add_report(sum.get(), slot.report);
  }
  return sum;
}

std::map<std::string, std::uint64_t> calls_made(const ReportPage& page) {
  std::map<std::string, std::uint64_t> rows;
  for (std::size_t i = 0; i < std::size(kEntryNames); ++i) {
    const std::uint64_t count = page.calls[i].load(std::memory_order_relaxed);
    if (count != 0) rows.emplace(kEntryNames[i], count);
  }
  return rows;
}

std::map<std::string, std::uint64_t> names_of(const ReportPage::NameList& list) {
  std::map<std::string, std::uint64_t> rows;
  const std::size_t n = std::min<std::size_t>(list.used.load(), ReportPage::NameList::kMax);
  for (std::size_t i = 0; i < n; ++i) rows[list.rows[i].name] += list.rows[i].count.load();
  return rows;
}

std::map<std::string, std::uint64_t> digests_run(const ReportPage& page) {
  std::map<std::string, std::uint64_t> rows;
  for (const ReportPage::NameList* list :
       {&page.digests_known, &page.digests_inferred, &page.digests_unknown}) {
    for (const auto& [name, count] : names_of(*list)) rows[name] += count;
  }
  return rows;
}

std::uint64_t digests_not_listed(const ReportPage& page) {
  return page.digests_known.other + page.digests_inferred.other + page.digests_unknown.other;
}

std::size_t error_texts(const ReportPage& page) {
  return std::min<std::size_t>(page.errors_total.load(), ReportPage::kMaxErrors);
}

}  // namespace simgpu::cmd
