#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "allocator/support/message.h"
#include "tools/tidepool/command_table.h"
#include "tools/tidepool/commands.h"
#include "tools/tidepool/console.h"
#include "tools/tidepool/ended_rings.h"
#include "tools/tidepool/event_reader.h"
#include "tools/tidepool/json_text.h"
#include "tools/tidepool/run_record.h"
#include "tools/tidepool/stats_reader.h"
#include "tools/tidepool/summary.h"
#include "tools/tidepool/trace_report.h"

namespace tidepool::tools {
namespace {

/// What the rings of a process say; those of a process that called exec are taken together.
struct Recorded {
  std::map<std::string, std::uint64_t> times;       ///< by event
  std::map<std::uint64_t, std::uint64_t> messages;  ///< by code
  std::map<std::uint64_t, std::string> last_text;   ///< of each message
  std::uint64_t lost = 0;
};

/// By process id.
std::map<std::int64_t, Recorded> read_rings(const std::string& folder) {
  std::map<std::int64_t, Recorded> all;
  const std::filesystem::path path(folder);
  for (const std::string& name : list_event_rings(folder)) {
    std::optional<EventReader> reader = EventReader::open((path / name).string());
    if (!reader) continue;
    Recorded& recorded = all[reader->source().pid];
    reader->read(
        [&](const EventSeen& event) {
          ++recorded.times[event.row->name];
          if (event.row->subsystem != Subsystem::message || event.values[0] >= message_rows().size()) return;
          ++recorded.messages[event.values[0]];
          recorded.last_text[event.values[0]] = event.text;
        },
        true);
    recorded.lost += reader->lost();
  }
  return all;
}

std::string duration(std::uint64_t ns) {
  char text[kUnitTextBytes];
  return format_duration(text, sizeof text, Nanos(static_cast<std::int64_t>(ns)));
}

std::string local_time(std::int64_t unix_ns) {
  const std::time_t second = unix_ns / 1'000'000'000;
  std::tm parts{};
  char text[32] = {};
  if (localtime_r(&second, &parts) != nullptr) std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts);
  return text;
}

std::string size_text(std::uint64_t bytes) {
  return BytesText(Bytes(bytes)).c_str();
}

/// Names come from programs, and may hold anything: for a terminal, one line without what steers it.
std::string shown(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; },
      '?');
  return text;
}

void line(const char* title, const std::string& text) {
  std::printf("  %-9s %s\n", title, shown(text).c_str());
}

/// "1.2s; 340 calls found memory missing", then the metrics that name a cause: wait_<cause>_ns_total, which
/// add up to it.
void print_waits(const ProcessStats& p) {
  const std::uint64_t calls = p.get(Metric::slow_path_total);
  line("waited", duration(p.get(Metric::wait_ns_total)) + "; " + std::to_string(calls) +
                     (calls == 1 ? " call" : " calls") + " found memory missing");
  constexpr std::string_view kStart = "wait_";
  constexpr std::string_view kEnd = "_ns_total";
  for (std::size_t i = 0; i < kMetricCount; ++i) {
    const std::string_view name = metric_rows()[i].name;
    if (!name.starts_with(kStart) || !name.ends_with(kEnd) || name.size() <= kStart.size() + kEnd.size())
      continue;
    if (p.values[i] == 0) continue;
    std::string cause(name.substr(kStart.size(), name.size() - kStart.size() - kEnd.size()));
    std::replace(cause.begin(), cause.end(), '_', ' ');
    line("", duration(p.values[i]) + " for " + cause);
  }
}

/// What is known of a process' life.
struct Life {
  std::optional<bool> runs;
  std::optional<Ending> ending;  ///< of the run's own program alone
  Nanos took{};                  ///< where it runs or its ending is known
  bool is_watched = false;
};

Life life_of(const std::string& folder, const ProcessStats& p, const std::vector<ProcessStats>& all) {
  const RunRecord record = read_run_record(folder, p.run_id);
  Life life{is_written(p.path), {}, {}, record.is_watched};
  // Of programs that one process has become by exec, the last.
  const bool is_last = std::none_of(all.begin(), all.end(), [&](const ProcessStats& other) {
    return other.pid == p.pid && other.run_id == p.run_id && other.start_unix_ns > p.start_unix_ns;
  });
  if (is_last && record.ending && record.ending->pid == p.pid) {
    life.runs = false;
    life.ending = record.ending;
    life.took = record.took;
  } else if (life.runs == true) {
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    life.took = Nanos(std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec - p.start_unix_ns);
  }
  return life;
}

/// ", done in 1.2s (exit 0)"
std::string life_text(const Life& life) {
  if (!life.runs) return "";
  const std::string took = duration(static_cast<std::uint64_t>(std::max<std::int64_t>(life.took.count(), 0)));
  if (life.ending) return ", done in " + took + " (" + ended_how(*life.ending) + ")";
  return *life.runs ? ", has run for " + took : ", has ended";
}

std::string life_json(const Life& life) {
  std::string text = std::string("\"state\": ") + (!life.runs   ? "null"
                                                   : *life.runs ? "\"running\""
                                                                : "\"ended\"");
  if (life.ending || life.runs == true) text += ", \"took_ns\": " + std::to_string(life.took.count());
  if (life.ending && life.ending->signal == 0)
    text += ", \"exit_code\": " + std::to_string(life.ending->exit_code);
  if (life.ending && life.ending->signal != 0) text += ", \"signal\": " + std::to_string(life.ending->signal);
  return text + ", \"only_watched\": " + (life.is_watched ? "true" : "false");
}

void print_process(const ProcessStats& p, const Life& life, const Recorded& recorded) {
  std::printf("\nprocess %lld (%s), started %s%s\n", static_cast<long long>(p.pid), shown(p.program).c_str(),
              local_time(p.start_unix_ns).c_str(), life_text(life).c_str());
  line("memory", "n" + needed(p, life.is_watched));
  if (p.get(Metric::library_bytes) > 0)
    line("", size_text(p.get(Metric::library_bytes)) + " held by CUDA libraries for themselves at the end");
  if (const std::uint64_t held = p.get(Metric::held_bytes); p.get(Metric::kept_bytes) > 0) {
    line("", size_text(p.get(Metric::kept_bytes)) + " could not move at the end" +
                 (held > 0 ? ", " + size_text(held) + " of it for graphs and textures" : ""));
  }
  line("host", "at most " + size_text(p.get(Metric::host_bytes_peak)) + " of moved blocks");
  line("moved", std::to_string(p.get(Metric::swap_out_total)) + " blocks out, " +
                    std::to_string(p.get(Metric::swap_in_total)) + " in; " +
                    std::to_string(p.get(Metric::evictions_cancelled_total)) + " moves out taken back");
  if (p.get(Metric::hashes_total) > 0)
    line("", size_text(p.get(Metric::clean_bytes_total)) +
                 " left without a copy, being on the host already; " +
                 std::to_string(p.get(Metric::hashes_total)) + " hashes");
  print_waits(p);
  for (const auto& [code, times] : recorded.messages) {
    const MessageRow& row = message_rows()[code];
    line("message", std::string(row.code) + ", " + std::to_string(times) +
                        (times == 1 ? " time: " : " times, last: ") + recorded.last_text.at(code));
  }
  std::uint64_t seen = 0;
  for (const auto& [name, times] : recorded.times) seen += times;
  if (recorded.lost > 0) {
    line("events", "the last " + std::to_string(seen) + "; " + std::to_string(recorded.lost) +
                       " earlier ones are in the log, if there is one");
  }
}

/// What the traces of the process tell, if it was recorded.
void print_traces(const std::vector<TraceReport>& traces, std::int64_t pid) {
  for (const TraceReport& trace : traces) {
    if (trace.pid != pid) continue;
    for (const TraceReport::Line& each : trace.lines) line(each.title.c_str(), each.text);
  }
}

std::vector<TraceReport> read_traces(const std::string& folder) {
  std::vector<TraceReport> traces;
  for (const std::string& path : list_traces(folder)) traces.push_back(read_trace_report(path));
  return traces;
}

/// The members of a trace's object that its lines tell, each with a comma before it.
std::string totals_json(const TraceReport& trace) {
  const TraceTotals& t = trace.totals;
  std::string text;
  const std::pair<const char*, std::uint64_t> numbers[] = {
      {"launches", t.launches},   {"kernels", t.kernels},       {"allocations", t.allocations},
      {"frees", t.frees},         {"copies", t.copies},         {"threads", t.threads},
      {"time_ns", t.time_ns},     {"blocks_out", t.blocks_out}, {"blocks_in", t.blocks_in},
      {"bytes_out", t.bytes_out}, {"bytes_in", t.bytes_in},     {"timed_launches", t.timed},
      {"device_ns", t.device_ns}};
  for (const auto& [name, number] : numbers) text += ", " + json_quoted(name) + ": " + std::to_string(number);
  text += std::string(", \"only_watched\": ") + (t.is_observed ? "true" : "false") + ", \"top_kernels\": [";
  for (const TraceReport::Kernel& kernel : trace.kernels) {
    text += std::string(&kernel == &trace.kernels.front() ? "" : ", ") +
            "{\"name\": " + json_quoted(kernel.name) +
            ", \"timed_launches\": " + std::to_string(kernel.timed) +
            ", \"device_ns\": " + std::to_string(kernel.ns) + "}";
  }
  text += "], \"top_blocks\": [";
  for (const TraceReport::Moved& moved : trace.blocks) {
    text += std::string(&moved == &trace.blocks.front() ? "" : ", ") +
            "{\"bytes_moved\": " + std::to_string(moved.bytes) +
            ", \"blocks\": " + std::to_string(moved.blocks) +
            ", \"block_bytes\": " + std::to_string(moved.block_bytes) +
            ", \"out\": " + std::to_string(moved.out) + ", \"in\": " + std::to_string(moved.in) +
            ", \"allocated_at\": " + json_quoted(moved.where) + "}";
  }
  return text + "]";
}

/// The members of a process' object that its traces give: an array, empty if it was not recorded.
std::string traces_json(const std::vector<TraceReport>& traces, std::int64_t pid) {
  std::string text;
  for (const TraceReport& trace : traces) {
    if (trace.pid != pid) continue;
    const plan::IterationVerdict& verdict = trace.iterations;
    char confidence[32];
    std::snprintf(confidence, sizeof confidence, "%.6f", verdict.confidence());
    text += (text.empty() ? "" : ", ") + ("{\"path\": " + json_quoted(trace.path)) +
            ", \"operations\": " + std::to_string(verdict.operations) +
            ", \"period\": " + std::to_string(verdict.period) +
            ", \"iterations\": " + std::to_string(verdict.iterations) +
            ", \"exact\": " + std::to_string(verdict.exact) + ", \"confidence\": " + confidence +
            ", \"verdict\": " + json_quoted(describe(verdict)) + totals_json(trace) + "}";
  }
  return "\"traces\": [" + text + "]";
}

void print_json(const std::string& folder, const std::vector<ProcessStats>& processes) {
  std::map<std::int64_t, Recorded> rings = read_rings(folder);
  std::string text =
      "{\"schema\": \"tidepool.report/1\", \"run\": " + json_quoted(folder) + ", \"processes\": [";
  const std::vector<TraceReport> traces = read_traces(folder);
  for (const ProcessStats& p : processes) {
    const Recorded recorded = rings[p.pid];
    text += std::string(&p == &processes.front() ? "" : ",") + "\n {\"pid\": " + std::to_string(p.pid) +
            ", \"program\": " + json_quoted(p.program) +
            ", \"start_unix_ns\": " + std::to_string(p.start_unix_ns) + ", " +
            life_json(life_of(folder, p, processes)) + ",\n  \"metrics\": {";
    for (std::size_t i = 0; i < kMetricCount; ++i) {
      text += std::string(i == 0 ? "" : ", ") + json_quoted(metric_rows()[i].name) + ": " +
              std::to_string(p.values[i]);
    }
    text += "},\n  \"messages\": {";
    for (const auto& [code, times] : recorded.messages) {
      text += std::string(code == recorded.messages.begin()->first ? "" : ", ") +
              json_quoted(message_rows()[code].code) + ": " + std::to_string(times);
    }
    text += "},\n  \"events\": {";
    for (const auto& [name, times] : recorded.times) {
      text += std::string(name == recorded.times.begin()->first ? "" : ", ") + json_quoted(name) + ": " +
              std::to_string(times);
    }
    text +=
        "}, \"events_lost\": " + std::to_string(recorded.lost) + ",\n  " + traces_json(traces, p.pid) + "}";
  }
  std::puts((text + "]}").c_str());
}

/// Why there are no numbers in the folder.
std::string why_nothing(const std::string& folder) {
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string path = entry->path().string();
    if (entry->path().filename().string().starts_with("stats.") && access(path.c_str(), R_OK) != 0)
      return path + " cannot be read: " + std::strerror(errno) + ". A run's folder is its user's alone";
  }
  if (error) return folder + " cannot be read: " + error.message() + ". A run's folder is its user's alone";
  return folder + " holds nothing of a run: no stats.PID of this version";
}

}  // namespace

int report_command(std::span<char*> words) {
  CommandWords got;
  if (const auto code = begin_command("report", words, 1, got)) return *code;
  if (got.words.empty()) {
    say("report: name the folder of a run, its --run-dir");
    return kExitRefused;
  }
  const std::string folder(got.words[0]);
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) {
    say("report: %s is no folder", folder.c_str());
    return kExitRefused;
  }
  std::string other_version;
  std::vector<ProcessStats> processes = read_stats_pages(folder, "", &other_version);
  if (!other_version.empty()) say("warning: %s", other_version.c_str());
  const std::size_t all = processes.size();
  if (all == 0) {
    say("report: %s", why_nothing(folder).c_str());
    return kExitRefused;
  }
  std::erase_if(processes, [](const ProcessStats& p) { return !p.used_cuda(); });
  if (got.has("--json")) return print_json(folder, processes), 0;
  std::printf("%s: %zu of %zu processes asked for device memory\n", folder.c_str(), processes.size(), all);
  std::map<std::int64_t, Recorded> rings = read_rings(folder);
  const std::vector<TraceReport> traces = read_traces(folder);
  for (const ProcessStats& process : processes) {
    print_process(process, life_of(folder, process, processes), rings[process.pid]);
    print_traces(traces, process.pid);
  }
  print_traces(traces, 0);  // those that cannot be read
  return 0;
}

}  // namespace tidepool::tools
