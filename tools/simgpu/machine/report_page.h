#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "tools/simgpu/timing/engines.h"

namespace simgpu {

/// How often and how much of one direction was copied. Counted when the copy executes.
struct TransferCount {
  std::atomic<std::uint64_t> count;
  std::atomic<std::uint64_t> bytes;
};

/// What one process did with the devices, in memory that it shares with the `simgpu` command. The command
/// turns it into the JSON report. Numbers are relaxed atomics, texts are written once and then counted. All
/// zero is the valid initial state.
struct ReportPage {
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

  std::atomic<std::uint64_t> calls[kMaxEntries];  ///< by row of driver/entries.def

  TransferCount h2d, d2h, d2d, h2h, memset;

  std::atomic<std::uint64_t> kernels_executed;
  std::atomic<std::uint64_t>
      operations_executed;  ///< kernels, copies, memsets, event records, waits, host functions
  std::atomic<std::uint64_t> operations_dropped;  ///< queued work that an error of its context discarded
  std::atomic<std::uint64_t> longest_queue;       ///< most operations that ever waited in one stream

  std::atomic<std::uint64_t> faults;  ///< that the fault plan put in

  NameList unknown;        ///< lookups of names that simgpu does not know
  NameList unsupported;    ///< calls of driver and runtime functions that it knows and does not have
  NameList export_tables;  ///< private tables that were asked for, by UUID

  std::atomic<std::uint32_t> static_runtime;  ///< 1: the program itself has the static CUDA run time
  NameList digests_known;                     ///< kernels that ran as digests, with roles from the role file
  NameList digests_inferred;                  ///< with roles from the types of their parameters
  NameList digests_unknown;  ///< of which nothing was known: all that they point to was read and written
  std::atomic<std::uint64_t> digest_pointers;  ///< words in memory that counted as what they point to
  /// Parameters of digests that point into memory that was freed, where it is only likely that they are
  /// pointers that the kernel uses.
  std::atomic<std::uint64_t> stray_pointers;
  /// Pairs of operations that touch the same bytes, one of them writing, with nothing that orders them; and
  /// those of which it is only likely, because what they touch was inferred.
  std::atomic<std::uint64_t> races_total;
  std::atomic<std::uint64_t> possible_races_total;
  std::atomic<std::uint64_t> races_listed;  ///< different ones, of which the first kMaxErrors have a text
  ErrorText races[kMaxErrors];
  /// By device and timing::Engine: how long they were at work for the process, in virtual time.
  std::atomic<std::uint64_t> busy_ns[timing::kDevices][timing::kEngines];
  std::atomic<std::uint64_t> virtual_ns;  ///< the host's virtual time after its latest call

  std::atomic<std::uint64_t> warnings_total;  ///< different ones; the first kMaxErrors have a text
  ErrorText warnings[kMaxErrors];

  std::atomic<std::uint64_t> errors_total;  ///< errors that were reported; the first kMaxErrors have a text
  ErrorText errors[kMaxErrors];
};

/// Adds the numbers of `from` to `into`, and its texts as far as there is room. Both are at rest.
void add_report(ReportPage* into, const ReportPage& from);

}  // namespace simgpu
