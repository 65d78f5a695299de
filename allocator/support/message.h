#pragma once

#include <cstdint>
#include <span>

namespace tidepool {

/// Which message: one enumerator per row of messages.def.
// NOLINTBEGIN(readability-identifier-naming): named as their rows are
enum class Msg : std::uint16_t {
#define TP_MESSAGE(code, ...) code,
#include "allocator/support/messages.def"
#undef TP_MESSAGE
};
// NOLINTEND(readability-identifier-naming)

enum class Severity : char { E = 'E', W = 'W', I = 'I' };

/// One row of messages.def.
struct MessageRow {
  const char* code;  ///< "TP1001"
  Severity severity;
  const char* format;
  const char* cause;
  const char* remedy;
};
std::span<const MessageRow> message_rows() noexcept;

namespace detail {
template <Msg M>
struct MessageFormat;
#define TP_MESSAGE(code, severity, format, cause, remedy) \
  template <>                                             \
  struct MessageFormat<Msg::code> {                       \
    static constexpr char kText[] = format;               \
  };
#include "allocator/support/messages.def"
#undef TP_MESSAGE

inline constexpr int kNoDevice = -1;
[[gnu::format(printf, 3, 4)]] void write_message(Msg code, int device, const char* format, ...) noexcept;
}  // namespace detail

/// Opens the way to the user: keeps a duplicate of stderr (close-on-exec, 64 or above) so that a program that
/// closes its stderr still gets warnings, and starts the clock of the lines. Until then messages go to file
/// descriptor 2. `quiet` leaves errors only. Call it once, from the library's constructor.
void open_messages(bool quiet) noexcept;

/// Writes one line "tidepool 83.2s W TP1002 ..." with one write(2); the compiler checks the arguments against
/// the row's format. A message is printed five times, then only counted. errno is kept.
///
/// Hook-safe and thread-safe: no allocation, no lock, no locale.
template <Msg M, class... Args>
void report(Args... args) noexcept {
  detail::write_message(M, detail::kNoDevice, detail::MessageFormat<M>::kText, args...);
}

/// The same for a message about a device, which says of which once the process uses several.
template <Msg M, class... Args>
void report_on(unsigned device, Args... args) noexcept {
  detail::write_message(M, static_cast<int>(device), detail::MessageFormat<M>::kText, args...);
}
/// The process uses several devices from here on.
void name_devices() noexcept;

/// How often the message was reported in this process, printed or not.
std::uint64_t times_reported(Msg code) noexcept;

}  // namespace tidepool
