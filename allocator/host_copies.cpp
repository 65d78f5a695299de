#include "allocator/host_copies.h"

#include <algorithm>
#include <utility>

namespace tidepool::runtime {

Bytes size_of(const HostSlot& slot) noexcept {
  Bytes sum;
  for (const HostRun& run : slot) sum += run.size;
  return sum;
}

HostCopies::Record& HostCopies::record(BlockId id) noexcept {
  if (records_.size() <= id) records_.resize(id + 1);
  Record& record = records_[id];
  const std::uint32_t life = arena_.block(id).life.load(std::memory_order_relaxed);
  if (record.life != life) {
    release(record);
    record = Record{};
    record.life = life;
  }
  return record;
}

void HostCopies::release(Record& record) noexcept {
  if (record.slot.empty()) return;
  held_ -= size_of(record.slot);
  host_.release(record.slot);
  record.slot.clear();
}

const ContentHash* HostCopies::hash_of(BlockId id) noexcept {
  const Record& known = record(id);
  return known.hash_known ? &known.hash : nullptr;
}

bool HostCopies::has_copy(BlockId id) noexcept {
  const Record& known = record(id);
  return known.hash_known && !known.slot.empty();
}

bool HostCopies::is_promising(BlockId id) noexcept {
  const Record& known = record(id);
  return known.compared < kRecent || known.unchanged != 0;
}

bool HostCopies::is_worth_a_hash(BlockId id) noexcept {
  return is_promising(id) || ++record(id).copies % kSeldom == 0;
}

HostSlot HostCopies::take(BlockId id) noexcept {
  Record& known = record(id);
  held_ -= size_of(known.slot);
  return std::exchange(known.slot, {});
}

void HostCopies::keep(BlockId id, HostSlot slot) noexcept {
  if (slot.empty()) return;
  Record& known = record(id);
  if (!known.hash_known || !known.slot.empty() || !is_promising(id)) {
    host_.release(slot);
    return;
  }
  held_ += size_of(slot);
  known.slot = std::move(slot);
}

void HostCopies::note(BlockId id, const ContentHash& hash) noexcept {
  Record& known = record(id);
  if (known.hash_known) {
    const unsigned same = known.hash == hash ? 1 : 0;
    known.unchanged = static_cast<std::uint8_t>((known.unchanged << 1 | same) & ((1u << kRecent) - 1));
    known.compared = static_cast<std::uint8_t>(std::min(known.compared + 1, kRecent));
  }
  known.hash = hash;
  known.hash_known = true;
}

void HostCopies::forget_hash(BlockId id) noexcept {
  Record& known = record(id);
  known.hash_known = false;
  release(known);
}

// Of the block that was used last, which will be the last to leave.
bool HostCopies::drop_one(bool proven) noexcept {
  Record* latest = nullptr;
  std::uint64_t used = 0;
  for (BlockId id = 1; id < records_.size(); ++id) {
    Record& one = records_[id];
    if (one.slot.empty() || (one.unchanged != 0) != proven) continue;
    const std::uint64_t last_use = arena_.block(id).last_use.load(std::memory_order_relaxed);
    if (latest != nullptr && last_use < used) continue;
    latest = &one;
    used = last_use;
  }
  if (latest == nullptr) return false;
  release(*latest);
  return true;
}

DeviceResult<HostSlot> HostCopies::make_slot(Bytes size) noexcept {
  while (host_.pinned() - host_.used() < size && drop_one(/*proven=*/false)) {
  }
  for (;;) {
    DeviceResult<HostSlot> slot = host_.allocate(size);
    if (slot.ok() || !drop_one(/*proven=*/true)) return slot;
  }
}

void HostCopies::sweep() noexcept {
  for (BlockId id = 1; id < records_.size(); ++id) {
    if (!records_[id].slot.empty()) (void)record(id);
  }
}

const char* HostCopies::check() const noexcept {
  Bytes held;
  for (BlockId id = 1; id < records_.size(); ++id) {
    const Record& one = records_[id];
    held += size_of(one.slot);
    if (one.slot.empty()) continue;
    if (!one.hash_known) return "a copy on the host has no hash";
    const Block& block = arena_.block(id);
    if (one.life != block.life.load(std::memory_order_relaxed)) continue;  // freed, and not swept yet
    if (size_of(one.slot) < block.requested()) return "a copy on the host is too small for its block";
    if (!block.host.empty()) return "a block that is out has a second copy on the host";
  }
  return held == held_ ? nullptr : "copies on the host do not add up";
}

}  // namespace tidepool::runtime
