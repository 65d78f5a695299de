#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "allocator/support/units.h"

namespace tidepool {

/// A device budget that was asked of a running process, as one word: so that whoever reads it has all of it,
/// and whoever writes it may die at any point. Zero: nobody has asked for anything.
class BudgetRequest {
 public:
  constexpr BudgetRequest() = default;
  [[nodiscard]] static constexpr BudgetRequest from_raw(std::uint64_t raw) noexcept { return {raw}; }
  /// The request that comes after `last`. Bytes beyond 128 TiB are taken as 128 TiB.
  [[nodiscard]] static constexpr BudgetRequest after(BudgetRequest last, Amount amount) noexcept {
    const std::uint64_t number = last.number() == kNumbers ? 1 : last.number() + 1;
    const std::uint64_t count = amount.count() < kCounts ? amount.count() : kCounts;
    return {number << kNumberShift | (amount.is_share() ? kShare : 0) | count};
  }

  [[nodiscard]] constexpr std::uint64_t raw() const noexcept { return raw_; }
  /// Which one it is: 1 to 65535, then from 1 again.
  [[nodiscard]] constexpr std::uint64_t number() const noexcept { return raw_ >> kNumberShift; }
  [[nodiscard]] constexpr Amount amount() const noexcept {
    return (raw_ & kShare) != 0 ? Amount::share(raw_ & kCounts) : Amount::bytes(Bytes(raw_ & kCounts));
  }
  constexpr bool operator==(const BudgetRequest&) const = default;
  explicit constexpr operator bool() const noexcept { return raw_ != 0; }

 private:
  static constexpr unsigned kNumberShift = 48;
  static constexpr std::uint64_t kNumbers = 0xffff;
  static constexpr std::uint64_t kShare = std::uint64_t{1} << 47;
  static constexpr std::uint64_t kCounts = kShare - 1;
  constexpr BudgetRequest(std::uint64_t raw) : raw_(raw) {}  // NOLINT(google-explicit-constructor)

  std::uint64_t raw_ = 0;
};

/// Why a budget became what it is.
enum class BudgetLimit : std::uint32_t {
  kAsked,   ///< as asked
  kLeast,   ///< a share that is less than the least that a budget may be
  kDevice,  ///< the device has no more, less its reserve
  kNeeded,  ///< what stays on the device and what one launch needs leave no less
};

/// What a process made of the latest request, for one device: a request is for each by itself.
struct BudgetOutcome {
  Bytes capacity;  ///< the most that may be held from now on
  Bytes before;    ///< and until now
  Bytes held;      ///< what was held when it had been done; more than `capacity` leaves later
  BudgetLimit limit = BudgetLimit::kAsked;
};

/// Where one device of a process answers. The request that `taken` names has been obeyed, and what the other
/// words say is true of it or of a later one; they are written before it.
struct alignas(64) BudgetAnswer {
  static constexpr std::uint32_t kTaken = 1;
  static constexpr std::uint32_t kAnswers = 2;

  std::atomic<std::uint32_t> owned;   ///< 0: free; kTaken: about to be; kAnswers: a device answers here
  std::atomic<std::uint32_t> limit;   ///< a BudgetLimit
  std::atomic<std::uint32_t> device;  ///< which one, as the program counts them
  std::atomic<std::uint64_t> capacity_bytes;
  std::atomic<std::uint64_t> before_bytes;
  std::atomic<std::uint64_t> held_bytes;
  std::atomic<std::uint64_t> taken;

  [[nodiscard]] BudgetOutcome outcome() const noexcept;
  void write(BudgetRequest request, const BudgetOutcome& outcome) noexcept;
};

/// The part of a stats page that others may write: a request, and an answer for each device.
/// `asked` is its first word: a program that follows by exec reads it from the file.
struct alignas(64) BudgetControl {
  static constexpr std::size_t kMostDevices = 16;

  std::atomic<std::uint64_t> asked;
  BudgetAnswer answers[kMostDevices];

  /// Asks for a budget, as the latest of all who ask; the request that was made.
  BudgetRequest ask(Amount amount) noexcept;
  /// A place for answers of that device, or null: all are taken. Thread-safe.
  BudgetAnswer* claim(std::uint32_t device) noexcept;
};

/// One device's ear at the control word. Hook-safe; any thread may ask, one takes.
class BudgetListener {
 public:
  /// Listens at this process' stats page (StatsPage::attach() comes before) for that device.
  explicit BudgetListener(std::uint32_t device) noexcept;
  ~BudgetListener();
  BudgetListener(const BudgetListener&) = delete;
  BudgetListener& operator=(const BudgetListener&) = delete;

  /// Is there a request that no thread has taken yet? Two loads.
  [[nodiscard]] bool is_asked() const noexcept {
    return control_.asked.load(std::memory_order_relaxed) != taken_.load(std::memory_order_relaxed);
  }
  /// The request, for the one thread that gets it; empty for others and where there is none.
  BudgetRequest take() noexcept;
  /// What became of a request. Where another has been answered meanwhile, of that one.
  void answer(BudgetRequest request, const BudgetOutcome& outcome) noexcept;
  /// After an answer that had to leave memory above the limit: how much is held now.
  void correct(Bytes held) noexcept;
  /// Nobody will answer for the device any more.
  void close() noexcept;
  /// After an answer, the limit had to become another.
  void correct(Bytes capacity, BudgetLimit limit) noexcept;

 private:
  BudgetControl& control_;
  BudgetAnswer* answer_;
  std::atomic<std::uint64_t> taken_{0};
};

}  // namespace tidepool
