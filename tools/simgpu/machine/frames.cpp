#include "tools/simgpu/machine/frames.h"

#include <algorithm>

#include "tools/simgpu/machine/machine.h"

namespace simgpu {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

void charge(DeviceUse& use, const FrameRecord& record) {
  use.now.fetch_add(record.size, kRelaxed);
  (record.plain != 0 ? use.plain_now : use.vmm_now).fetch_add(record.size, kRelaxed);
}

}  // namespace

FrameRecord* FrameTable::take(std::uint64_t size, bool plain, unsigned slot) {
  if (size > capacity - use.now.load(kRelaxed)) return nullptr;
  std::uint32_t at = hint;
  while (at < high_water && records[at].size != 0) ++at;
  if (at == kMaxRecords) return nullptr;
  FrameRecord& record = records[at];
  record.generation += 1;
  record.holders = std::uint64_t{1} << slot;
  record.placed = 0;
  record.exported = 0;
  record.plain = plain ? 1 : 0;
  record.home = static_cast<std::uint8_t>(slot);
  record.size = size;
  hint = at + 1;
  high_water = std::max(high_water, at + 1);
  charge(use, record);
  if (use.now.load(kRelaxed) > use.peak.load(kRelaxed)) use.peak.store(use.now.load(kRelaxed), kRelaxed);
  return &record;
}

void FrameTable::release(FrameRecord* record) {
  use.now.fetch_sub(record->size, kRelaxed);
  (record->plain != 0 ? use.plain_now : use.vmm_now).fetch_sub(record->size, kRelaxed);
  record->generation += 1;
  record->size = 0;
  record->holders = 0;
  record->placed = 0;
  hint = std::min(hint, index_of(record));
}

void FrameTable::repair(const SharedMutex& mutex) {
  if (deaths_seen == mutex.deaths()) return;
  deaths_seen = mutex.deaths();
  use.now.store(0, kRelaxed);
  use.plain_now.store(0, kRelaxed);
  use.vmm_now.store(0, kRelaxed);
  hint = 0;
  // The dead process may have taken a record before it counted it.
  while (high_water < kMaxRecords && records[high_water].size != 0) ++high_water;
  for (std::uint32_t i = 0; i < high_water; ++i) {
    if (records[i].size != 0) charge(use, records[i]);
  }
}

FrameRecord* FrameTable::at_offset(std::uint64_t offset) {
  for (std::uint32_t i = 0; i < high_water; ++i) {
    FrameRecord& record = records[i];
    if (record.size != 0 && record.placed != 0 && record.offset == offset) return &record;
  }
  return nullptr;
}

}  // namespace simgpu
