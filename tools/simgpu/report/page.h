#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace simgpu {

/// How often and how much of one direction was copied. Counted when the copy executes.
struct TransferCount {
  std::atomic<std::uint64_t> count;
  std::atomic<std::uint64_t> bytes;
};

/// What the device did, in memory shared by the simulated process and the `simgpu` command. It outlives the
/// process, however that ends; the command turns it into the JSON report "simgpu.report/1".
///
/// Written by the process that owns it: `owner_pid` is the first process that called cuInit. Numbers are
/// relaxed atomics, texts are written once and then counted. All zero is the valid initial state.
struct ReportPage {
  static constexpr std::uint32_t kVersion = 1;
  static constexpr std::size_t kMaxEntries = 512;
  static constexpr std::size_t kMaxErrors = 32;

  /// Names with counts, in the order in which they first came.
  struct NameList {
    static constexpr std::size_t kMax = 128;
    struct Row {
      char name[96];
      std::atomic<std::uint64_t> count;
    };
    std::atomic<std::uint32_t> used;   ///< rows in use
    std::atomic<std::uint64_t> other;  ///< how often names came that found no row
    Row rows[kMax];
  };
  struct ErrorText {
    char text[480];
  };

  std::atomic<std::uint32_t> version;          ///< kVersion once a process owns the page
  std::atomic<std::int32_t> owner_pid;         ///< 0: no process has called cuInit
  std::atomic<std::uint32_t> other_processes;  ///< further processes that called cuInit; not in the numbers

  std::atomic<std::uint64_t> calls[kMaxEntries];  ///< by row of driver/entries.def

  std::atomic<std::uint64_t> physical_now;   ///< bytes of device memory in use, in frames of 2 MiB
  std::atomic<std::uint64_t> physical_peak;  ///< the largest value of physical_now
  std::atomic<std::uint64_t> plain_now;      ///< the part of physical_now that plain allocations use
  std::atomic<std::uint64_t> vmm_now;        ///< the part that cuMemCreate handed out

  TransferCount h2d, d2h, d2d, h2h, memset;

  std::atomic<std::uint64_t> kernels_executed;
  std::atomic<std::uint64_t>
      operations_executed;  ///< kernels, copies, memsets, event records, waits, host functions
  std::atomic<std::uint64_t> operations_dropped;  ///< queued work that an error of its context discarded
  std::atomic<std::uint64_t> longest_queue;       ///< most operations that ever waited in one stream

  NameList unknown;        ///< lookups of names that simgpu does not know
  NameList unsupported;    ///< calls of driver and runtime functions that it knows and does not have
  NameList export_tables;  ///< private tables that were asked for, by UUID

  std::atomic<std::uint64_t> errors_total;  ///< errors that were reported; the first kMaxErrors have a text
  ErrorText errors[kMaxErrors];
};

}  // namespace simgpu
