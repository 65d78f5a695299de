#include "tools/simgpu/machine/report_page.h"

#include <algorithm>
#include <cstring>

namespace simgpu {
namespace {

using Counter = std::atomic<std::uint64_t>;

void add(Counter& into, const Counter& from) {
  into.fetch_add(from.load(std::memory_order_relaxed), std::memory_order_relaxed);
}

void add(TransferCount& into, const TransferCount& from) {
  add(into.count, from.count);
  add(into.bytes, from.bytes);
}

void add_name(ReportPage::NameList* into, const ReportPage::NameList::Row& row) {
  const std::size_t used = std::min<std::size_t>(into->used.load(), ReportPage::NameList::kMax);
  for (std::size_t i = 0; i < used; ++i) {
    if (std::strcmp(into->rows[i].name, row.name) == 0) return add(into->rows[i].count, row.count);
  }
  if (used == ReportPage::NameList::kMax) return add(into->other, row.count);
  std::memcpy(into->rows[used].name, row.name, sizeof row.name);
  add(into->rows[used].count, row.count);
  into->used.store(static_cast<std::uint32_t>(used + 1));
}

void add(ReportPage::NameList& into, const ReportPage::NameList& from) {
  const std::size_t used = std::min<std::size_t>(from.used.load(), ReportPage::NameList::kMax);
  for (std::size_t i = 0; i < used; ++i) add_name(&into, from.rows[i]);
  add(into.other, from.other);
}

void add_texts(ReportPage::ErrorText* into, Counter* into_total, const ReportPage::ErrorText* from,
               const Counter& from_total) {
  const std::size_t count = std::min<std::size_t>(from_total.load(), ReportPage::kMaxErrors);
  std::size_t next = std::min<std::size_t>(into_total->load(), ReportPage::kMaxErrors);
  for (std::size_t i = 0; i < count && next < ReportPage::kMaxErrors; ++i) into[next++] = from[i];
  add(*into_total, from_total);
}

}  // namespace

void add_report(ReportPage* into, const ReportPage& from) {
  for (std::size_t i = 0; i < ReportPage::kMaxEntries; ++i) add(into->calls[i], from.calls[i]);
  add(into->h2d, from.h2d);
  add(into->d2h, from.d2h);
  add(into->d2d, from.d2d);
  add(into->h2h, from.h2h);
  add(into->memset, from.memset);
  for (std::size_t device = 0; device < timing::kDevices; ++device) {
    for (std::size_t engine = 0; engine < timing::kEngines; ++engine) {
      add(into->busy_ns[device][engine], from.busy_ns[device][engine]);
    }
  }
  add(into->kernels_executed, from.kernels_executed);
  add(into->operations_executed, from.operations_executed);
  add(into->operations_dropped, from.operations_dropped);
  into->longest_queue.store(std::max(into->longest_queue.load(), from.longest_queue.load()));
  add(into->faults, from.faults);
  add(into->unknown, from.unknown);
  add(into->unsupported, from.unsupported);
  add(into->export_tables, from.export_tables);
  if (from.static_runtime.load() != 0) into->static_runtime.store(1);
  add(into->digests_known, from.digests_known);
  add(into->digests_inferred, from.digests_inferred);
  add(into->digests_unknown, from.digests_unknown);
  add(into->digest_pointers, from.digest_pointers);
  add(into->stray_pointers, from.stray_pointers);
  add(into->races_total, from.races_total);
  add(into->possible_races_total, from.possible_races_total);
  add_texts(into->races, &into->races_listed, from.races, from.races_listed);
  into->virtual_ns.store(std::max(into->virtual_ns.load(), from.virtual_ns.load()));
  add_texts(into->warnings, &into->warnings_total, from.warnings, from.warnings_total);
  add_texts(into->errors, &into->errors_total, from.errors, from.errors_total);
}

}  // namespace simgpu
