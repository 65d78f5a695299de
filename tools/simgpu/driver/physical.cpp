#include "tools/simgpu/driver/physical.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "tools/simgpu/driver/random.h"
#include "tools/simgpu/driver/report.h"

namespace simgpu {
namespace {

/// The file is sparse. Its lower half mirrors addresses; what finds its place there taken goes to the upper.
constexpr std::uint64_t kHalfFile = std::uint64_t{1} << 40;
constexpr std::uint64_t kPatternBytes = 64 << 10;
/// Host pages of free frames that are kept for reuse: giving them back and taking them again costs more than
/// filling them.
constexpr std::uint64_t kKeepRecycled = std::uint64_t{256} << 20;

}  // namespace

PhysicalMemory::PhysicalMemory(int ordinal, std::uint64_t capacity_bytes, std::uint64_t seed, DeviceUse* use)
    : ordinal_(ordinal),
      fd_(::memfd_create("simgpu-device-memory", MFD_CLOEXEC)),
      use_(*use),
      capacity_(capacity_bytes),
      pattern_(kPatternBytes / sizeof(std::uint64_t)) {
  if (fd_ >= 0 && ::ftruncate(fd_, static_cast<off_t>(2 * kHalfFile)) != 0) {
    ::close(fd_);
    fd_ = -1;
  }
  Random random(seed ^ 0x706f69736f6eU);
  for (std::uint64_t& word : pattern_) word = random.next();
}

CUresult PhysicalMemory::create(std::uint64_t size, bool plain, Physical** out) {
  if (size > capacity_ - used_) return CUDA_ERROR_OUT_OF_MEMORY;
  auto* physical = new Physical;
  physical->memory = this;
  static std::uint64_t next_id = 1;  // every caller holds the driver's lock
  physical->id = next_id++;
  physical->size = size;
  physical->plain = plain;
  used_ += size;
  add(plain ? use_.plain_now : use_.vmm_now, size);
  use_.now.store(used_, std::memory_order_relaxed);
  if (used_ > use_.peak.load(std::memory_order_relaxed)) use_.peak.store(used_, std::memory_order_relaxed);
  *out = physical;
  return CUDA_SUCCESS;
}

void PhysicalMemory::drop_handle(Physical* physical) {
  --physical->handles;
  maybe_free(physical);
}

CUresult PhysicalMemory::add_mapping(Physical* physical, std::uint64_t preferred) {
  if (!physical->placed) {
    std::uint64_t offset = preferred % kHalfFile;
    if (offset + physical->size > kHalfFile || places_.overlaps(offset, offset + physical->size)) {
      const auto gap = places_.first_gap(kHalfFile, physical->size, 2 * kHalfFile);
      if (!gap) return CUDA_ERROR_OUT_OF_MEMORY;
      offset = *gap;
    }
    if (!poison_file(offset, physical->size)) return CUDA_ERROR_OUT_OF_MEMORY;
    recycled_.remove(offset, offset + physical->size);
    places_.add(offset, offset + physical->size);
    physical->file_offset = offset;
    physical->placed = true;
  }
  ++physical->mappings;
  return CUDA_SUCCESS;
}

void PhysicalMemory::drop_mapping(Physical* physical) {
  --physical->mappings;
  maybe_free(physical);
}

void PhysicalMemory::maybe_free(Physical* physical) {
  if (physical->handles != 0 || physical->mappings != 0) return;
  if (physical->placed) release_place(*physical);
  used_ -= physical->size;
  (physical->plain ? use_.plain_now : use_.vmm_now).fetch_sub(physical->size, std::memory_order_relaxed);
  use_.now.store(used_, std::memory_order_relaxed);
  delete physical;
}

void PhysicalMemory::release_place(const Physical& physical) {
  const std::uint64_t end = physical.file_offset + physical.size;
  places_.remove(physical.file_offset, end);
  recycled_.add(physical.file_offset, end);
  while (recycled_.total() > kKeepRecycled) {
    const auto [low, high] = recycled_.front();
    const std::uint64_t cut = std::min(high, low + (recycled_.total() - kKeepRecycled));
    ::fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(low),
                static_cast<off_t>(cut - low));
    recycled_.remove(low, cut);
  }
}

bool PhysicalMemory::poison_file(std::uint64_t offset, std::uint64_t bytes) const {
  std::array<iovec, 32> parts{};
  parts.fill({const_cast<std::uint64_t*>(pattern_.data()), kPatternBytes});
  constexpr std::uint64_t kStep = parts.size() * kPatternBytes;
  static_assert(kFrameBytes % kStep == 0);
  for (std::uint64_t done = 0; done < bytes;) {
    const ssize_t n =
        ::pwritev(fd_, parts.data(), static_cast<int>(parts.size()), static_cast<off_t>(offset + done));
    if (n != static_cast<ssize_t>(kStep)) return false;
    done += kStep;
  }
  return true;
}

void PhysicalMemory::poison(void* address, std::uint64_t bytes) const {
  auto* to = static_cast<unsigned char*>(address);
  for (std::uint64_t done = 0; done < bytes;) {
    const std::uint64_t n = std::min(bytes - done, kPatternBytes);
    std::memcpy(to + done, pattern_.data(), n);
    done += n;
  }
}

}  // namespace simgpu
