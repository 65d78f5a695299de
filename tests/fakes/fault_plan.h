#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace tidepool::fakes {

/// Which calls fail, and how: the Nth call of a named function returns a given code.
///
/// Text form, one rule a line, `#` starts a comment:
///
///     map after=3 return=2            # three calls succeed, the fourth returns 2
///     copy_to_host return=999         # the first call fails
///     create after=10 times=5 return=2
///     create after=0 times=all return=2
///
/// Calls are counted whether or not they fail. Thread-safe.
class FaultPlan {
 public:
  /// Endless, for Rule::times.
  static constexpr std::uint64_t kAll = ~std::uint64_t{0};

  struct Rule {
    std::string function;
    std::uint64_t after = 0;  ///< Calls that succeed first.
    std::uint64_t times = 1;  ///< Calls that fail then.
    int code = 0;             ///< What they return.
  };

  void add(Rule rule);
  /// Adds the rules of `text`. Returns an empty string, or "line N: what is wrong" (then no rule is added).
  [[nodiscard]] std::string add_text(std::string_view text);
  /// Forgets rules and counts.
  void clear();

  /// Counts a call and returns the code it must fail with; 0: it goes ahead.
  [[nodiscard]] int on_call(std::string_view function);
  /// Calls counted so far.
  [[nodiscard]] std::uint64_t calls(std::string_view function) const;
  /// Failures handed out so far, by all rules.
  [[nodiscard]] std::uint64_t injected() const;

 private:
  struct Counter {
    std::string function;
    std::uint64_t calls = 0;
  };

  mutable std::mutex mutex_;
  std::vector<Rule> rules_;
  std::vector<Counter> counters_;
  std::uint64_t injected_ = 0;
};

}  // namespace tidepool::fakes
