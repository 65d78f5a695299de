#pragma once

#include <chrono>
#include <exception>
#include <string_view>

#include "tools/probe/gpu.h"
#include "tools/probe/options.h"
#include "tools/probe/record.h"
#include "tools/probe/stopwatch.h"

namespace tidepool::probe {

using Clock = std::chrono::steady_clock;

/// Nanoseconds that a call took, by the host's clock.
template <class F>
double time_ns(F&& f) {
  const Clock::time_point start = Clock::now();
  f();
  return std::chrono::duration<double, std::nano>(Clock::now() - start).count();
}

/// Asks for repetitions: `least` of them always, then more until `most` or until the time is over.
class Repeats {
 public:
  Repeats(std::size_t least, std::size_t most, double seconds)
      : least_(least), most_(most), end_(Clock::now() + to_duration(seconds)) {}
  bool next() {
    if (done_ >= most_ || (done_ >= least_ && Clock::now() >= end_)) return false;
    ++done_;
    return true;
  }

 private:
  static Clock::duration to_duration(double seconds) {
    return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  }
  std::size_t least_, most_, done_ = 0;
  Clock::time_point end_;
};

/// What the parts of a section share.
struct Run {
  const Options& options;
  Records& out;
  const Gpu& gpu;
  Clock::time_point end;                      ///< no part starts later
  const DeviceClock* device_clock = nullptr;  ///< where set, times are the device's

  [[nodiscard]] bool quick() const noexcept { return options.quick; }
  /// Few repetitions when it has to be quick, else up to `most` in this share of the section's time.
  [[nodiscard]] Repeats repeats(std::size_t most, double share) const {
    constexpr std::size_t kFew = 2;
    return {kFew, quick() ? kFew : most, options.seconds * share};
  }
  /// Nanoseconds that a call took the host; for one that waits for the device, that too.
  template <class F>
  double time_ns(F&& f) const {
    return device_clock == nullptr ? probe::time_ns(f) : device_clock->time_ns(f);
  }
  [[nodiscard]] bool is_over() const { return Clock::now() >= end; }
  /// Runs f until what is slow at first (clocks, caches, code that is loaded) no longer shows; f waits for
  /// the device.
  template <class F>
  void warm_up(F&& f) const {
    Repeats repeats(1, quick() ? 1 : 100'000, 0.2);
    while (repeats.next() && !is_over()) f();
  }
  /// Runs one part; if it fails, the section goes on, with a record that says why.
  template <class F>
  void part(std::string_view name, F&& f) const {
    if (is_over()) return out.skipped(name, "the section's time is over");
    try {
      f();
    } catch (const std::exception& failure) {
      out.skipped(name, failure.what());
    }
  }
};

/// A section of the probe.
struct Section {
  std::string_view name;
  std::string_view help;
  void (*run)(const Run&);
};

/// True if libtidepool.so is mapped into this process; it may still leave everything to the driver.
bool is_preloaded();

/// Throws, with what a skipped record says, where a section may not hold so many bytes.
void require_room(const Run& run, std::uint64_t bytes);

/// Runs a section from its start record to its end. Ends the process, with a record, where the section hangs.
int run_section(const Section& section, const Options& options);

void run_vmm(const Run& run);
void run_aliasing(const Run& run);
void run_sharing(const Run& run);
void run_rates(const Run& run);
void run_launch(const Run& run);
void run_faults(const Run& run);
void run_link(const Run& run);

/// The section link as a table on stdout instead. Returns the exit code.
int print_link(const Options& options);

}  // namespace tidepool::probe
