#include "allocator/support/budget_control.h"

#include "allocator/support/stats_page.h"

namespace tidepool {

BudgetOutcome BudgetAnswer::outcome() const noexcept {
  return {Bytes(capacity_bytes.load(std::memory_order_relaxed)),
          Bytes(before_bytes.load(std::memory_order_relaxed)),
          Bytes(held_bytes.load(std::memory_order_relaxed)),
          static_cast<BudgetLimit>(limit.load(std::memory_order_relaxed))};
}

void BudgetAnswer::write(BudgetRequest request, const BudgetOutcome& outcome) noexcept {
  capacity_bytes.store(outcome.capacity.count(), std::memory_order_relaxed);
  before_bytes.store(outcome.before.count(), std::memory_order_relaxed);
  held_bytes.store(outcome.held.count(), std::memory_order_relaxed);
  limit.store(static_cast<std::uint32_t>(outcome.limit), std::memory_order_relaxed);
  taken.store(request.raw(), std::memory_order_release);
}

BudgetRequest BudgetControl::ask(Amount amount) noexcept {
  std::uint64_t last = asked.load(std::memory_order_relaxed);
  for (;;) {
    const BudgetRequest request = BudgetRequest::after(BudgetRequest::from_raw(last), amount);
    if (asked.compare_exchange_weak(last, request.raw(), std::memory_order_acq_rel)) return request;
  }
}

// Readers look at places that are owned only, so the device is written in between.
BudgetAnswer* BudgetControl::claim(std::uint32_t device) noexcept {
  for (BudgetAnswer& answer : answers) {
    std::uint32_t free = 0;
    if (!answer.owned.compare_exchange_strong(free, BudgetAnswer::kTaken, std::memory_order_acq_rel))
      continue;
    answer.device.store(device, std::memory_order_relaxed);
    answer.owned.store(BudgetAnswer::kAnswers, std::memory_order_release);
    return &answer;
  }
  return nullptr;
}

BudgetListener::BudgetListener(std::uint32_t device) noexcept
    : control_(StatsPage::instance().budget_control()), answer_(control_.claim(device)) {}

BudgetListener::~BudgetListener() {
  close();
}

void BudgetListener::close() noexcept {
  if (answer_ == nullptr) return;
  answer_->taken.store(0, std::memory_order_relaxed);
  answer_->owned.store(0, std::memory_order_release);
  answer_ = nullptr;
}

BudgetRequest BudgetListener::take() noexcept {
  std::uint64_t taken = taken_.load(std::memory_order_relaxed);
  const std::uint64_t asked = control_.asked.load(std::memory_order_acquire);
  if (asked == taken || !taken_.compare_exchange_strong(taken, asked, std::memory_order_acq_rel)) return {};
  return BudgetRequest::from_raw(asked);
}

// Whoever took a later request may have answered first: its answer stays.
void BudgetListener::answer(BudgetRequest request, const BudgetOutcome& outcome) noexcept {
  if (answer_ == nullptr || taken_.load(std::memory_order_acquire) != request.raw()) return;
  answer_->write(request, outcome);
}

void BudgetListener::correct(Bytes held) noexcept {
  if (answer_ != nullptr && answer_->taken.load(std::memory_order_relaxed) != 0)
    answer_->held_bytes.store(held.count(), std::memory_order_relaxed);
}

void BudgetListener::correct(Bytes capacity, BudgetLimit limit) noexcept {
  if (answer_ == nullptr || answer_->taken.load(std::memory_order_relaxed) == 0) return;
  answer_->capacity_bytes.store(capacity.count(), std::memory_order_relaxed);
  answer_->limit.store(static_cast<std::uint32_t>(limit), std::memory_order_relaxed);
}

}  // namespace tidepool
