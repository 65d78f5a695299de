#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string_view>

namespace tidepool::fakes {

/// One exported function of the recording driver.
struct RecordedEntry {
  const char* name;
  std::atomic<std::uint64_t> calls;
  void* function;  ///< what answers; null until the first call of the process
};

/// An entry and the symbol that programs call.
struct EntryRow {
  RecordedEntry* entry;
  void* symbol;
};

/// All entries, by name.
std::span<const EntryRow> recorded_entries();

/// The entry that no ELF symbol leads to (faults.h: newer=). Named by set_newer_name().
EntryRow newer_entry();

/// The row with this name, or one with a null entry.
EntryRow find_entry(std::string_view name);

}  // namespace tidepool::fakes
