#pragma once

#include <climits>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "allocator/support/log_levels.h"
#include "allocator/support/units.h"

namespace tidepool {

/// How the text of an option is read and checked. To add an option whose value is one of some words: a kind
/// at the end, an enum with its values in the order of the row's words, and a line in OptionTypeOf below.
enum class OptionKind : std::uint8_t {
  kBool,           ///< 1/0/on/off/yes/no/true/false
  kBytes,          ///< parse_bytes()
  kNumber,         ///< decimal digits
  kDeviceAmount,   ///< parse_amount(), of a device's memory
  kDeviceReserve,  ///< the same, or "auto"
  kHostAmount,     ///< parse_amount(), of host_memory()
  kLogLevels,      ///< parse_log_levels()
  kPath,           ///< any text shorter than PATH_MAX
  // From here on: one of the words in the row's `low`.
  kCheckLevel,
  kAllocChoice,
  kTraceLevel,
  kRunMode,
};

/// Is the value one of the words in the row's `low`?
constexpr bool is_word(OptionKind kind) noexcept {
  return kind >= OptionKind::kCheckLevel;
}

/// May an option change while the program runs?
enum class OptionScope : std::uint8_t { kStart, kLive };

/// Each does what those before it do.
enum class CheckLevel : std::uint8_t { kOff, kCheap, kFull, kUnmap };
/// What Tidepool does with the program's memory: moves it; leaves it to the driver and only watches it;
/// nothing.
enum class RunMode : std::uint8_t { kManage, kObserve, kOff };
/// Which of its allocators PyTorch shall use.
enum class AllocChoice : std::uint8_t { kAuto, kAsync, kNative };

/// What is recorded of a run: nothing; every operation; and the call stacks of allocations.
enum class TraceLevel : std::uint8_t { kOff, kOps, kStacks };

/// A path of fixed size, so that Options can be copied byte by byte and needs no allocation.
struct PathText {
  char text[PATH_MAX];
  [[nodiscard]] bool empty() const noexcept { return text[0] == '\0'; }
  [[nodiscard]] const char* c_str() const noexcept { return text; }
};

/// An amount, or "auto": Tidepool chooses.
struct AutoAmount {
  bool is_auto;
  Amount amount;
};

/// The type of a kind's value.
template <OptionKind K, class T>
struct OptionTypeIs {
  using Type = T;
};
template <OptionKind K>
struct OptionTypeOf;
template <>
struct OptionTypeOf<OptionKind::kBool> : OptionTypeIs<OptionKind::kBool, bool> {};
template <>
struct OptionTypeOf<OptionKind::kBytes> : OptionTypeIs<OptionKind::kBytes, Bytes> {};
template <>
struct OptionTypeOf<OptionKind::kNumber> : OptionTypeIs<OptionKind::kNumber, std::uint32_t> {};
template <>
struct OptionTypeOf<OptionKind::kDeviceAmount> : OptionTypeIs<OptionKind::kDeviceAmount, Amount> {};
template <>
struct OptionTypeOf<OptionKind::kDeviceReserve> : OptionTypeIs<OptionKind::kDeviceReserve, AutoAmount> {};
template <>
struct OptionTypeOf<OptionKind::kHostAmount> : OptionTypeIs<OptionKind::kHostAmount, Amount> {};
template <>
struct OptionTypeOf<OptionKind::kLogLevels> : OptionTypeIs<OptionKind::kLogLevels, LogLevels> {};
template <>
struct OptionTypeOf<OptionKind::kPath> : OptionTypeIs<OptionKind::kPath, PathText> {};
template <>
struct OptionTypeOf<OptionKind::kCheckLevel> : OptionTypeIs<OptionKind::kCheckLevel, CheckLevel> {};
template <>
struct OptionTypeOf<OptionKind::kAllocChoice> : OptionTypeIs<OptionKind::kAllocChoice, AllocChoice> {};
template <>
struct OptionTypeOf<OptionKind::kTraceLevel> : OptionTypeIs<OptionKind::kTraceLevel, TraceLevel> {};
template <>
struct OptionTypeOf<OptionKind::kRunMode> : OptionTypeIs<OptionKind::kRunMode, RunMode> {};

/// The values of one process, one member per row of options.def. Trivially copyable. A value-initialised
/// object holds zeros, not the defaults: start from default_options() or load_options().
struct Options {
#define TP_OPT(member, kind, ...) OptionTypeOf<OptionKind::kind>::Type member;
#include "allocator/support/options.def"
#undef TP_OPT
};

/// Why a value was refused: `why` is null if it was taken.
struct OptionVerdict {
  const char* why = nullptr;
  bool out_of_range = false;
  [[nodiscard]] bool ok() const noexcept { return why == nullptr; }
};

/// One row of options.def. All texts are static.
struct OptionRow {
  const char* name;      ///< the member, "device_budget"; with '-' for '_' it is the flag
  const char* variable;  ///< "TIDEPOOL_DEVICE_BUDGET"
  OptionKind kind;
  const char* default_text;
  const char* low;   ///< lowest value; words joined by '|' for enums; empty: no bound
  const char* high;  ///< highest value; empty: no bound
  OptionScope scope;
  const char* group;
  const char* help;
  OptionVerdict (*set)(Options& options, const OptionRow& row, std::string_view text) noexcept;
};

/// Does the program run as if Tidepool were not there?
inline bool is_off(const Options& options) noexcept {
  return options.disable || options.mode == RunMode::kOff;
}

/// Every option, in the order of the table.
std::span<const OptionRow> option_rows() noexcept;

/// The row with this variable name ("TIDEPOOL_QUIET"), or null.
const OptionRow* find_option(std::string_view variable) noexcept;

/// The variable that was most likely meant: one that the name is a part of, else the one at most three edits
/// away; or null. Hook-safe.
const OptionRow* nearest_option(std::string_view variable) noexcept;

/// Reads `text` into the row's member; on refusal the member keeps its value. Hook-safe.
OptionVerdict set_option(Options& options, const OptionRow& row, std::string_view text) noexcept;

/// Writes why a value was refused, as a clause: "<shown> is out of range 1..4096". `shown` is the value as
/// the user gave it, "TIDEPOOL_IO_DEPTH=9999" or "--io-depth 9999".
void describe_refusal(char* buffer, std::size_t size, const OptionRow& row, const char* shown,
                      OptionVerdict verdict) noexcept;

/// One thing wrong with the environment.
struct OptionIssue {
  bool is_unknown;  ///< an unknown variable (a warning); else a refused value (an error)
  char text[256];   ///< one clause without a full stop
};

/// What load_options() found wrong. Fixed size; issues beyond it are counted only.
class OptionIssues {
 public:
  static constexpr std::size_t kRoom = 16;

  [[nodiscard]] std::size_t count() const noexcept { return count_; }
  [[nodiscard]] bool any_error() const noexcept { return any_error_; }
  [[nodiscard]] std::span<const OptionIssue> kept() const noexcept {
    return {issues_, count_ < kRoom ? count_ : kRoom};
  }
  /// Adds an issue and returns where its text goes; null when there is no more room.
  OptionIssue* add(bool is_unknown) noexcept;

 private:
  OptionIssue issues_[kRoom] = {};
  std::size_t count_ = 0;
  bool any_error_ = false;
};

/// Set by `tidepool run` for what it starts, and no option: which run a process belongs to, where several
/// share a folder.
inline constexpr char kRunIdVariable[] = "TIDEPOOL_RUN_ID";

/// Every option at its default. Hook-safe.
Options default_options() noexcept;

/// Reads every TIDEPOOL_ variable of an environment block (null-terminated array of "NAME=value"; may be
/// null). A refused value leaves the default and adds an error; an unknown name adds a warning. As with
/// getenv, the first of two equal names counts. kRunIdVariable is no option, and TIDEPOOL_TEST_* belongs to
/// the project's tests and is ignored. Hook-safe.
Options load_options(const char* const* environment, OptionIssues* issues) noexcept;

/// The most that may be left free, whatever --device-reserve says: half of the device. Bytes can be compared
/// with that only once the device is known.
Bytes most_device_reserve(Bytes device_total) noexcept;
bool is_reserve_too_large(const Options& options, Bytes device_total) noexcept;

/// device_reserve for a device of this size, "auto" resolved. Never more than the device.
Bytes device_reserve_of(const Options& options, Bytes device_total) noexcept;

/// The least that device_budget means: with less, hardly any launch would find room for what it touches.
inline constexpr Bytes kLeastDeviceBudget = MiB(16);

/// Is the budget, a share, less than kLeastDeviceBudget on a device of this size?
bool is_budget_too_small(const Options& options, Bytes device_total) noexcept;

/// Is the budget, in bytes, more than a device of this size has?
bool is_budget_too_large(const Options& options, Bytes device_total) noexcept;

/// The most device memory that may be held: min(budget, device - reserve); a budget that is too small counts
/// as kLeastDeviceBudget.
Bytes device_capacity_of(const Options& options, Bytes device_total) noexcept;

/// host_budget in bytes, given the host memory (host_memory()).
Bytes host_budget_of(const Options& options, Bytes host_total) noexcept;

}  // namespace tidepool
