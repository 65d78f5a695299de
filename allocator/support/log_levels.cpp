#include "allocator/support/log_levels.h"

#include <algorithm>
#include <iterator>

namespace tidepool {
namespace {

constexpr SubsystemRow kRows[] = {
#define TP_SUBSYSTEM(name, help) {#name, help},
#define TP_EVENT(...)
#include "allocator/support/events.def"
#undef TP_SUBSYSTEM
#undef TP_EVENT
};

constexpr std::string_view kLevels[] = {"off", "error", "warn", "info", "debug", "trace"};

constexpr char kNoPart[] = "a part is none of"
#define TP_SUBSYSTEM(name, help) " " #name
#define TP_EVENT(...)
#include "allocator/support/events.def"
#undef TP_SUBSYSTEM
#undef TP_EVENT
    ;

bool parse_level(std::string_view text, EventLevel* out) noexcept {
  for (std::size_t i = 0; i < std::size(kLevels); ++i) {
    if (text == kLevels[i]) return *out = static_cast<EventLevel>(i), true;
  }
  return false;
}

}  // namespace

std::string_view level_name(EventLevel level) noexcept {
  return kLevels[static_cast<std::size_t>(level)];
}

const SubsystemRow& subsystem_row(Subsystem subsystem) noexcept {
  return kRows[static_cast<std::size_t>(subsystem)];
}

const char* parse_log_levels(std::string_view text, LogLevels* out) noexcept {
  LogLevels got{};
  std::size_t next = 0;
  for (bool is_first = true; next <= text.size(); is_first = false) {
    const std::size_t end = std::min(text.find(',', next), text.size());
    const std::string_view part = text.substr(next, end - next);
    next = end + 1;
    const std::size_t equals = part.find('=');
    EventLevel level{};
    if (!parse_level(equals == part.npos ? part : part.substr(equals + 1), &level))
      return "a level is none of off, error, warn, info, debug, trace";
    if (equals == part.npos) {
      if (!is_first) return "only the first level is for all; the others name a part, as in warn,swap=debug";
      std::fill(std::begin(got.of), std::end(got.of), level);
      continue;
    }
    const auto* const row = std::find_if(std::begin(kRows), std::end(kRows), [&](const SubsystemRow& r) {
      return part.substr(0, equals) == r.name;
    });
    if (row == std::end(kRows)) return kNoPart;
    got.of[row - kRows] = level;
  }
  *out = got;
  return nullptr;
}

}  // namespace tidepool
