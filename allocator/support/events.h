#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "allocator/support/log_levels.h"
#include "allocator/support/message.h"
#include "allocator/support/units.h"

namespace tidepool {

/// Which event: one enumerator per row of events.def.
// NOLINTBEGIN(readability-identifier-naming): named as their rows are
enum class Ev : std::uint16_t {
#define TP_SUBSYSTEM(...)
#define TP_EVENT(name, ...) name,
#include "allocator/support/events.def"
#undef TP_SUBSYSTEM
#undef TP_EVENT
};
// NOLINTEND(readability-identifier-naming)

enum class FieldKind : std::uint8_t {
  kNumber,   ///< a plain number
  kBytes,    ///< a number of bytes
  kNanos,    ///< a span of time, not negative
  kAddress,  ///< an address of the device
  kCode,     ///< a message's code
  kWord,     ///< one of the words of its row
  kText,     ///< text, cut to kEventTextBytes
};

template <FieldKind K>
struct FieldTypeOf {
  using Type = std::uint64_t;
};
template <>
struct FieldTypeOf<FieldKind::kBytes> {
  using Type = Bytes;
};
template <>
struct FieldTypeOf<FieldKind::kNanos> {
  using Type = Nanos;
};
template <>
struct FieldTypeOf<FieldKind::kCode> {
  using Type = Msg;
};
template <>
struct FieldTypeOf<FieldKind::kText> {
  using Type = const char*;
};

/// One field of a row.
struct EventField {
  const char* name;
  FieldKind kind;
  const char* note;  ///< its words, joined by '|', or what it is
};

/// One row of events.def.
struct EventRow {
  const char* name;
  EventLevel level;
  Subsystem subsystem;
  const char* help;
  std::span<const EventField> fields;
};
std::span<const EventRow> event_rows() noexcept;

/// Changes with every change of events.def: a ring of another table is not read.
std::uint64_t event_table_hash() noexcept;

inline constexpr std::size_t kMostEventValues = 6;

/// What one event holds, as it goes into the ring.
struct EventValues {
  std::uint64_t values[kMostEventValues] = {};
  std::size_t count = 0;
  const char* text = nullptr;

  void add(std::uint64_t n) noexcept { values[count++] = n; }
  void add(Bytes n) noexcept { add(n.count()); }
  void add(Nanos n) noexcept { add(static_cast<std::uint64_t>(n.count())); }
  void add(Msg code) noexcept { add(static_cast<std::uint64_t>(code)); }
  void add(const char* words) noexcept { text = words; }
};

namespace detail {

/// All off until the ring is open.
extern std::atomic<EventLevel> event_levels[kSubsystemCount];

void write_event(Ev event, const EventValues& values) noexcept;

template <FieldKind... K>
struct EventFields {
  static_assert(sizeof...(K) > 0 && ((K == FieldKind::kText) + ... + 0) <= 1);
  static_assert(((K != FieldKind::kText) + ... + 0) <= kMostEventValues);
  static void write(Ev event, typename FieldTypeOf<K>::Type... fields) noexcept {
    EventValues values;
    (values.add(fields), ...);
    write_event(event, values);
  }
};

template <Ev E>
struct EventTraits;
#define TP_SUBSYSTEM(...)
#define TP_FIELD(name, kind, note) FieldKind::kind
#define TP_EVENT(name, level, subsystem, help, ...)          \
  template <>                                                \
  struct EventTraits<Ev::name> {                             \
    static constexpr EventLevel kLevel = EventLevel::level;  \
    static constexpr Subsystem kPart = Subsystem::subsystem; \
    using Fields = EventFields<__VA_ARGS__>;                 \
  };
#include "allocator/support/events.def"
#undef TP_SUBSYSTEM
#undef TP_FIELD
#undef TP_EVENT

}  // namespace detail

/// Is this level of this part recorded? One load.
inline bool is_logged(EventLevel level, Subsystem part) noexcept {
  return detail::event_levels[static_cast<std::size_t>(part)].load(std::memory_order_relaxed) >= level;
}

/// Records an event: `emit<Ev::budget>(capacity, total)`; the fields are those of its row. Where its level is
/// off this is a load and a branch. Hook-safe and thread-safe: no allocation, no lock; records may be lost
/// and are then counted. errno is kept.
template <Ev E, class... Args>
inline void emit(Args... args) noexcept {
  using Traits = detail::EventTraits<E>;
  if (!is_logged(Traits::kLevel, Traits::kPart)) [[likely]]
    return;
  Traits::Fields::write(E, args...);
}

}  // namespace tidepool
