#include "allocator/handle_pool.h"

#include "allocator/support/message.h"
#include "allocator/support/stats_page.h"

namespace tidepool::runtime {

HandlePool::~HandlePool() {
  for (std::size_t i = 0; i < kClasses.size(); ++i) {
    for (const PhysicalHandle handle : spare_[i]) (void)device_.destroy(handle);
  }
}

Bytes HandlePool::created() const noexcept {
  const std::lock_guard guard(lock_);
  return created_;
}

Bytes HandlePool::spare() const noexcept {
  const std::lock_guard guard(lock_);
  return spare_bytes_;
}

Bytes HandlePool::available() const noexcept {
  const std::lock_guard guard(lock_);
  return spare_bytes_ + (limit_ - created_);
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
    while (missing >= size && created_ + size <= limit_) {
      const DeviceResult<PhysicalHandle> handle = device_.create(size);
      if (!handle.ok()) {
        report<Msg::TP3001>("cuMemCreate", handle.error().code());
        break;
      }
      StatsPage::instance().add(Metric::handles_created_total, 1);
      extents.push_back({*handle, size, false});
      created_ += size;
      missing -= size;
    }
  }
  return missing;
}

bool HandlePool::drop_one_larger_than(Bytes size) noexcept {
  for (std::size_t i = kClasses.size(); i-- > 0;) {
    if (kClasses[i] <= size || spare_[i].empty()) continue;
    if (!device_.destroy(spare_[i].back()).ok()) return false;
    spare_[i].pop_back();
    spare_bytes_ -= kClasses[i];
    created_ -= kClasses[i];
    return true;
  }
  return false;
}

void HandlePool::put(const Extent& extent) noexcept {
  const std::lock_guard guard(lock_);
  for (std::size_t i = 0; i < kClasses.size(); ++i) {
    if (kClasses[i] != extent.size) continue;
    spare_[i].push_back(extent.handle);
    spare_bytes_ += extent.size;
    return;
  }
}

}  // namespace tidepool::runtime
