#include <algorithm>
#include <cstdio>
#include <utility>
#include <vector>

#include "allocator/support/units.h"
#include "tools/simgpu/cmd/report.h"

namespace simgpu::cmd {
namespace {

constexpr std::size_t kShownNames = 6;

std::string bytes_text(std::uint64_t bytes) {
  return tidepool::BytesText(tidepool::Bytes(bytes)).c_str();
}

std::string line(const std::string& label, const std::string& value) {
  constexpr std::size_t kColumn = 15;
  std::string out = "  " + label;
  out.append(kColumn - std::min(kColumn, label.size()), ' ');
  return out + value + "\n";
}

std::string transfer(const char* name, const TransferCount& count) {
  return std::string(name) + " " + std::to_string(count.count.load()) + " (" +
         bytes_text(count.bytes.load()) + ")";
}

std::uint64_t total(const std::map<std::string, std::uint64_t>& rows) {
  std::uint64_t sum = 0;
  for (const auto& [name, count] : rows) sum += count;
  return sum;
}

/// "cuLaunchKernel 21, cuMemAlloc_v2 4 and 7 more", the most frequent first.
std::string most(const std::map<std::string, std::uint64_t>& rows) {
  std::vector<std::pair<std::string, std::uint64_t>> sorted(rows.begin(), rows.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string out;
  for (std::size_t i = 0; i < std::min(sorted.size(), kShownNames); ++i) {
    out += (i == 0 ? "" : ", ") + sorted[i].first + " " + std::to_string(sorted[i].second);
  }
  if (sorted.size() > kShownNames) out += " and " + std::to_string(sorted.size() - kShownNames) + " more";
  return out;
}

std::string device_lines(const Machine& machine) {
  std::string out;
  for (std::size_t i = 0; i < machine.config.device_count; ++i) {
    const DeviceConfig& config = machine.config.devices[i];
    const DeviceUse& use = machine.memory[i].use;
    const std::string label = machine.config.device_count == 1 ? "device" : "device " + std::to_string(i);
    out += line(label, std::string(config.name) + ", " + bytes_text(config.memory_bytes) + "; peak " +
                           bytes_text(use.peak.load()) + ", at the end " + bytes_text(use.now.load()));
  }
  return out;
}

std::string seconds(std::uint64_t nanos) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6f s", static_cast<double>(nanos) / 1e9);
  return text;
}

/// "1 race", "2 races".
std::string counted(std::uint64_t n, const char* one, const char* many) {
  return std::to_string(n) + " " + (n == 1 ? one : many);
}

/// Virtual time: the longest of the processes, and how long the engines of each device worked in it.
std::string time_text(const Machine& machine, const ReportPage& page) {
  std::string out = seconds(page.virtual_ns.load());
  for (std::size_t i = 0; i < machine.config.device_count; ++i) {
    out += i == 0 ? "; compute " : "; next device: compute ";
    out += seconds(page.busy_ns[i][0].load()) + ", copies in " + seconds(page.busy_ns[i][1].load()) +
           ", out " + seconds(page.busy_ns[i][2].load());
  }
  return out;
}

/// Kernels without CPU body: what such a program computes are digests, and it should be said.
std::string digest_lines(const ReportPage& page) {
  const auto kernels = digests_run(page);
  const std::uint64_t all = total(kernels) + digests_not_listed(page);
  if (all == 0) return "";
  std::string out =
      line("digests", counted(all, "launch", "launches") +
                          " of kernels that have no CPU body: their results are digests: " + most(kernels));
  const auto unknown = names_of(page.digests_unknown);
  if (!unknown.empty()) out += line("unknown roles", most(unknown));
  return out;
}

}  // namespace

std::string report_text(const Machine& machine) {
  const std::unique_ptr<ReportPage> sum = all_processes(machine);
  const ReportPage& page = *sum;
  const std::uint32_t processes = machine.process_count.load();
  std::string out = "simgpu: what the devices did\n" + device_lines(machine);
  if (processes != 1) out += line("processes", std::to_string(processes) + " used CUDA");
  out += line("copies", transfer("h2d", page.h2d) + "  " + transfer("d2h", page.d2h) + "  " +
                            transfer("d2d", page.d2d));
  out += line("work", std::to_string(page.kernels_executed.load()) + " kernels, " +
                          std::to_string(page.operations_executed.load()) + " operations, longest queue " +
                          std::to_string(page.longest_queue.load()));
  out += digest_lines(page);
  auto calls = calls_made(page);
  const std::uint64_t all = total(calls);
  // Lookups are many and say nothing.
  calls.erase("cuGetProcAddress");
  calls.erase("cuGetProcAddress_v2");
  out += line("calls", std::to_string(all) + "; the most frequent: " + most(calls));
  if (machine.config.clock == ClockMode::kVirtual) out += line("time", time_text(machine, page));
  if (page.races_total.load() != 0 || page.possible_races_total.load() != 0) {
    out += line("races", std::to_string(page.races_total.load()) + ", and " +
                             std::to_string(page.possible_races_total.load()) +
                             " possible ones; the first: " + page.races[0].text);
  }
  if (page.operations_dropped.load() != 0) {
    out += line("dropped", std::to_string(page.operations_dropped.load()) + " operations after an error");
  }
  const auto unsupported = names_of(page.unsupported);
  if (!unsupported.empty()) out += line("not supported", most(unsupported));
  const auto unknown = names_of(page.unknown);
  if (!unknown.empty()) out += line("unknown names", most(unknown));
  if (page.faults.load() != 0)
    out += line("faults", std::to_string(page.faults.load()) + " put in by the plan");
  if (page.warnings_total.load() != 0) {
    out += line("warnings",
                std::to_string(page.warnings_total.load()) + "; the first: " + page.warnings[0].text);
  }
  if (page.errors_total.load() != 0) {
    out += line("errors", std::to_string(page.errors_total.load()) + "; the first: " + page.errors[0].text);
  }
  return out;
}

std::string digest_note(const Machine& machine) {
  const std::unique_ptr<ReportPage> sum = all_processes(machine);
  const std::size_t kernels = digests_run(*sum).size();
  if (kernels == 0) return "";
  const bool one = kernels == 1;
  const std::string lists = std::string(kernels > kShownNames ? "--report FILE" : "--summary") + " lists ";
  return std::string("simgpu: ") + (digests_not_listed(*sum) != 0 ? "at least " : "") +
         counted(kernels, "kernel has", "kernels have") + " no CPU body and ran as " +
         (one ? "a digest: its" : "digests: their") + " numbers mean nothing (" + lists +
         (one ? "it)\n" : "them)\n");
}

std::string findings(const Machine& machine) {
  const std::unique_ptr<ReportPage> sum = all_processes(machine);
  const std::uint64_t races = sum->races_total;
  const std::uint64_t errors = sum->errors_total;
  std::string out;
  if (races != 0) out += counted(races, "race", "races");
  if (races != 0 && errors != 0) out += " and ";
  if (errors != 0) out += counted(errors, "error", "errors");
  return out;
}

}  // namespace simgpu::cmd
