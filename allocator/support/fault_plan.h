#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "allocator/support/result.h"
#include "allocator/support/units.h"

namespace tidepool {

/// What a rule of a fault plan does. docs/reference/fault-plans.md describes the text.
enum class FaultKind : std::uint8_t {
  kCall,  ///< a call returns a code
  kCopy,  ///< a piece of a copy arrives wrong
  kLink,  ///< the link is slow
  kLost,  ///< the device is gone: every later call returns a code
  kKill,  ///< the process dies by SIGKILL
};

/// How the piece arrives.
enum class CopyFault : std::uint8_t {
  kDrop,     ///< not at all: the destination keeps what it held
  kCorrupt,  ///< each byte inverted
  kStale,    ///< with the bytes that the copy before, in this direction, had there; zeros before the first
};

enum class CopyDirection : std::uint8_t { kH2d, kD2h, kD2d, kAny };

/// A moment: the Nth call of a function or, without one, of all functions; or a time of the device.
struct FaultPoint {
  std::string function;     ///< empty: any
  std::uint64_t call = 0;   ///< from 1; 0: not a number of a call
  std::uint64_t at_ns = 0;  ///< where `call` is 0
};

/// A link is never slower than this part of its rate, however many rules slow it.
inline constexpr double kLeastLinkFactor = 1e-6;

/// One line of a plan. Of the calls or copies that it matches, counted from the moment it is added, `after`
/// pass; of those behind them each `every`th is hit, until `count` have been.
struct FaultRule {
  /// Without end, for `count`.
  static constexpr std::uint64_t kAll = ~std::uint64_t{0};

  FaultKind kind = FaultKind::kCall;
  std::string function;  ///< kCall
  std::uint64_t after = 0;
  std::uint64_t count = 1;
  std::uint64_t every = 1;
  Bytes min_size{};  ///< kCall, kCopy: smaller ones are not counted
  int code = 0;      ///< kCall, kLost (there 0: the device's usual code)

  CopyFault copy = CopyFault::kDrop;
  CopyDirection direction = CopyDirection::kAny;  ///< kCopy, kLink
  Bytes offset{};                                 ///< where in the copy the piece starts
  Bytes bytes{kAll};                              ///< its length, cut at the end of the copy

  double factor = 1;              ///< kLink: what is left of the rate, kLeastLinkFactor to 1
  FaultPoint from{{}, 1, 0};      ///< kLink, kLost, kKill: when it happens or starts
  FaultPoint until{{}, 0, kAll};  ///< kLink: when it ends
  std::size_t line = 0;           ///< of the text that it came from, from 1; 0: of none
};

/// The names that a plan may use, and what they mean.
struct FaultWords {
  struct Code {
    std::string_view name;
    int value;
  };
  /// A function that no rule may name.
  struct Excluded {
    std::string_view name;
    std::string_view why;  ///< goes on after the name
  };
  std::span<const Code> codes;                  ///< for return=; numbers are always taken
  std::span<const std::string_view> functions;  ///< empty: any name is a function
  std::span<const Excluded> excluded{};         ///< asked only after `functions`
  std::string_view hint{};                      ///< what an unknown function should have been
};

/// Why a plan was refused: "line N: " and what would be taken, on one line.
struct FaultError {
  std::string text;
};

/// The bytes of the longest text that is read as a plan.
inline constexpr std::size_t kLargestFaultPlan = std::size_t{64} << 10;

/// Reads a plan: one rule a line, `#` starts a comment.
Result<std::vector<FaultRule>, FaultError> parse_fault_rules(std::string_view text,
                                                             const FaultWords& words = {}) noexcept;

/// What a call meets.
struct CallFault {
  enum class Action : std::uint8_t { kGoOn, kFail, kLost, kKill };
  Action action = Action::kGoOn;
  int code = 0;          ///< kFail, kLost
  std::size_t rule = 0;  ///< the place in the plan of the rule that counts; kFail, kLost, kKill
};

/// A rule that a copy meets. It stays where it is until the plan is changed.
struct CopyHit {
  const FaultRule* rule = nullptr;  ///< null: none
  std::size_t index = 0;            ///< its place in the plan
};

/// The rules of a run and how often each has matched. Thread-safe; after add() nothing allocates, so that it
/// may be asked wherever a mutex may be taken.
class FaultPlan {
 public:
  void add(FaultRule rule);
  void add(std::vector<FaultRule> rules);
  /// Adds the rules of a text. Returns an empty string or what is wrong with it (then none is added).
  [[nodiscard]] std::string add_text(std::string_view text, const FaultWords& words = {});
  /// Forgets rules and counts.
  void clear();
  [[nodiscard]] bool empty() const;

  /// Counts a call and says what becomes of it. `alias` is a second name that rules may use, `size` the bytes
  /// it is about. Of several rules that hit, death goes before loss and loss before failure; then the first
  /// counts.
  [[nodiscard]] CallFault on_call(std::string_view function, std::string_view alias = {}, Bytes size = {},
                                  std::uint64_t now_ns = 0);

  /// Counts a copy and gives the rule that hits it.
  [[nodiscard]] CopyHit on_copy(CopyDirection direction, Bytes size);

  /// What is left of the link's rate in this direction now, kLeastLinkFactor to 1.
  [[nodiscard]] double link_factor(CopyDirection direction, std::uint64_t now_ns = 0) const;
  /// True if the rule at this place in the plan is one of those that make it so.
  [[nodiscard]] bool slows(std::size_t index, CopyDirection direction, std::uint64_t now_ns = 0) const;

  /// Faults so far: calls that failed, copies that were hit, and the loss of the device.
  [[nodiscard]] std::uint64_t injected() const;

 private:
  struct Counted {
    FaultRule rule;
    std::uint64_t seen = 0;   ///< calls or copies that matched
    std::uint64_t hit = 0;    ///< of those, how many were hit
    std::uint64_t from = 0;   ///< calls that count for rule.from
    std::uint64_t until = 0;  ///< calls that count for rule.until
  };

  static bool hits(Counted& counted);
  static bool slows(const Counted& counted, CopyDirection direction, std::uint64_t now_ns);
  static bool reached(const FaultPoint& point, std::uint64_t calls, std::uint64_t now_ns);
  CallFault verdict(Counted& counted, std::string_view function, std::string_view alias, Bytes size,
                    std::uint64_t now_ns);

  mutable std::mutex mutex_;
  std::vector<Counted> rules_;
  std::uint64_t injected_ = 0;
};

}  // namespace tidepool
