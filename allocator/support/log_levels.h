#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tidepool {

/// How much is recorded, each level with all before it.
enum class EventLevel : std::uint8_t { kOff, kError, kWarn, kInfo, kDebug, kTrace };

/// "off", "error", "warn", "info", "debug", "trace".
std::string_view level_name(EventLevel level) noexcept;

/// Part of Tidepool that an event comes from: one enumerator per TP_SUBSYSTEM of events.def.
// NOLINTBEGIN(readability-identifier-naming): named as their rows are
enum class Subsystem : std::uint8_t {
#define TP_SUBSYSTEM(name, help) name,
#define TP_EVENT(...)
#include "allocator/support/events.def"
#undef TP_SUBSYSTEM
#undef TP_EVENT
};
// NOLINTEND(readability-identifier-naming)

inline constexpr std::size_t kSubsystemCount = 0
#define TP_SUBSYSTEM(...) +1
#define TP_EVENT(...)
#include "allocator/support/events.def"
#undef TP_SUBSYSTEM
#undef TP_EVENT
    ;

/// One TP_SUBSYSTEM row.
struct SubsystemRow {
  const char* name;
  const char* help;
};
const SubsystemRow& subsystem_row(Subsystem subsystem) noexcept;

/// The level of each subsystem.
struct LogLevels {
  EventLevel of[kSubsystemCount];
};

/// Reads "warn" or "warn,swap=debug": a level for all, then exceptions. Null if it was taken, else a phrase
/// that continues "... is not valid: ". Hook-safe.
const char* parse_log_levels(std::string_view text, LogLevels* out) noexcept;

}  // namespace tidepool
