#include "planner/plan/iteration.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>

namespace tidepool::plan {
namespace {

constexpr std::uint64_t kBase = 0x9E37'79B9'7F4A'7C15;

constexpr std::uint32_t mix(RecordKind kind, std::uint64_t a, std::uint64_t b) noexcept {
  std::uint64_t h = (a + static_cast<std::uint64_t>(kind) * kBase) * 0xBF58'476D'1CE4'E5B9;
  h = ((h ^ (h >> 32)) + b) * 0x94D0'49BB'1331'11EB;
  return static_cast<std::uint32_t>(h >> 32);
}

constexpr std::uint32_t kSeveral = UINT32_MAX;

constexpr std::int64_t kUnit = 512;
constexpr std::int64_t kMostUnits = INT32_MAX / 4;

std::int32_t change_of(const Operation& operation) noexcept {
  if (operation.bytes == 0) [[likely]]
    return operation.is_input ? 1 : 0;
  const std::int64_t sign = operation.bytes < 0 ? -1 : 1;
  const std::int64_t units = std::min((std::abs(operation.bytes) + kUnit - 1) / kUnit, kMostUnits);
  return static_cast<std::int32_t>(sign * units * 2 + (operation.is_input ? 1 : 0));
}
std::int64_t units_of(std::int32_t change) noexcept {
  return change >> 1;
}

}  // namespace

Operation operation_of(const AllocationRecord& record) noexcept {
  return {mix(RecordKind::kAllocation, record.bytes, static_cast<std::uint64_t>(record.api)),
          static_cast<std::int64_t>(record.bytes), false};
}
Operation operation_of(const FreeRecord& record) noexcept {
  return {mix(RecordKind::kFree, record.bytes, static_cast<std::uint64_t>(record.api)),
          -static_cast<std::int64_t>(record.bytes), false};
}
Operation operation_of(const LaunchRecord& record) noexcept {
  // Two extents at a time: this is on the launch path.
  std::uint64_t pairs[3];
  static_assert(sizeof pairs == sizeof record.grid);
  std::memcpy(pairs, &record.grid, sizeof pairs);
  const std::uint64_t size =
      pairs[0] * 0xD6E8'FEB8'6659'FD93 + pairs[1] * 0xA076'1D64'78BD'642F + pairs[2] * 0xE703'7ED1'A0B4'28DB;
  return {mix(RecordKind::kLaunch, size ^ (size >> 32), record.kernel), 0, false};
}
Operation operation_of(const CopyRecord& record) noexcept {
  return {mix(RecordKind::kCopy, record.bytes, static_cast<std::uint64_t>(record.kind)), 0,
          record.kind == CopyKind::kToDevice};
}

std::size_t IterationDetector::memory_bytes(std::uint32_t longest) noexcept {
  return static_cast<std::size_t>(longest) * 2 * (sizeof(Item) + 2 * sizeof(std::uint32_t));
}

IterationDetector::IterationDetector(void* memory, std::uint32_t longest) noexcept
    : ring_(static_cast<Item*>(memory)),
      grams_(reinterpret_cast<std::uint32_t*>(ring_ + longest)),
      template_(reinterpret_cast<Item*>(grams_ + 2 * std::size_t{longest})),
      index_(reinterpret_cast<std::uint32_t*>(template_ + longest)),
      mask_(longest - 1),
      table_bits_(static_cast<std::uint32_t>(std::countr_zero(longest)) + 1) {}

// Of kGram tokens, the place in a table.
template <class TokenAt>
std::uint32_t IterationDetector::slot_of_gram(std::uint32_t bits, TokenAt&& token_at) noexcept {
  std::uint64_t hash = 0;
  for (std::uint32_t i = 0; i < kGram; ++i) hash = hash * kBase + token_at(i);
  return static_cast<std::uint32_t>((hash * kBase) >> (64 - bits));
}

bool IterationDetector::add(const Operation& operation) noexcept {
  Item& item = ring_[count_ & mask_];
  item = {operation.token, change_of(operation)};
  ++count_;
  if (is_steady_) [[likely]] {
    if (item.token == template_[phase_].token) [[likely]]
      return step_on();
    is_steady_ = false;
  }
  if (search() || period_ == 0) return false;
  const bool has_ended = synced_ ? follow(item) : follow_lost(item);
  is_steady_ = synced_ && (distance_ == 0 || distance_ == period_);
  if (is_steady_) distance_ = run_ = 0;  // nothing better to be looked for
  return has_ended;
}

// Stays at a distance while it holds; then looks where the last few operations came before. True: a period
// was taken, and this operation is in it.
bool IterationDetector::search() noexcept {
  const std::uint64_t last = count_ - 1;
  if (distance_ != 0 && past(last).token == past(last - distance_).token) [[likely]] {
    ++run_;
  } else {
    distance_ = run_ = 0;
  }
  if (count_ < kGram) return false;
  std::uint32_t& place =
      grams_[slot_of_gram(table_bits_, [&](std::uint32_t i) { return past(count_ - kGram + i).token; })];
  if (distance_ == 0 && place != 0) {
    const std::uint32_t back = static_cast<std::uint32_t>(count_) - place;
    // The ring must still hold that gram.
    bool same = back != 0 && back <= mask_ - kGram && back < count_ - kGram + 1;
    for (std::uint32_t i = 0; i < kGram && same; ++i)
      same = past(last - i).token == past(last - back - i).token;
    if (same) {
      distance_ = back;
      run_ = kGram;
      next_check_ = std::max(2 * distance_, kLeastRun);
    }
  }
  place = static_cast<std::uint32_t>(count_);
  if (distance_ != 0 && run_ >= next_check_) [[unlikely]]
    return consider();
  return false;
}

// The last run_ + distance_ operations repeat at this distance: three times at least.
bool IterationDetector::consider() noexcept {
  next_check_ = run_ + distance_;  // looked at again after a period, so that this costs O(1) for an operation
  if (!may_replace(distance_)) return false;
  if (!is_balanced(distance_)) {
    grew_ = true;
    return false;
  }
  return adopt(static_cast<std::uint32_t>(distance_));
}

bool IterationDetector::may_replace(std::uint64_t period) const noexcept {
  if (period_ == 0) return true;
  if (synced_ && period == period_) return false;
  // One operation over and over is a loop inside, if it is part of anything.
  if (period_ == 1) return true;
  const bool explains_most = explained() * 10 >= covered() * 9;
  if (period >= 2 * std::uint64_t{period_}) return !explains_most || is_nested(period);
  return !synced_ && run_ + distance_ > explained();
}

// Is the period that is followed part of the longer one, and not a step of its own? Then memory is held
// around it that the longer one gives back: the activation between the layers of a network, gradients between
// the steps that gather them.
bool IterationDetector::is_nested(std::uint64_t period) const noexcept {
  const std::uint64_t since_start = count_ - last_start_;
  if (since_start > period) return false;
  std::int64_t live = 0;  // before the operation, against now
  std::int64_t least = 0;
  std::int64_t most = 0;
  std::int64_t at_start = 0;
  for (std::uint64_t i = 1; i <= period; ++i) {
    live -= units_of(past(count_ - i).change);
    if (i == since_start) at_start = live;
    least = std::min(least, live);
    most = std::max(most, live);
  }
  return (at_start - least) * 64 > most - least;
}

// An iteration frees what it allocates; a little may be kept (a value for the log of each).
bool IterationDetector::is_balanced(std::uint64_t period) const noexcept {
  std::int64_t net = 0;
  std::int64_t gross = 0;
  for (std::uint64_t i = 1; i <= period; ++i) {
    const std::int64_t units = units_of(past(count_ - i).change);
    net += units;
    gross += std::abs(units);
  }
  return std::abs(net) * 32 <= gross;
}

// Of the last operations, so many of them: the shortest period that divides their number. Uses the index as
// working memory.
std::uint32_t IterationDetector::shortest_within(std::uint32_t period) noexcept {
  std::uint32_t* const border = index_;  // as in the search of Knuth, Morris and Pratt
  const auto token = [&](std::uint32_t i) { return past(count_ - period + i).token; };
  border[0] = 0;
  for (std::uint32_t i = 1, k = 0; i < period; ++i) {
    while (k > 0 && token(i) != token(k)) k = border[k - 1];
    if (token(i) == token(k)) ++k;
    border[i] = k;
  }
  const std::uint32_t shortest = period - border[period - 1];
  return period % shortest == 0 ? shortest : period;
}

// False: it is the period that is followed already, several times.
bool IterationDetector::adopt(std::uint32_t period) noexcept {
  const std::uint32_t shortest = shortest_within(period);
  if (synced_ && shortest == period_) {
    index_template();
    return false;
  }
  period_ = shortest;
  for (std::uint32_t i = 0; i < period_; ++i) template_[i] = past(count_ - period_ + i);
  choose_start();
  index_template();
  synced_ = true;
  exact_so_far_ = true;
  phase_ = 0;  // the template ends with the last operation
  // What repeated so far: whole iterations between the starts in it.
  const std::uint64_t history = run_ + distance_;
  const std::uint64_t before_end = start_ == 0 ? 0 : period_ - start_;  // operations since the last start
  const std::uint64_t whole = (history - before_end) / period_;
  iterations_ = exact_ = whole;
  last_start_ = count_ - before_end;
  first_ = last_start_ - whole * period_;
  covered_from_ = count_ - history;
  unexplained_ = 0;
  is_steady_ = true;
  distance_ = run_ = 0;
  return true;
}

// An iteration begins where the least memory is in use; where that is so at several places, with the first of
// the copies that bring its input.
void IterationDetector::choose_start() noexcept {
  std::int64_t live = 0;
  std::int64_t least = 0;
  bool best_is_input = false;
  start_ = 0;
  for (std::uint32_t i = 0; i < period_; ++i) {
    const bool was_input = (template_[(i + period_ - 1) % period_].change & 1) != 0;
    const bool is_input = (template_[i].change & 1) != 0 && !was_input;
    if (i == 0 || live < least || (live == least && is_input && !best_is_input)) {
      least = live;
      start_ = i;
      best_is_input = is_input;
    }
    live += units_of(template_[i].change);
  }
}

// Every gram of the (circular) template by its hash; what comes twice does not tell a phase.
void IterationDetector::index_template() noexcept {
  index_bits_ = static_cast<std::uint32_t>(std::bit_width(period_)) + 1;
  index_bits_ = std::min(std::max(index_bits_, 6u), table_bits_);
  std::fill(index_, index_ + (std::size_t{1} << index_bits_), 0u);
  for (std::uint32_t first = 0; first < period_; ++first) {
    std::uint32_t& place = index_[slot_of_gram(
        index_bits_, [&](std::uint32_t i) { return template_[(first + i) % period_].token; })];
    place = place == 0 ? (first + kGram) % period_ + 1 : kSeveral;
  }
}

// To the next phase; true where that begins an iteration.
bool IterationDetector::step(std::uint32_t& phase) const noexcept {
  if (++phase == period_) phase = 0;
  return phase == start_;
}

// The operation is the expected one.
bool IterationDetector::step_on() noexcept {
  if (!step(phase_)) [[likely]]
    return false;
  ++iterations_;
  last_start_ = count_;
  if (exact_so_far_) ++exact_;
  last_exact_ = exact_so_far_;
  exact_so_far_ = true;
  return true;
}

bool IterationDetector::follow(const Item& item) noexcept {
  if (item.token == template_[phase_].token) return step_on();
  synced_ = false;
  exact_so_far_ = false;
  lost_at_ = probe_ = phase_;
  lost_run_ = probe_run_ = probe_wraps_ = 0;
  return follow_lost(item);
}

// Two ways back: the operations that were expected come after all, behind extra ones; or the last ones are
// those of exactly one place of the template.
bool IterationDetector::follow_lost(const Item& item) noexcept {
  ++unexplained_;
  ++lost_run_;
  if (probe_run_ > 0 && item.token != template_[probe_].token) {
    probe_ = lost_at_;
    probe_run_ = probe_wraps_ = 0;
  }
  if (item.token == template_[probe_].token) {
    ++probe_run_;
    if (step(probe_)) ++probe_wraps_;
  }
  if (probe_run_ < kGram) return found_again();
  synced_ = true;
  phase_ = probe_;
  unexplained_ -= probe_run_;
  iterations_ += probe_wraps_;
  // The one that was disturbed has ended if a start was passed; what follows is whole so far.
  exact_so_far_ = probe_wraps_ > 0;
  last_exact_ = false;
  return probe_wraps_ > 0 && phase_ == start_;
}

// Operations were left out, or came in another order.
bool IterationDetector::found_again() noexcept {
  if (count_ < kGram) return false;
  const auto token = [&](std::uint32_t i) { return past(count_ - kGram + i).token; };
  const std::uint32_t behind = index_[slot_of_gram(index_bits_, token)];
  if (behind == 0 || behind == kSeveral) return false;
  std::uint32_t phase = behind - 1;
  for (std::uint32_t i = kGram; i-- > 0;) {
    phase = phase == 0 ? period_ - 1 : phase - 1;
    if (token(i) != template_[phase].token) return false;
  }
  synced_ = true;
  phase_ = behind - 1;
  unexplained_ -= std::min<std::uint64_t>(kGram, lost_run_);
  return false;
}

IterationVerdict IterationDetector::verdict() const noexcept {
  constexpr std::uint64_t kLeastOperations = 3 * kLeastRun / 2;
  IterationVerdict verdict;
  verdict.operations = count_;
  if (period_ == 0) {
    verdict.why_not = count_ < kLeastOperations ? NoPeriod::kTooFew
                      : grew_                   ? NoPeriod::kGrows
                                                : NoPeriod::kNoRepeat;
    return verdict;
  }
  verdict.first = first_;
  verdict.iterations = iterations_;
  verdict.exact = exact_;
  verdict.explained = explained();
  verdict.covered = covered();
  const bool is_rare = verdict.explained * 2 < verdict.operations;
  verdict.why_not = is_rare ? NoPeriod::kTooRare : period_ == 1 ? NoPeriod::kUniform : NoPeriod::kNone;
  if (verdict.is_periodic()) verdict.period = period_;
  return verdict;
}

}  // namespace tidepool::plan
