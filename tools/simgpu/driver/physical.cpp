#include "tools/simgpu/driver/physical.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <utility>

#include "tools/simgpu/driver/random.h"

namespace simgpu {
namespace {

/// The lower half of a slot's part of the file mirrors addresses; what finds its place there taken goes to
/// the upper.
constexpr std::uint64_t kHalf = kSlotFileBytes / 2;
constexpr std::uint64_t kPatternBytes = 64 << 10;
/// Host pages of free frames that are kept for reuse: giving them back and taking them again costs more than
/// filling them.
constexpr std::uint64_t kKeepRecycled = std::uint64_t{256} << 20;

constexpr std::uint64_t bit(unsigned slot) {
  return std::uint64_t{1} << slot;
}

/// Handles of all devices. Every caller holds the driver's lock.
std::uint64_t next_id() {
  static std::uint64_t last = 0;
  return ++last;
}

std::uint64_t next_place(std::uint64_t size) {
  static std::uint64_t next = 0;
  return std::exchange(next, next + size);
}

void punch(int fd, std::uint64_t low, std::uint64_t high) {
  ::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(low),
              static_cast<off_t>(high - low));
}

}  // namespace

PhysicalMemory::PhysicalMemory(int ordinal, const MachineFile& machine, const ProcessSlot& slot)
    : ordinal_(ordinal),
      machine_(machine),
      table_(machine->memory[static_cast<std::size_t>(ordinal)]),
      slot_(static_cast<unsigned>(&slot - machine->processes.data())),
      fd_(machine.open_memory(static_cast<std::uint32_t>(ordinal))),
      pattern_(kPatternBytes / sizeof(std::uint64_t)) {
  Random random((machine->config.seed + static_cast<unsigned>(ordinal)) ^ 0x706f69736f6eU);
  for (std::uint64_t& word : pattern_) word = random.next();
  if (!ok()) return;
  const std::scoped_lock lock(machine->mutex);
  table_.repair(machine->mutex);
  forget_slot(slot_);  // what is left of a process that had the slot before
}

std::uint64_t PhysicalMemory::used() {
  const std::scoped_lock lock(machine_->mutex);
  table_.repair(machine_->mutex);
  collect();
  return table_.use.now.load(std::memory_order_relaxed);
}

CUresult PhysicalMemory::create(std::uint64_t size, bool plain, Physical** out) {
  FrameRecord* record = nullptr;
  {
    const std::scoped_lock lock(machine_->mutex);
    table_.repair(machine_->mutex);
    record = table_.take(size, plain, slot_);
    if (record == nullptr) {
      collect();
      record = table_.take(size, plain, slot_);
    }
  }
  if (record == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  auto* physical = new Physical;
  physical->memory = this;
  physical->record = record;
  physical->id = next_id();
  physical->size = size;
  physical->place = next_place(size);
  physical->plain = plain;
  *out = physical;
  return CUDA_SUCCESS;
}

void PhysicalMemory::drop_handle(Physical* physical) {
  --physical->handles;
  maybe_free(physical);
}

CUresult PhysicalMemory::place(Physical* physical, std::uint64_t preferred) {
  FrameRecord& record = *physical->record;
  if (record.placed != 0) return CUDA_SUCCESS;
  take_back_places();
  const std::uint64_t part = slot_ * kSlotFileBytes;
  std::uint64_t offset = part + preferred % kHalf;
  if (offset + physical->size > part + kHalf || places_.overlaps(offset, offset + physical->size)) {
    const auto gap = places_.first_gap(part + kHalf, physical->size, part + kSlotFileBytes);
    if (!gap) return CUDA_ERROR_OUT_OF_MEMORY;
    offset = *gap;
  }
  physical->fresh.assign(physical->size / kFrameBytes, true);
  recycled_.remove(offset, offset + physical->size);
  places_.add(offset, offset + physical->size);
  const std::scoped_lock lock(machine_->mutex);
  record.offset = offset;
  record.placed = 1;
  return CUDA_SUCCESS;
}

/// For memory that others are to know: they do not see what is fresh.
CUresult PhysicalMemory::place_shared(Physical* physical) {
  const CUresult placed = place(physical, kHalf);
  if (placed != CUDA_SUCCESS) return placed;
  if (!touch(physical, 0, physical->fresh.size())) return CUDA_ERROR_OUT_OF_MEMORY;
  physical->fresh.clear();
  return CUDA_SUCCESS;
}

CUresult PhysicalMemory::add_mapping(Physical* physical, std::uint64_t preferred) {
  const CUresult placed = place(physical, preferred);
  if (placed == CUDA_SUCCESS) ++physical->mappings;
  return placed;
}

void PhysicalMemory::drop_mapping(Physical* physical) {
  --physical->mappings;
  maybe_free(physical);
}

void PhysicalMemory::maybe_free(Physical* physical) {
  if (physical->handles != 0 || physical->mappings != 0) return;
  std::erase(shared_, physical);
  FrameRecord* record = physical->record;
  delete physical;
  const std::scoped_lock lock(machine_->mutex);
  table_.repair(machine_->mutex);
  record->holders &= ~bit(slot_);
  if (record->holders == 0 && !descriptor_open(*record)) return release(record);
  keep_place_of(*record);
}

bool PhysicalMemory::descriptor_open(const FrameRecord& record) const {
  if (record.exported == 0) return false;
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(record.offset);
  lock.l_len = static_cast<off_t>(record.size);
  return ::fcntl(fd_, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

void PhysicalMemory::release(FrameRecord* record) {
  if (record->placed != 0) {
    const std::uint64_t end = record->offset + record->size;
    if (record->home == slot_) {
      std::erase_if(lent_, [&](const Lent& lent) { return lent.record == record; });
      places_.remove(record->offset, end);
      recycle(record->offset, end);
    } else {
      punch(fd_, record->offset, end);
    }
  }
  table_.release(record);
}

void PhysicalMemory::keep_place_of(const FrameRecord& record) {
  if (record.placed == 0 || record.home != slot_) return;
  lent_.push_back(Lent{&record, record.generation, record.offset, record.size});
}

void PhysicalMemory::take_back_places() {
  std::erase_if(lent_, [&](const Lent& lent) {
    if (lent.record->generation == lent.generation) return false;
    places_.remove(lent.offset, lent.offset + lent.size);
    return true;
  });
}

void PhysicalMemory::recycle(std::uint64_t low, std::uint64_t high) {
  recycled_.add(low, high);
  while (recycled_.total() > kKeepRecycled) {
    const auto [first, last] = recycled_.front();
    const std::uint64_t cut = std::min(last, first + (recycled_.total() - kKeepRecycled));
    punch(fd_, first, cut);
    recycled_.remove(first, cut);
  }
}

/// Takes back what processes held that have ended, and what only descriptors held that are closed now.
void PhysicalMemory::collect() {
  const std::uint32_t device = std::uint32_t{1} << static_cast<unsigned>(ordinal_);
  for (unsigned i = 0; i < machine_->processes.size(); ++i) {
    ProcessSlot& slot = machine_->processes[i];
    if (slot.pid.load(std::memory_order_acquire) == 0) break;
    if (i == slot_ || (slot.swept.load(std::memory_order_relaxed) & device) != 0 || alive(slot)) continue;
    forget_slot(i);
    slot.swept.fetch_or(device, std::memory_order_relaxed);
  }
  for (std::uint32_t i = 0; i < table_.high_water; ++i) {
    FrameRecord& record = table_.records[i];
    if (record.size != 0 && record.holders == 0 && !descriptor_open(record)) release(&record);
  }
}

void PhysicalMemory::forget_slot(unsigned slot) {
  Intervals left;
  for (std::uint32_t i = 0; i < table_.high_water; ++i) {
    FrameRecord& record = table_.records[i];
    if (record.size == 0) continue;
    record.holders &= ~bit(slot);
    if (record.holders == 0 && !descriptor_open(record)) {
      release(&record);
    } else if (record.placed != 0 && record.home == slot) {
      left.add(record.offset, record.offset + record.size);
      if (slot != slot_) continue;
      places_.add(record.offset, record.offset + record.size);
      keep_place_of(record);
    }
  }
  // Whatever else lies in its part of the file are pages that it had kept for reuse.
  std::uint64_t from = slot * kSlotFileBytes;
  const std::uint64_t end = from + kSlotFileBytes;
  while (from < end) {
    const std::uint64_t used = left.first_at_or_after(from).value_or(end);
    if (used > from) punch(fd_, from, std::min(used, end));
    from = used < end ? left.end_of(used) : end;
  }
}

int PhysicalMemory::export_descriptor(Physical* physical) {
  if (place_shared(physical) != CUDA_SUCCESS) return -1;
  const int descriptor = machine_.open_memory(static_cast<std::uint32_t>(ordinal_));
  if (descriptor < 0) return -1;
  // The position says which memory it is; the lock, which all copies of the descriptor share, that one of
  // them is still open.
  struct flock lock {};
  lock.l_type = F_RDLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(physical->record->offset);
  lock.l_len = static_cast<off_t>(physical->size);
  if (::lseek(descriptor, lock.l_start, SEEK_SET) != lock.l_start ||
      ::fcntl(descriptor, F_OFD_SETLK, &lock) != 0) {
    ::close(descriptor);
    return -1;
  }
  if (std::find(shared_.begin(), shared_.end(), physical) == shared_.end()) shared_.push_back(physical);
  const std::scoped_lock guard(machine_->mutex);
  physical->record->exported = 1;
  return descriptor;
}

Physical* PhysicalMemory::import_descriptor(int descriptor) {
  struct stat theirs {};
  struct stat ours {};
  if (::fstat(descriptor, &theirs) != 0 || ::fstat(fd_, &ours) != 0) return nullptr;
  if (theirs.st_dev != ours.st_dev || theirs.st_ino != ours.st_ino) return nullptr;
  const off_t position = ::lseek(descriptor, 0, SEEK_CUR);
  const std::scoped_lock lock(machine_->mutex);
  FrameRecord* record = position < 0 ? nullptr : table_.at_offset(static_cast<std::uint64_t>(position));
  return record == nullptr || record->exported == 0 ? nullptr : adopt(record);
}

CUresult PhysicalMemory::name(Physical* physical, Name* out) {
  const CUresult placed = place_shared(physical);
  if (placed != CUDA_SUCCESS) return placed;
  if (std::find(shared_.begin(), shared_.end(), physical) == shared_.end()) shared_.push_back(physical);
  *out = Name{table_.index_of(physical->record), physical->record->generation};
  return CUDA_SUCCESS;
}

Physical* PhysicalMemory::find(const Name& name) {
  if (name.record >= FrameTable::kMaxRecords) return nullptr;
  const std::scoped_lock lock(machine_->mutex);
  collect();
  FrameRecord& record = table_.records[name.record];
  return record.size == 0 || record.generation != name.generation ? nullptr : adopt(&record);
}

Physical* PhysicalMemory::adopt(FrameRecord* record) {
  for (Physical* known : shared_) {
    if (known->record != record) continue;
    ++known->handles;
    return known;
  }
  record->holders |= bit(slot_);
  auto* physical = new Physical;
  physical->memory = this;
  physical->record = record;
  physical->id = next_id();
  physical->size = record->size;
  physical->place = next_place(record->size);
  physical->plain = record->plain != 0;
  shared_.push_back(physical);
  return physical;
}

bool PhysicalMemory::poison_file(std::uint64_t offset, std::uint64_t bytes) const {
  std::array<iovec, 32> parts{};
  for (std::uint64_t done = 0; done < bytes;) {
    std::uint64_t step = 0;
    int count = 0;
    for (iovec& part : parts) {
      const std::uint64_t n = std::min(kPatternBytes, bytes - done - step);
      if (n == 0) break;
      part = {const_cast<std::uint64_t*>(pattern_.data()), n};
      step += n;
      ++count;
    }
    const ssize_t n = ::pwritev(fd_, parts.data(), count, static_cast<off_t>(offset + done));
    if (n != static_cast<ssize_t>(step)) return false;
    done += step;
  }
  return true;
}

bool PhysicalMemory::touch(Physical* physical, std::uint64_t first_frame, std::uint64_t frames) const {
  if (physical->fresh.empty()) return true;
  for (std::uint64_t frame = first_frame; frame < first_frame + frames; ++frame) {
    if (!physical->fresh[frame]) continue;
    if (!poison_file(physical->record->offset + frame * kFrameBytes, kFrameBytes)) return false;
    physical->fresh[frame] = false;
  }
  return true;
}

void PhysicalMemory::poison(const Physical& physical, std::uint64_t offset, std::uint64_t bytes) const {
  const std::uint64_t end = offset + bytes;
  for (std::uint64_t at = offset; at < end;) {
    const std::uint64_t frame = at / kFrameBytes;
    const std::uint64_t stop = std::min(end, (frame + 1) * kFrameBytes);
    const bool fresh = !physical.fresh.empty() && physical.fresh[frame];
    if (!fresh) static_cast<void>(poison_file(physical.record->offset + at, stop - at));
    at = stop;
  }
}

}  // namespace simgpu
