#pragma once

#include <pthread.h>

#include <array>
#include <atomic>
#include <cstdint>

#include "allocator/support/fault_plan.h"
#include "tools/simgpu/machine/frames.h"
#include "tools/simgpu/machine/report_page.h"
#include "tools/simgpu/machine/shared_event.h"
#include "tools/simgpu/timing/shared_clock.h"

namespace simgpu {

/// In which order queued work runs.
enum class Schedule : std::uint32_t {
  kAdversarial,  ///< as late and as reordered as the rules of streams and events allow, by seed
  kInOrder,      ///< at once, in the order of the calls
};

/// What events measure.
enum class ClockMode : std::uint32_t {
  kVirtual,  ///< when work would have run on the device: the same in every run, whatever the seed
  kWall,     ///< when its bytes were moved here
};

/// What the host's own work costs in virtual time.
enum class HostTime : std::uint32_t {
  kFixed,     ///< each call what the profile says, the program's own work nothing
  kMeasured,  ///< in addition the CPU time of the calling thread between calls: not reproducible
};

/// One device as its profile describes it (docs/reference/device-profiles.md): a member for each row of
/// allocator/support/device_profile.def. Rates are bytes or operations per second, costs nanoseconds.
struct DeviceConfig {
  char name[64] = "simgpu";
  std::int32_t compute_major = 9;
  std::int32_t compute_minor = 0;
  std::uint64_t memory_bytes = std::uint64_t{16} << 30;
  double memory_bytes_per_second = 3.35e12;  ///< reads plus writes
  std::int32_t compute_multiprocessors = 132;
  double compute_fp32_flops = 66.9e12;
  double compute_tensor_flops = 989.4e12;  ///< 0: no tensor cores
  double link_h2d_bytes_per_second = 55e9;
  double link_d2h_bytes_per_second = 55e9;
  std::int64_t link_latency_ns = 2000;  ///< fixed part of one copy
  double link_duplex = 0.9;             ///< of the sum of both rates, while both directions are busy
  std::int32_t link_copy_engines = 3;
  std::int64_t cost_launch_ns = 900;     ///< between two kernels that depend on each other
  std::int64_t cost_host_call_ns = 390;  ///< any call; those below instead of it
  std::int64_t cost_host_launch_ns = 6500;
  std::int64_t cost_host_copy_ns = 6500;
  std::int64_t cost_host_sync_ns = 5800;
  std::int64_t cost_malloc_ns = 230'000;
  std::int64_t cost_free_ns = 49'000;
  std::int64_t cost_host_alloc_ns_per_mib = 330'000;
  std::int64_t vmm_reserve_ns = 19'000;
  std::int64_t vmm_create_ns = 193'000;
  std::int64_t vmm_create_ns_per_mib = 0;
  std::int64_t vmm_map_ns = 1450;
  std::int64_t vmm_set_access_ns = 230;  ///< a call; and for each mapping in its range:
  std::int64_t vmm_set_access_ns_per_mapping = 36'000;
  std::int64_t vmm_set_access_ns_per_mib = 0;
  std::int64_t vmm_unmap_ns = 310;  ///< a call; and for each mapping in its range:
  std::int64_t vmm_unmap_ns_per_mapping = 25'600;
  std::int64_t vmm_unmap_ns_per_mib = 0;
  std::int64_t vmm_release_ns = 23'000;
  std::int64_t vmm_release_ns_per_mib = 0;
};

/// What the processes of one machine share from its start on; it does not change afterwards.
struct MachineConfig {
  static constexpr std::size_t kMaxDevices = 16;
  static constexpr std::uint32_t kPatienceMs = 200;

  std::uint32_t device_count = 1;
  DeviceConfig devices[kMaxDevices]{};
  std::uint64_t seed = 1;
  Schedule schedule = Schedule::kAdversarial;
  char faults[tidepool::kLargestFaultPlan +
              1]{};    ///< text of the fault plan; every process has its own counts
  char trace[4096]{};  ///< file that takes what the engines did; empty: none
  ClockMode clock = ClockMode::kVirtual;
  HostTime host_time = HostTime::kFixed;
  /// Processes that start together: engines are given once so many have called cuInit. 0: nobody is waited
  /// for.
  std::uint32_t processes_together = 0;
  /// How long a process that makes no calls is waited for while it holds others up, and so is a host function
  /// that takes its time.
  std::uint32_t patience_ms = kPatienceMs;
  bool digest_full = false;   ///< digests look at every byte, not at 64 of each 4 KiB
  char role_file[1024] = "";  ///< what kernels do to their memory; empty: SIMGPU_ROLES or none
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

/// One process that has called cuInit.
struct ProcessSlot {
  std::atomic<std::int32_t> pid;          ///< 0: never used
  std::atomic<std::uint64_t> start_time;  ///< clock ticks since boot: tells it from others with its pid
  std::atomic<std::uint32_t> swept;     ///< devices, one bit each, whose memory was taken back after it ended
  std::atomic<std::uint32_t> departed;  ///< 1: Machine::departed has its numbers
  ReportPage report;
};

/// What all processes of one simulated machine share: a memory file, made by the simgpu command (or by the
/// process itself where there is none) and named to its processes by SIMGPU_MACHINE. It outlives every
/// process, so reports can be written however those end.
struct Machine {
  static constexpr std::uint32_t kVersion = 8;
  static constexpr std::size_t kMaxProcesses = 64;

  std::atomic<std::uint32_t> version;
  MachineConfig config;
  SharedMutex mutex;       ///< guards slots and the device memory's table
  std::int32_t maker_pid;  ///< whose descriptors `memory_fds` are
  std::array<std::int32_t, MachineConfig::kMaxDevices> memory_fds;  ///< the devices' memory files
  std::array<FrameTable, MachineConfig::kMaxDevices> memory;
  std::array<ProcessSlot, kMaxProcesses> processes;
  SharedEvents shared_events;
  std::atomic<std::uint32_t> process_count;  ///< that ever called cuInit
  timing::SharedClock time;
  ReportPage departed;  ///< numbers of ended processes whose slots were taken over
};

}  // namespace simgpu
