#pragma once

#include <pthread.h>

#include <array>
#include <atomic>
#include <cstdint>

#include "tools/simgpu/machine/report_page.h"

namespace simgpu {

/// In which order queued work runs.
enum class Schedule : std::uint32_t {
  kAdversarial,  ///< as late and as reordered as the rules of streams and events allow, by seed
  kInOrder,      ///< at once, in the order of the calls
};

/// One device as its profile describes it. Rates are bytes or operations per second, costs nanoseconds.
struct DeviceConfig {
  char name[64] = "simgpu";
  std::uint64_t memory_bytes = std::uint64_t{16} << 30;
  double memory_bytes_per_second = 3.35e12;  ///< device memory, read plus write
  std::int32_t compute_major = 9;
  std::int32_t compute_minor = 0;
  std::int32_t multiprocessors = 132;
  double link_bytes_per_second = 55e9;  ///< host link, each direction
  std::int64_t launch_ns = 3000;        ///< fixed cost of an operation on its stream
};

/// What the processes of one machine share from its start on; it does not change afterwards.
struct MachineConfig {
  static constexpr std::size_t kMaxDevices = 16;

  std::uint32_t device_count = 1;
  DeviceConfig devices[kMaxDevices]{};
  std::uint64_t seed = 1;
  Schedule schedule = Schedule::kAdversarial;
};

/// A mutex between processes. A process that dies with it leaves it usable.
class SharedMutex {
 public:
  void init();
  void lock();
  void unlock();
  /// Counts owners that died with the lock: whoever guards state by it repairs that state when this has
  /// grown.
  [[nodiscard]] std::uint32_t deaths() const { return deaths_.load(std::memory_order_relaxed); }

 private:
  pthread_mutex_t mutex_;
  std::atomic<std::uint32_t> deaths_;
};

/// How much memory of one device is in use, by all processes together. Bytes, in whole frames.
struct DeviceUse {
  std::atomic<std::uint64_t> now;
  std::atomic<std::uint64_t> peak;
  std::atomic<std::uint64_t> plain_now;  ///< the part of `now` that plain allocations use
  std::atomic<std::uint64_t> vmm_now;    ///< the part that cuMemCreate handed out
};

/// One process that has called cuInit. It counts as alive while a process with this pid and start time is.
struct ProcessSlot {
  std::atomic<std::int32_t> pid;  ///< 0: never used
  std::atomic<std::uint64_t> start_time;
  ReportPage report;
};

/// What all processes of one simulated machine share: a memory file, made by the simgpu command (or by the
/// process itself where there is none) and named to its processes by SIMGPU_MACHINE. It outlives every
/// process, so reports can be written however those end.
struct Machine {
  static constexpr std::uint32_t kVersion = 1;
  static constexpr std::size_t kMaxProcesses = 64;

  std::atomic<std::uint32_t> version;
  MachineConfig config;
  SharedMutex mutex;  ///< guards slots and the device memory's table
  std::array<DeviceUse, MachineConfig::kMaxDevices> use;
  std::array<ProcessSlot, kMaxProcesses> processes;
  std::atomic<std::uint32_t> process_count;  ///< that ever called cuInit
  ReportPage departed;                       ///< numbers of ended processes whose slots were taken over
};

}  // namespace simgpu
