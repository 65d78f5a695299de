#include "tools/tidepool/summary.h"

#include <string.h>

#include <cstdint>

namespace tidepool::tools {
namespace {

std::string shown(std::uint64_t bytes) {
  return BytesText(Bytes(bytes)).c_str();
}

std::string swapped(std::uint64_t out, std::uint64_t in, std::uint64_t clean) {
  if (out == 0 && in == 0) return "Nothing had to be swapped.";
  return "Swapped " + shown(out) + " out, " + shown(in) + " in" +
         (clean > 0 ? "; " + shown(clean) + " left that the host still had." : ".");
}

constexpr const char* kWatched = "It was only watched (--mode observe): nothing was managed.";

std::string times(std::uint64_t n) {
  return n == 1 ? "once" : std::to_string(n) + " times";
}

std::string warned(std::uint64_t warnings) {
  if (warnings == 0) return "";
  return " " + std::to_string(warnings) + (warnings == 1 ? " warning." : " warnings.");
}

}  // namespace

std::string needed(const ProcessStats& p, bool is_watched) {
  const std::uint64_t held = p.get(Metric::allocated_bytes_peak);
  const std::uint64_t capacity = p.get(Metric::device_capacity_bytes);
  const std::uint64_t most = p.get(Metric::device_capacity_bytes_peak);
  const std::uint64_t refused = p.get(Metric::out_of_memory_total);
  const std::uint64_t wanted = p.get(Metric::refused_bytes_peak);
  std::string text = "eeded " + shown(held) +
                     (refused > 0        ? " in "
                      : held <= capacity ? " of "
                                         : ", fitted in ") +
                     shown(capacity) + (most > capacity ? ", before in up to " + shown(most) : "") +
                     " (peak " + shown(p.get(Metric::device_resident_bytes_peak)) + "). ";
  if (refused > 0) {
    text += "Out of memory " + times(refused);
    if (wanted > held) text += ", with " + shown(wanted) + " wanted";
    text += ". ";
  }
  if (is_watched) return text + kWatched;
  return text + swapped(p.get(Metric::swap_out_bytes_total), p.get(Metric::swap_in_bytes_total),
                        p.get(Metric::clean_bytes_total));
}

std::string ended_how(const Ending& ending) {
  if (ending.signal == 0) return "exit " + std::to_string(ending.exit_code);
  const char* const name = sigabbrev_np(ending.signal);
  return name != nullptr ? std::string("killed by SIG") + name
                         : "killed by signal " + std::to_string(ending.signal);
}

std::vector<std::string> summary_lines(const std::vector<ProcessStats>& processes, const Ending& ending,
                                       Nanos took, bool verbose, bool is_watched) {
  std::vector<const ProcessStats*> users;
  std::uint64_t out = 0;
  std::uint64_t in = 0;
  std::uint64_t clean = 0;
  std::uint64_t warnings = 0;
  for (const ProcessStats& p : processes) {
    if (!p.used_cuda()) continue;
    users.push_back(&p);
    out += p.get(Metric::swap_out_bytes_total);
    in += p.get(Metric::swap_in_bytes_total);
    clean += p.get(Metric::clean_bytes_total);
    warnings += p.get(Metric::warnings_total);
  }
  char duration[kUnitTextBytes];
  format_duration(duration, sizeof duration, took);
  const std::string done = std::string("done in ") + duration + " (" + ended_how(ending) + "). ";
  if (users.empty()) {
    return verbose
               ? std::vector<
                     std::string>{done +
                                  "No process held device memory that Tidepool manages: none "
                                  "asked for any, there is "
                                  "no driver (libcuda.so.1) or no device, or something cleared LD_PRELOAD."}
               : std::vector<std::string>{};
  }
  if (users.size() == 1) return {done + "N" + needed(*users[0], is_watched) + warned(warnings)};
  std::vector<std::string> lines;
  lines.reserve(users.size() + 1);
  for (const ProcessStats* const p : users) {
    lines.push_back("process " + std::to_string(p->pid) + " (" + p->program + ") n" + needed(*p, is_watched) +
                    warned(p->get(Metric::warnings_total)));
  }
  lines.push_back(done + std::to_string(users.size()) + " processes used CUDA. " +
                  (is_watched ? std::string(kWatched) : swapped(out, in, clean)) + warned(warnings));
  return lines;
}

}  // namespace tidepool::tools
