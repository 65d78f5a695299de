#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "planner/plan/trace_record.h"

namespace tidepool::plan {

/// What one operation of a program counts as when iterations are looked for: its kind, size and kernel, not
/// its addresses.
struct Operation {
  std::uint32_t token = 0;
  std::int64_t bytes = 0;  ///< allocated by it; less than zero: freed
  bool is_input = false;   ///< a copy to the device
};

// Hook-safe. The same in the guest and for a reader of its trace.
Operation operation_of(const AllocationRecord& record) noexcept;
Operation operation_of(const FreeRecord& record) noexcept;
Operation operation_of(const LaunchRecord& record) noexcept;
Operation operation_of(const CopyRecord& record) noexcept;

/// Why no period is given.
enum class NoPeriod : std::uint8_t {
  kNone,      ///< there is one
  kTooFew,    ///< hardly any operations yet
  kNoRepeat,  ///< no sequence of operations came three times in a row
  kGrows,     ///< what repeats allocates more than it frees, or the other way round: no iteration of a loop
  kTooRare,   ///< what repeated is a small part of all operations
  kUniform,   ///< one operation over and over: where an iteration begins cannot be told
};

/// What is known about the iterations of a stream of operations.
struct IterationVerdict {
  NoPeriod why_not = NoPeriod::kTooFew;
  std::uint64_t operations = 0;  ///< seen
  std::uint64_t period = 0;      ///< operations of one iteration; 0: none is given
  std::uint64_t first = 0;       ///< index of the first operation of the first recognised iteration
  std::uint64_t iterations = 0;  ///< that ended
  std::uint64_t exact = 0;       ///< of these, with exactly the operations of the period
  std::uint64_t explained = 0;   ///< operations that belong to iterations, of `covered`
  std::uint64_t covered = 0;     ///< operations since the period was first seen

  [[nodiscard]] bool is_periodic() const noexcept { return why_not == NoPeriod::kNone; }
  /// Share of the operations, since the period was first seen, that it explains: 0 to 1.
  [[nodiscard]] double confidence() const noexcept {
    return covered == 0 ? 0 : static_cast<double>(explained) / static_cast<double>(covered);
  }
  bool operator==(const IterationVerdict&) const = default;
};

/// One clause: "a period of 40 operations, …" or why there is none.
std::string describe(const IterationVerdict& verdict);

/// Finds the period of a stream of operations: the shortest sequence that came three times in a row (so it
/// was confirmed twice) and then explains most of the stream. Operations that come in between now and then
/// (an evaluation, a line of a log) do not disturb: the stream is followed again behind them.
///
/// A candidate is found by matching the stream with its own past at one distance for as long as that holds; a
/// distance inside an iteration (equal layers) ends with the layers, the one from iteration to iteration does
/// not. What allocates more than it frees is no iteration. A longer candidate takes the place of one that
/// explains less than nine operations of ten, any other one only if it explains more operations than the
/// first.
///
/// Memory is fixed and given by the caller. O(1) amortised for each operation. Hook-safe; not thread-safe.
class IterationDetector {
 public:
  /// Operations in a row that show where in an iteration the stream is.
  static constexpr std::uint32_t kGram = 8;
  /// A sequence is confirmed after so many equal operations at least, however short it is.
  static constexpr std::uint64_t kLeastRun = 32;
  /// Operations that the longest period may have, for the guest.
  static constexpr std::uint32_t kGuestLongest = 1 << 17;

  /// Bytes of memory for periods of up to `longest` operations (a power of two, 1,024 at least).
  static std::size_t memory_bytes(std::uint32_t longest) noexcept;
  /// `memory`: zeroed, aligned to 8, of memory_bytes(longest); it must outlive the detector.
  IterationDetector(void* memory, std::uint32_t longest) noexcept;

  /// Takes the next operation. True: with it an iteration has ended, and the next operation begins one.
  bool add(const Operation& operation) noexcept;

  [[nodiscard]] IterationVerdict verdict() const noexcept;
  /// Operations of the iterations that are followed; 0: none. Whether that is a verdict, verdict() says.
  [[nodiscard]] std::uint32_t followed_period() const noexcept { return period_; }
  /// When add() said that an iteration ended: whether it had exactly the operations of the period.
  [[nodiscard]] bool last_was_exact() const noexcept { return last_exact_; }

 private:
  struct Item {
    std::uint32_t token;
    /// 512-byte units allocated less freed, times two; the lowest bit: a copy to the device.
    std::int32_t change;
  };

  [[nodiscard]] const Item& past(std::uint64_t position) const noexcept { return ring_[position & mask_]; }
  [[nodiscard]] std::uint64_t covered() const noexcept { return count_ - covered_from_; }
  [[nodiscard]] std::uint64_t explained() const noexcept { return covered() - unexplained_; }
  template <class TokenAt>
  static std::uint32_t slot_of_gram(std::uint32_t bits, TokenAt&& token_at) noexcept;

  bool search() noexcept;
  bool consider() noexcept;
  [[nodiscard]] bool may_replace(std::uint64_t period) const noexcept;
  [[nodiscard]] bool is_nested(std::uint64_t period) const noexcept;
  [[nodiscard]] bool is_balanced(std::uint64_t period) const noexcept;
  [[nodiscard]] std::uint32_t shortest_within(std::uint32_t period) noexcept;
  bool adopt(std::uint32_t period) noexcept;
  void choose_start() noexcept;
  void index_template() noexcept;
  bool step(std::uint32_t& phase) const noexcept;
  bool step_on() noexcept;
  bool follow(const Item& item) noexcept;
  bool follow_lost(const Item& item) noexcept;
  bool found_again() noexcept;

  Item* ring_;            ///< the last operations
  std::uint32_t* grams_;  ///< last position + 1 of each gram, by its hash; not kept up while is_steady_
  Item* template_;        ///< one iteration, from an arbitrary operation on
  std::uint32_t* index_;  ///< phase + 1 behind each gram of the template
  std::uint64_t mask_;
  std::uint32_t table_bits_;

  std::uint64_t count_ = 0;  ///< operations taken
  /// What is followed holds, and the search has nothing: then an operation is compared with the template
  /// alone.
  bool is_steady_ = false;

  // The period that is followed.
  bool synced_ = false;
  bool exact_so_far_ = false;
  bool last_exact_ = false;
  std::uint32_t period_ = 0;  ///< 0: none
  std::uint32_t phase_ = 0;   ///< of the operation that is expected next
  std::uint32_t start_ = 0;   ///< phase of the first operation of an iteration
  std::uint64_t first_ = 0;
  std::uint64_t last_start_ =
      0;  ///< position of the first operation of the last iteration that was seen to begin
  std::uint64_t iterations_ = 0;
  std::uint64_t exact_ = 0;
  std::uint64_t covered_from_ = 0;
  std::uint64_t unexplained_ = 0;
  std::uint32_t index_bits_ = 0;
  std::uint32_t lost_at_ = 0;  ///< where the unexpected operation came
  std::uint64_t lost_run_ = 0;
  std::uint32_t probe_ = 0;  ///< phase if nothing but extra operations came
  std::uint32_t probe_run_ = 0;
  std::uint32_t probe_wraps_ = 0;

  // The search: the stream matches itself at this distance for so many operations.
  std::uint64_t distance_ = 0;
  std::uint64_t run_ = 0;
  std::uint64_t next_check_ = 0;
  bool grew_ = false;
};

/// The detector for a reader of traces: takes every record, judges the operations among them. Periods of up
/// to four million operations. May throw std::bad_alloc.
class IterationFinder {
 public:
  IterationFinder();
  ~IterationFinder();
  IterationFinder(const IterationFinder&) = delete;
  IterationFinder& operator=(const IterationFinder&) = delete;

  void add(const AnyRecord& record);
  [[nodiscard]] IterationVerdict verdict() const noexcept { return detector_.verdict(); }

 private:
  void* memory_;
  IterationDetector detector_;
};

}  // namespace tidepool::plan
