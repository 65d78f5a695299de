#include <algorithm>

#include "tools/simgpu/cmd/json_writer.h"
#include "tools/simgpu/cmd/report.h"

namespace simgpu::cmd {
namespace {

using Layout = JsonWriter::Layout;

void put_transfer(JsonWriter* out, const char* name, const TransferCount& transfer) {
  out->object(name).number("count", transfer.count).number("bytes", transfer.bytes).end();
}

void put_names(JsonWriter* out, const char* name, const std::map<std::string, std::uint64_t>& rows) {
  out->object(name, Layout::kLines);
  for (const auto& [row, count] : rows) out->number(row, count);
  out->end();
}

void put_digests(JsonWriter* out, const ReportPage& page) {
  out->object("digests", Layout::kLines);
  put_names(out, "roles_known", names_of(page.digests_known));
  put_names(out, "roles_inferred", names_of(page.digests_inferred));
  put_names(out, "roles_unknown", names_of(page.digests_unknown));
  out->number("not_listed", digests_not_listed(page));
  out->number("pointers_in_memory", page.digest_pointers);
  out->number("possible_illegal_addresses", page.stray_pointers);
  out->end();
}

/// What one process did, or all of them together.
void put_page(JsonWriter* out, const ReportPage& page) {
  out->object("copies", Layout::kLines);
  put_transfer(out, "h2d", page.h2d);
  put_transfer(out, "d2h", page.d2h);
  put_transfer(out, "d2d", page.d2d);
  put_transfer(out, "h2h", page.h2h);
  out->end();
  put_transfer(out, "memsets", page.memset);
  out->object("operations")
      .number("executed", page.operations_executed)
      .number("kernels", page.kernels_executed)
      .number("dropped", page.operations_dropped)
      .number("longest_queue", page.longest_queue)
      .end();
  put_digests(out, page);
  put_names(out, "calls", calls_made(page));
  put_names(out, "not_supported", names_of(page.unsupported));
  out->number("not_supported_not_listed", page.unsupported.other);
  put_names(out, "unknown_entry_points", names_of(page.unknown));
  out->number("unknown_entry_points_not_listed", page.unknown.other);
  put_names(out, "export_tables", names_of(page.export_tables));
  out->number("faults_injected", page.faults);
  out->object("races", Layout::kLines)
      .number("total", page.races_total)
      .number("possible", page.possible_races_total)
      .array("texts");
  for (std::size_t i = 0; i < std::min<std::size_t>(page.races_listed, ReportPage::kMaxErrors); ++i) {
    out->item(static_cast<const char*>(page.races[i].text));
  }
  out->end().end();
  out->number("virtual_ns", page.virtual_ns);
  out->number("warnings_total", page.warnings_total);
  out->array("warnings");
  for (std::size_t i = 0; i < std::min<std::size_t>(page.warnings_total, ReportPage::kMaxErrors); ++i) {
    out->item(static_cast<const char*>(page.warnings[i].text));
  }
  out->end();
  out->number("errors_total", page.errors_total);
  out->array("errors");
  for (std::size_t i = 0; i < error_texts(page); ++i) {
    out->item(static_cast<const char*>(page.errors[i].text));
  }
  out->end();
}

/// Of all processes together.
void put_device(JsonWriter* out, const DeviceConfig& config, const DeviceUse& use,
                const std::atomic<std::uint64_t> (&busy)[timing::kEngines]) {
  out->element()
      .text("name", static_cast<const char*>(config.name))
      .text("compute_capability",
            std::to_string(config.compute_major) + "." + std::to_string(config.compute_minor))
      .number("memory_bytes", config.memory_bytes)
      .object("memory")
      .number("physical_now_bytes", use.now)
      .number("physical_peak_bytes", use.peak)
      .number("plain_now_bytes", use.plain_now)
      .number("vmm_now_bytes", use.vmm_now)
      .end()
      .object("busy_ns")
      .number("compute", busy[0])
      .number("copy_in", busy[1])
      .number("copy_out", busy[2])
      .number("copy_local", busy[3])
      .end()
      .end();
}

void put_ending(JsonWriter* out, const Ending& ending) {
  out->object("command");
  if (ending.signal != 0) {
    out->null("exit_code").number("signal", static_cast<std::uint64_t>(ending.signal));
  } else {
    out->number("exit_code", static_cast<std::uint64_t>(ending.exit_code)).null("signal");
  }
  out->end();
}

}  // namespace

std::string report_json(const Machine& machine, const Ending& ending) {
  JsonWriter out;
  out.text("schema", "simgpu.report/2");
  out.number("seed", machine.config.seed);
  out.text("schedule", machine.config.schedule == Schedule::kInOrder ? "inorder" : "adversarial");
  out.text("clock", machine.config.clock == ClockMode::kWall ? "wall" : "virtual");
  out.text("host_time", machine.config.host_time == HostTime::kMeasured ? "measured" : "fixed");
  out.number("clock_escapes", machine.time.escapes);
  put_ending(&out, ending);
  const std::unique_ptr<ReportPage> sum = all_processes(machine);
  out.array("devices");
  for (std::size_t i = 0; i < machine.config.device_count; ++i) {
    put_device(&out, machine.config.devices[i], machine.memory[i].use, sum->busy_ns[i]);
  }
  out.end();
  out.number("process_count", machine.process_count);
  put_page(&out, *sum);
  out.array("processes");
  for (const ProcessSlot& slot : machine.processes) {
    const std::int32_t pid = slot.pid.load();
    if (pid == 0) continue;
    out.element().number("pid", static_cast<std::uint64_t>(pid));
    put_page(&out, slot.report);
    out.end();
  }
  out.end();
  return out.take();
}

}  // namespace simgpu::cmd
