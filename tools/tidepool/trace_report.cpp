#include "tools/tidepool/trace_report.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "allocator/support/units.h"
#include "planner/plan/iteration.h"
#include "planner/plan/trace_reader.h"

namespace tidepool::tools {
namespace {

namespace fs = std::filesystem;
using namespace tidepool::plan;

constexpr std::size_t kShownFrames = 4;
constexpr std::size_t kShownKernels = 5;
constexpr std::size_t kShownName = 80;
// Durations come soon after their launch.
constexpr std::size_t kLaunchesKept = 1 << 16;

std::string bytes_text(std::uint64_t n) {
  return BytesText(Bytes(n)).c_str();
}

std::string duration_text(std::uint64_t ns) {
  char text[kUnitTextBytes];
  return format_duration(text, sizeof text, Nanos(static_cast<std::int64_t>(ns)));
}

/// The name as in the source.
std::string readable(const std::string& symbol) {
  char* const demangled = abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, nullptr);
  std::string name = demangled != nullptr ? demangled : symbol;
  std::free(demangled);
  return name;
}

std::string cut(const std::string& name) {
  return name.size() > kShownName ? name.substr(0, kShownName - 3) + "..." : name;
}

/// "1 launch", "2 launches".
std::string counted(std::uint64_t n, const char* one, const char* many) {
  return std::to_string(n) + " " + (n == 1 ? one : many);
}

/// Blocks that are counted as one: of one size from one place in the program, or, where that is not known,
/// one block from its allocation to its free.
struct Place {
  std::uint64_t bytes = 0;
  std::uint32_t stack = 0;
  std::uint64_t life = 0;  ///< sequence number of the allocation; 0 if the stack is known
  auto operator<=>(const Place&) const = default;
};

struct Moves {
  std::uint64_t blocks = 0;
  std::uint64_t out = 0;
  std::uint64_t in = 0;
  std::uint64_t bytes = 0;
};

/// Collects what the report says from the records.
class Tally {
 public:
  void add(const RecordHead& head, const AnyRecord& record) {
    threads_.insert(head.thread);
    last_tick_ = std::max(last_tick_, head.tick);
    std::visit([&](const auto& typed) { take(head, typed); }, record);
  }

  void finish(const TraceReader& reader) {
    totals.threads = threads_.size();
    totals.kernels = kernels_.size();
    totals.time_ns = static_cast<std::uint64_t>(reader.time_of(last_tick_).count());
  }

  /// The places that moved most bytes.
  [[nodiscard]] std::vector<TraceReport::Moved> top_blocks(std::size_t most) const {
    std::vector<std::pair<Place, Moves>> sorted;
    for (const auto& [place, moves] : moves_) {
      if (moves.bytes > 0) sorted.emplace_back(place, moves);
    }
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const auto& a, const auto& b) { return a.second.bytes > b.second.bytes; });
    sorted.resize(std::min(sorted.size(), most));
    std::vector<TraceReport::Moved> blocks;
    blocks.reserve(sorted.size());
    for (const auto& [place, moves] : sorted) {
      blocks.push_back(
          {moves.bytes, moves.blocks, place.bytes, moves.out, moves.in, stack_text(place.stack)});
    }
    return blocks;
  }

  /// The kernels that took most of the device time that was measured.
  [[nodiscard]] std::vector<TraceReport::Kernel> top_kernels(std::size_t most) const {
    std::vector<TraceReport::Kernel> sorted;
    for (const auto& [id, kernel] : kernels_) {
      if (kernel.timed > 0) sorted.push_back(kernel);
    }
    std::sort(sorted.begin(), sorted.end(),
              [](const auto& a, const auto& b) { return a.ns != b.ns ? a.ns > b.ns : a.name < b.name; });
    sorted.resize(std::min(sorted.size(), most));
    return sorted;
  }

  /// What was timed; empty if nothing was.
  [[nodiscard]] std::string timing() const {
    if (totals.timed == 0) return "";
    std::string text = duration_text(totals.device_ns) + " of device time at most in " +
                       counted(totals.timed, "launch", "launches");
    if (profile_.host_ns > 0)
      text += "; timing them took " + duration_text(profile_.host_ns) + " of the program's";
    if (profile_.skipped > 0) text += "; " + std::to_string(profile_.skipped) + " could not be timed";
    return text;
  }

  /// What each device had, where there were several.
  [[nodiscard]] std::vector<std::string> devices() const {
    std::vector<std::string> lines;
    for (const auto& [device, has] : devices_) {
      lines.push_back("device " + std::to_string(device) + ": " +
                      counted(has.allocations, "allocation", "allocations") + ", " + bytes_text(has.most) +
                      " at most; " + bytes_text(has.out) + " went out, " + bytes_text(has.in) + " came in");
    }
    return devices_.size() > 1 ? lines : std::vector<std::string>();
  }

  TraceTotals totals;

 private:
  struct Device {
    std::uint64_t allocations = 0;
    std::uint64_t now = 0;
    std::uint64_t most = 0;
    std::uint64_t out = 0;
    std::uint64_t in = 0;
  };
  void take(const RecordHead&, const ThreadRecord&) {}
  void take(const RecordHead&, const DeviceRecord& record) {
    if (record.is_observed) totals.is_observed = true;
  }
  void take(const RecordHead&, const KernelRecord& record) {
    kernels_[record.kernel].name = readable(std::string(record.name));
  }
  void take(const RecordHead&, const ModuleRecord& record) { modules_[record.module] = record.path; }
  void take(const RecordHead&, const StackRecord& record) {
    stacks_[record.stack].assign(record.frames.begin(), record.frames.end());
  }
  void take(const RecordHead& head, const AllocationRecord& record) {
    ++totals.allocations;
    Device& device = devices_[record.device];
    ++device.allocations;
    device.now += record.bytes;
    device.most = std::max(device.most, device.now);
    device_of_[record.block] = record.device;
    if ((record.flags & AllocationRecord::kShared) != 0) return;  // shared blocks do not move
    const Place place{record.bytes, record.stack, record.stack == 0 ? head.sequence + 1 : 0};
    live_[record.block] = place;
    ++moves_[place].blocks;
  }
  void take(const RecordHead&, const FreeRecord& record) {
    ++totals.frees;
    const auto device = device_of_.find(record.block);
    if (device == device_of_.end()) return;
    std::uint64_t& now = devices_[device->second].now;
    now -= std::min(now, record.bytes);
  }
  void take(const RecordHead& head, const LaunchRecord& record) {
    ++totals.launches;
    launches_.emplace_back(head.sequence, record.kernel);
    if (launches_.size() > kLaunchesKept) launches_.pop_front();
  }
  void take(const RecordHead&, const DurationRecord& record) {
    const auto launch = std::lower_bound(launches_.begin(), launches_.end(), std::pair(record.launch, 0u));
    if (launch == launches_.end() || launch->first != record.launch) return;
    TraceReport::Kernel& kernel = kernels_[launch->second];
    ++kernel.timed;
    ++totals.timed;
    kernel.ns += record.ns;
    totals.device_ns += record.ns;
  }
  void take(const RecordHead&, const ProfileRecord& record) { profile_ = record; }
  void take(const RecordHead&, const CopyRecord&) { ++totals.copies; }
  void take(const RecordHead&, const MoveRecord& record) {
    const auto live = live_.find(record.block);
    Moves& moves = moves_[live == live_.end() ? Place{record.bytes, 0, 0} : live->second];
    if (record.kind != MoveKind::kOut && record.kind != MoveKind::kIn) return;
    const bool is_out = record.kind == MoveKind::kOut;
    ++(is_out ? moves.out : moves.in);
    moves.bytes += record.bytes;
    ++(is_out ? totals.blocks_out : totals.blocks_in);
    (is_out ? totals.bytes_out : totals.bytes_in) += record.bytes;
    const auto on = device_of_.find(record.block);
    if (on == device_of_.end()) return;
    Device& device = devices_[on->second];
    (is_out ? device.out : device.in) += record.bytes;
  }
  void take(const RecordHead&, const IterationRecord&) {}

  /// "train+0x1449 < train+0x14e2 < ...": from the first frame on that is not CUDA's or ours.
  [[nodiscard]] std::string stack_text(std::uint32_t stack) const {
    const auto found = stacks_.find(stack);
    if (found == stacks_.end()) return "";
    std::span<const Frame> frames = found->second;
    while (frames.size() > 1 && is_plumbing(module_name(frames[0]))) frames = frames.subspan(1);
    std::string text;
    for (const Frame& frame : frames.first(std::min(frames.size(), kShownFrames))) {
      char offset[24];
      std::snprintf(offset, sizeof offset, "0x%llx", static_cast<unsigned long long>(frame.offset));
      const std::string module = module_name(frame);
      text += (text.empty() ? "" : " < ") + module + (module.empty() ? "" : "+") + offset;
    }
    return text + (frames.size() > kShownFrames ? " < ..." : "");
  }
  [[nodiscard]] std::string module_name(const Frame& frame) const {
    const auto module = modules_.find(frame.module);
    return module == modules_.end() ? "" : fs::path(module->second).filename().string();
  }
  static bool is_plumbing(const std::string& module) {
    return module.starts_with("libcudart") || module.starts_with("libcuda.") ||
           module.starts_with("libtidepool");
  }

  std::set<std::uint32_t> threads_;
  std::uint64_t last_tick_ = 0;
  std::unordered_map<std::uint32_t, TraceReport::Kernel> kernels_;
  std::deque<std::pair<std::uint64_t, std::uint32_t>> launches_;  ///< the last ones: sequence number, kernel
  ProfileRecord profile_;
  std::map<Place, Moves> moves_;
  std::map<std::uint32_t, Device> devices_;                     ///< by ordinal
  std::unordered_map<std::uint32_t, std::uint32_t> device_of_;  ///< of blocks, the last allocation's
  std::unordered_map<std::uint32_t, Place> live_;
  std::unordered_map<std::uint32_t, std::string> modules_;
  std::unordered_map<std::uint32_t, std::vector<Frame>> stacks_;
};

std::string operations_line(const TraceTotals& t) {
  return counted(t.launches + t.allocations + t.frees + t.copies, "operation", "operations") + " in " +
         duration_text(t.time_ns) + ", " + counted(t.threads, "thread", "threads") + ": " +
         counted(t.launches, "launch", "launches") + " of " + counted(t.kernels, "kernel", "kernels") + ", " +
         counted(t.allocations, "allocation", "allocations") + ", " + counted(t.frees, "free", "frees") +
         ", " + counted(t.copies, "copy", "copies");
}

std::string kernel_line(const TraceReport::Kernel& kernel, const TraceTotals& totals) {
  char percent[16];
  std::snprintf(percent, sizeof percent, "%4.1f",
                100 * static_cast<double>(kernel.ns) /
                    static_cast<double>(std::max<std::uint64_t>(totals.device_ns, 1)));
  return std::string(percent) + " %: " + counted(kernel.timed, "launch", "launches") + " of " +
         duration_text(kernel.ns / kernel.timed) + ", " + cut(kernel.name);
}

std::string block_line(const TraceReport::Moved& moved) {
  return bytes_text(moved.bytes) + ": " + counted(moved.blocks, "block", "blocks") + " of " +
         bytes_text(moved.block_bytes) + ", " + std::to_string(moved.out) + " times out, " +
         std::to_string(moved.in) + " times in" +
         (moved.where.empty() ? "" : "; allocated at " + moved.where);
}

/// What the trace does not hold, and why.
std::vector<std::string> missing(const TraceReader& reader) {
  std::vector<std::string> lines;
  const TraceInfo& info = reader.info();
  const TraceDamage& damage = reader.damage();
  const std::string left_out =
      info.dropped == 0 ? "" : "; " + counted(info.dropped, "record was", "records were") + " left out";
  if (info.end == TraceEnd::kFull) {
    lines.push_back("ends early: it reached its largest size, " + bytes_text(info.max_bytes) +
                    ". Raise --trace-max for more");
  } else if (info.end == TraceEnd::kNoSpace) {
    lines.push_back("ends early: the file could not grow (" + std::string(std::strerror(info.end_errno)) +
                    ")");
  } else if (info.end == TraceEnd::kRunning) {
    lines.push_back("has no end: the process was killed, or still runs" + left_out);
  } else if (!left_out.empty()) {
    lines.push_back("is not whole" + left_out);
  }
  if (damage.missing_bytes > 0)
    lines.push_back("is cut off: " + bytes_text(damage.missing_bytes) + " are missing");
  if (damage.damaged_chunks > 0) {
    lines.push_back("is damaged in " + counted(damage.damaged_chunks, "place", "places") +
                    "; what follows there is lost");
  }
  if (damage.unknown_records > 0) {
    lines.push_back("has " + counted(damage.unknown_records, "record", "records") +
                    " of kinds that this version does not know");
  }
  return lines;
}

}  // namespace

std::vector<std::string> list_traces(const std::string& run_folder) {
  std::vector<std::string> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(run_folder, error)) {
    if (entry.path().extension() == ".tptrace") found.push_back(entry.path().string());
  }
  std::sort(found.begin(), found.end());
  return found;
}

TraceReport read_trace_report(const std::string& path, std::size_t most_blocks) {
  TraceReport report;
  report.path = path;
  const auto say = [&](const char* title, std::string text) {
    report.lines.push_back({title, std::move(text)});
  };
  const TraceFile file(path);
  if (file.error() != 0) {
    say("trace", path + " cannot be read: " + std::strerror(file.error()));
    return report;
  }
  Result<TraceReader, std::string> opened = TraceReader::open(file);
  if (!opened.ok()) {
    say("trace", path + " " + opened.error());
    return report;
  }
  TraceReader& reader = *opened;
  Tally tally;
  IterationFinder finder;
  RecordHead head;
  AnyRecord record;
  while (reader.next(head, record)) {
    tally.add(head, record);
    finder.add(record);
  }
  report.pid = reader.info().pid;
  report.iterations = finder.verdict();
  tally.finish(reader);
  report.totals = tally.totals;
  report.kernels = tally.top_kernels(kShownKernels);
  report.blocks = tally.top_blocks(most_blocks);
  say("trace", operations_line(report.totals));
  for (std::string& line : missing(reader)) say("", std::move(line));
  if (tally.totals.is_observed) say("", "the memory was only watched: nothing moved");
  const char* title = "devices";
  for (std::string& line : tally.devices()) say(std::exchange(title, ""), std::move(line));
  say("steps", describe(report.iterations));
  if (std::string timing = tally.timing(); !timing.empty()) say("kernels", std::move(timing));
  for (const TraceReport::Kernel& kernel : report.kernels) say("", kernel_line(kernel, report.totals));
  if (!report.blocks.empty()) say("blocks", "that moved most bytes:");
  for (const TraceReport::Moved& moved : report.blocks) say("", block_line(moved));
  return report;
}

}  // namespace tidepool::tools
