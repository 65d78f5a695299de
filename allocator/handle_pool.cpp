#include "allocator/handle_pool.h"

#include <algorithm>
#include <atomic>

#include "allocator/failed_call.h"
#include "allocator/support/message.h"
#include "allocator/support/stats_page.h"
#include "allocator/wait_clock.h"

namespace tidepool::runtime {

HandlePool::~HandlePool() {
  for (std::size_t i = 0; i < kClasses.size(); ++i) {
    for (const PhysicalHandle handle : spare_[i]) (void)device_.destroy(handle);
  }
}

void HandlePool::set_limit(Bytes limit) noexcept {
  const std::lock_guard guard(lock_);
  limit_.store(limit.count(), std::memory_order_relaxed);
  allowed_ = std::max(limit, created());
  note_attention();
}

void HandlePool::attend_always() noexcept {
  const std::lock_guard guard(lock_);
  always_attended_ = true;
  note_attention();
}

void HandlePool::note_attention() noexcept {
  attention_.store(always_attended_ || is_over_limit(), std::memory_order_relaxed);
}

bool HandlePool::kept_its_limit() const noexcept {
  const std::lock_guard guard(lock_);
  return created() <= allowed_;
}

Bytes HandlePool::spare() const noexcept {
  const std::lock_guard guard(lock_);
  return spare_bytes_;
}

Bytes HandlePool::available() const noexcept {
  const std::lock_guard guard(lock_);
  return spare_bytes_ + (limit() - created());
}

Bytes HandlePool::take(Bytes missing, std::vector<Extent>& extents) noexcept {
  const std::lock_guard guard(lock_);
  missing = take_spare(missing, extents);
  missing = create_new(missing, extents);
  // Spare memory can be in handles that are too large for what is still missing: trade them for small ones.
  while (missing > Bytes() && drop_one_larger_than(missing)) missing = create_new(missing, extents);
  return missing;
}

Bytes HandlePool::take_spare(Bytes missing, std::vector<Extent>& extents) noexcept {
  for (std::size_t i = 0; i < kClasses.size(); ++i) {
    while (missing >= kClasses[i] && !spare_[i].empty()) {
      extents.push_back({spare_[i].back(), kClasses[i], false});
      spare_[i].pop_back();
      spare_bytes_ -= kClasses[i];
      missing -= kClasses[i];
    }
  }
  return missing;
}

Bytes HandlePool::create_new(Bytes missing, std::vector<Extent>& extents) noexcept {
  for (const Bytes size : kClasses) {
    while (missing >= size && created() + size <= limit()) {
      const DeviceResult<PhysicalHandle> handle = [&] {
        const WaitClock clock(Metric::wait_mapping_ns_total);
        return device_.create(size);
      }();
      const Status status = handle.ok() ? kOk : handle.error();
      lost_.store(loses_device(status) ? status.code() : kOk.code(), std::memory_order_relaxed);
      if (!handle.ok()) {
        note_refusal(handle.error());
        break;
      }
      StatsPage::instance().add(Metric::handles_created_total, 1);
      extents.push_back({*handle, size, false});
      created_.fetch_add(size.count(), std::memory_order_relaxed);
      missing -= size;
    }
  }
  return missing;
}

// A device that others have filled refuses at every turn: one line for each process.
void HandlePool::note_refusal(Status error) const noexcept {
  static constinit std::atomic<bool> is_told{false};
  if (error != kOutOfMemory) {
    report_failed_call("cuMemCreate", error);
  } else if (!is_told.exchange(true, std::memory_order_relaxed)) {
    report<Msg::TP2008>(BytesText(limit()).c_str(), BytesText(created()).c_str());
  }
}

bool HandlePool::drop_one_larger_than(Bytes size) noexcept {
  for (std::size_t i = kClasses.size(); i-- > 0;) {
    if (kClasses[i] <= size || spare_[i].empty()) continue;
    return drop_spare(i);
  }
  return false;
}

bool HandlePool::drop_spare(std::size_t size_class) noexcept {
  if (!device_.destroy(spare_[size_class].back()).ok()) return false;
  spare_[size_class].pop_back();
  spare_bytes_ -= kClasses[size_class];
  created_.fetch_sub(kClasses[size_class].count(), std::memory_order_relaxed);
  allowed_ = std::max(limit(), created());
  note_attention();
  return true;
}

void HandlePool::trim_to(Bytes most) noexcept {
  const std::lock_guard guard(lock_);
  // Small ones first: no more than necessary goes.
  for (std::size_t i = kClasses.size(); i-- > 0;) {
    while (created() > most && !spare_[i].empty()) {
      if (!drop_spare(i)) return;
    }
  }
}

void HandlePool::put(const Extent& extent) noexcept {
  const std::lock_guard guard(lock_);
  for (std::size_t i = 0; i < kClasses.size(); ++i) {
    if (kClasses[i] != extent.size) continue;
    spare_[i].push_back(extent.handle);
    spare_bytes_ += extent.size;
    if (is_over_limit()) (void)drop_spare(i);
    return;
  }
}

}  // namespace tidepool::runtime
