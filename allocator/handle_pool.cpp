#include "allocator/handle_pool.h"

#include <algorithm>
#include <atomic>

#include "allocator/failed_call.h"
#include "allocator/support/message.h"
#include "allocator/support/stats_page.h"
#include "allocator/wait_clock.h"

namespace tidepool::runtime {

HandlePool::~HandlePool() {
  for (const auto& handles : spare_) {
    for (const PhysicalHandle handle : handles) {
      for (int more = 3; !device_.destroy(handle).ok() && more > 0; --more) {
      }
    }
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
  if (spare_bytes_ + (limit() - created()) < missing) return missing;
  while (missing > Bytes()) {
    const Bytes size = std::min(missing, kLargest);
    if (!take_spare(size, extents) && !trade(size, extents)) return take_pieces(missing, extents);
    missing -= size;
  }
  return missing;
}

bool HandlePool::take_spare(Bytes size, std::vector<Extent>& extents) noexcept {
  std::vector<PhysicalHandle>& handles = spare_[index_of(size)];
  if (handles.empty()) return false;
  extents.push_back({handles.back(), size, false});
  handles.pop_back();
  spare_bytes_ -= size;
  return true;
}

bool HandlePool::create(Bytes size, std::vector<Extent>& extents) noexcept {
  if (created() + size > limit()) return false;
  const DeviceResult<PhysicalHandle> handle = [&] {
    const WaitClock clock(Metric::wait_mapping_ns_total);
    return device_.create(size);
  }();
  const Status status = handle.ok() ? kOk : handle.error();
  lost_.store(loses_device(status) ? status.code() : kOk.code(), std::memory_order_relaxed);
  if (!handle.ok()) {
    note_refusal(handle.error());
    return false;
  }
  StatsPage::instance().add(Metric::handles_created_total, 1);
  extents.push_back({*handle, size, false});
  created_.fetch_add(size.count(), std::memory_order_relaxed);
  handles_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

// A device that others have filled refuses at every turn: one line for each process.
void HandlePool::note_refusal(Status error) const noexcept {
  static constinit std::atomic<bool> is_told{false};
  if (error != kOutOfMemory) {
    report_failed_call("cuMemCreate", error);
  } else if (!is_told.exchange(true, std::memory_order_relaxed)) {
    report_on<Msg::TP2008>(device_.number(), BytesText(limit()).c_str(), BytesText(created()).c_str());
  }
}

// Where the driver has less than the limit, what one spare handle was is worth a second try.
bool HandlePool::trade(Bytes size, std::vector<Extent>& extents) noexcept {
  if (!make_way(size)) return false;
  return create(size, extents) || (drop_best(size) && create(size, extents));
}

// The driver refused a handle, or would not take one back.
Bytes HandlePool::take_pieces(Bytes missing, std::vector<Extent>& extents) noexcept {
  for (std::size_t i = kSizes; i-- > 0;) {
    while (missing >= size_at(i) && take_spare(size_at(i), extents)) missing -= size_at(i);
  }
  for (Bytes size = kLargest; size >= kGranule && lost().ok(); size = Bytes(size.count() / 2)) {
    while (missing >= size && create(size, extents)) missing -= size;
  }
  return missing;
}

// Until one of that size fits below the limit.
bool HandlePool::make_way(Bytes size) noexcept {
  while (created() + size > limit()) {
    if (!drop_best(created() + size - limit())) return false;
  }
  return true;
}

// One that is enough, and no larger than it must be, or else the largest.
bool HandlePool::drop_best(Bytes excess) noexcept {
  const auto has_one = [](const auto& handles) { return !handles.empty(); };
  const std::size_t least = index_of(std::min(std::max(excess.round_up(kGranule), kGranule), kLargest));
  const auto enough =
      std::find_if(spare_.begin() + static_cast<std::ptrdiff_t>(least), spare_.end(), has_one);
  if (enough != spare_.end()) return drop_spare(static_cast<std::size_t>(enough - spare_.begin()));
  const auto largest = std::find_if(spare_.rbegin(), spare_.rend(), has_one);
  return largest != spare_.rend() && drop_spare(static_cast<std::size_t>(spare_.rend() - largest) - 1);
}

bool HandlePool::drop_spare(std::size_t index) noexcept {
  const Bytes size = size_at(index);
  if (!device_.destroy(spare_[index].back()).ok()) return false;
  spare_[index].pop_back();
  spare_bytes_ -= size;
  created_.fetch_sub(size.count(), std::memory_order_relaxed);
  handles_.fetch_sub(1, std::memory_order_relaxed);
  allowed_ = std::max(limit(), created());
  note_attention();
  return true;
}

void HandlePool::trim_to(Bytes most) noexcept {
  const std::lock_guard guard(lock_);
  while (created() > most && drop_best(created() - most)) {
  }
}

void HandlePool::put(const Extent& extent) noexcept {
  const std::lock_guard guard(lock_);
  spare_[index_of(extent.size)].push_back(extent.handle);
  spare_bytes_ += extent.size;
  if (is_over_limit()) (void)drop_spare(index_of(extent.size));
}

}  // namespace tidepool::runtime
