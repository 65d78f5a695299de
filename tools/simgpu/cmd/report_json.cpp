#include "tools/simgpu/cmd/report_json.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <string_view>

namespace simgpu::cmd {
namespace {

constexpr const char* kEntryNames[] = {
#define SIMGPU_ENTRY(base, exported, since, twin) #exported,
#include "tools/simgpu/driver/entries.def"
#undef SIMGPU_ENTRY
};
static_assert(std::size(kEntryNames) <= ReportPage::kMaxEntries);

std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(static_cast<unsigned char>(c)));
      out += escape;
    } else {
      out += c;
    }
  }
  return out + '"';
}

template <class T>
std::string number(const std::atomic<T>& value) {
  return std::to_string(value.load(std::memory_order_relaxed));
}

std::string transfer(const TransferCount& t) {
  return "{ \"count\": " + number(t.count) + ", \"bytes\": " + number(t.bytes) + " }";
}

std::string counts(const std::map<std::string, std::uint64_t>& rows) {
  std::string out = "{";
  const char* separator = "\n    ";
  for (const auto& [name, count] : rows) {
    out += separator + json_string(name) + ": " + std::to_string(count);
    separator = ",\n    ";
  }
  return out + (rows.empty() ? "}" : "\n  }");
}

std::map<std::string, std::uint64_t> calls_made(const ReportPage& page) {
  std::map<std::string, std::uint64_t> rows;
  for (std::size_t i = 0; i < std::size(kEntryNames); ++i) {
    const std::uint64_t count = page.calls[i].load(std::memory_order_relaxed);
    if (count != 0) rows.emplace(kEntryNames[i], count);
  }
  return rows;
}

std::map<std::string, std::uint64_t> names(const ReportPage::NameList& list) {
  std::map<std::string, std::uint64_t> rows;
  const std::size_t n = std::min<std::size_t>(list.used.load(), ReportPage::NameList::kMax);
  for (std::size_t i = 0; i < n; ++i) rows[list.rows[i].name] += list.rows[i].count.load();
  return rows;
}

std::string error_texts(const ReportPage& page) {
  std::string out = "[";
  const std::size_t n = std::min<std::size_t>(page.errors_total.load(), ReportPage::kMaxErrors);
  for (std::size_t i = 0; i < n; ++i)
    out += (i == 0 ? "\n    " : ",\n    ") + json_string(page.errors[i].text);
  return out + (n == 0 ? "]" : "\n  ]");
}

std::string member(const char* name, const std::string& value) {
  return std::string("  \"") + name + "\": " + value;
}

std::string device_json(const DeviceConfig& config) {
  return "{ \"name\": " + json_string(static_cast<const char*>(config.name)) +
         ", \"memory_bytes\": " + std::to_string(config.memory_bytes) + ", \"compute_capability\": \"" +
         std::to_string(config.compute_major) + "." + std::to_string(config.compute_minor) + "\" }";
}

std::string memory_json(const DeviceUse& use) {
  return "{ \"physical_now_bytes\": " + number(use.now) + ", \"physical_peak_bytes\": " + number(use.peak) +
         ", \"plain_now_bytes\": " + number(use.plain_now) + ", \"vmm_now_bytes\": " + number(use.vmm_now) +
         " }";
}

std::unique_ptr<ReportPage> all_processes(const Machine& machine) {
  auto sum = std::make_unique<ReportPage>();
  add_report(sum.get(), machine.departed);
  for (const ProcessSlot& slot : machine.processes) add_report(sum.get(), slot.report);
  return sum;
}

}  // namespace

std::string report_json(const Machine& machine, const Ending& ending) {
  const bool by_signal = ending.signal != 0;
  const std::unique_ptr<ReportPage> sum = all_processes(machine);
  const ReportPage& page = *sum;
  const std::int32_t first = machine.processes[0].pid.load();
  const std::uint32_t count = machine.process_count.load();
  const std::string members[] = {
      member("schema", json_string("simgpu.report/1")),
      member("device", device_json(machine.config.devices[0])),
      member("seed", std::to_string(machine.config.seed)),
      member("schedule",
             json_string(machine.config.schedule == Schedule::kInOrder ? "inorder" : "adversarial")),
      member("command", "{ \"exit_code\": " + (by_signal ? "null" : std::to_string(ending.exit_code)) +
                            ", \"signal\": " + (by_signal ? std::to_string(ending.signal) : "null") + " }"),
      member("pid", first == 0 ? "null" : std::to_string(first)),
      member("other_processes", std::to_string(count == 0 ? 0 : count - 1)),
      member("memory", memory_json(machine.memory[0].use)),
      member("copies", "{\n    \"h2d\": " + transfer(page.h2d) + ",\n    \"d2h\": " + transfer(page.d2h) +
                           ",\n    \"d2d\": " + transfer(page.d2d) + ",\n    \"h2h\": " + transfer(page.h2h) +
                           "\n  }"),
      member("memsets", transfer(page.memset)),
      member("operations", "{ \"executed\": " + number(page.operations_executed) +
                               ", \"kernels\": " + number(page.kernels_executed) +
                               ", \"dropped\": " + number(page.operations_dropped) +
                               ", \"longest_queue\": " + number(page.longest_queue) + " }"),
      member("calls", counts(calls_made(page))),
      member("not_supported", counts(names(page.unsupported))),
      member("not_supported_not_listed", number(page.unsupported.other)),
      member("unknown_entry_points", counts(names(page.unknown))),
      member("unknown_entry_points_not_listed", number(page.unknown.other)),
      member("export_tables", counts(names(page.export_tables))),
      member("errors_total", number(page.errors_total)),
      member("errors", error_texts(page)),
  };
  std::string out = "{\n";
  for (std::size_t i = 0; i < std::size(members); ++i)
    out += members[i] + (i + 1 == std::size(members) ? "\n" : ",\n");
  return out + "}\n";
}

}  // namespace simgpu::cmd
