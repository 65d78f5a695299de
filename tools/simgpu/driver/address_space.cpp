#include "tools/simgpu/driver/address_space.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "tools/simgpu/driver/process_maps.h"
#include "tools/simgpu/driver/report.h"
#include "tools/simgpu/driver/round_up.h"

namespace simgpu {
namespace {

struct Window {
  std::uint64_t begin, end;
};
/// Where device addresses may lie. The first window is below the libraries of a process and inside what
/// sanitizers leave to programs; the second is for what does not fit there (sanitizers refuse parts of it,
/// and then the request fails as one for too much address space does).
constexpr std::array<Window, 2> kWindows{
    {{0x7e80'0000'0000U, 0x7fe0'0000'0000U}, {0x4000'0000'0000U, 0x5000'0000'0000U}}};
constexpr std::uint64_t kStep = std::uint64_t{1}
                                << 30;  ///< how far to go on where something foreign is in the way
constexpr int kTries = 2048;

/// Fewer mappings than this are not counted.
constexpr std::uint64_t kManyMaps = 30'000;

void* pointer(std::uint64_t address) {
  return reinterpret_cast<void*>(address);
}

int protection(unsigned access) {
  switch (access) {
    case CU_MEM_ACCESS_FLAGS_PROT_READ:
      return PROT_READ;
    case CU_MEM_ACCESS_FLAGS_PROT_READWRITE:
      return PROT_READ | PROT_WRITE;
    default:
      return PROT_NONE;
  }
}

void report_no_mapping(const std::string& effect) {
  report_error(refusal(TouchResult::kNoMappings, effect));
}

/// A reservation found no place: here the process may be limited. Told once; programs may then ask for less.
void report_if_limited(std::uint64_t bytes) {
  static bool is_told = false;
  rlimit limit{};
  if (is_told || ::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  is_told = process_address_bytes() + bytes > limit.rlim_cur;
  const std::string has = "this process may have " + std::to_string(limit.rlim_cur) + " in all; raise that ";
  if (is_told)
    report_warning("there are no " + std::to_string(bytes) + " bytes of addresses for device memory: " + has +
                   "limit (ulimit -v), or let the program reserve less");
}

bool open_pages(std::uint64_t base, std::uint64_t bytes, int allowed) {
  if (::mprotect(pointer(base), bytes, allowed) != 0) return false;
  // Entering the pages now keeps page faults out of the kernels that touch them first.
  if ((allowed & PROT_WRITE) != 0) ::madvise(pointer(base), bytes, MADV_POPULATE_WRITE);
  return true;
}

/// Neighbouring frames that get the same protection.
class Run {
 public:
  /// Goes on with all of a mapping. Fresh frames stay closed.
  bool add_all(Mapping* m) {
    const std::vector<bool>& fresh = m->physical->fresh;
    const int allowed = protection(m->strongest());
    m->open = true;
    bool ok = true;
    if (fresh.empty()) return add(m->base, m->size, allowed);
    for (std::uint64_t i = 0; i < fresh.size(); ++i) {
      if (fresh[i]) {
        m->open = false;
      } else {
        ok = add(m->base + i * kFrameBytes, kFrameBytes, allowed) && ok;
      }
    }
    return ok;
  }
  bool end() {
    return bytes_ == 0 || open_pages(std::exchange(base_, 0), std::exchange(bytes_, 0), allowed_);
  }

 private:
  bool add(std::uint64_t base, std::uint64_t bytes, int allowed) {
    const bool goes_on = bytes_ != 0 && base == base_ + bytes_ && allowed == allowed_;
    const bool ok = goes_on || end();
    if (!goes_on) base_ = base;
    allowed_ = allowed;
    bytes_ += bytes;
    return ok;
  }

  std::uint64_t base_ = 0;
  std::uint64_t bytes_ = 0;
  int allowed_ = PROT_NONE;
};

template <class Map>
const typename Map::mapped_type* range_at(const Map& map, std::uint64_t address) {
  const auto it = map.upper_bound(address);
  if (it == map.begin()) return nullptr;
  const auto& value = std::prev(it)->second;
  return address < value.base + value.size ? &value : nullptr;
}

}  // namespace

bool AddressSpace::take(std::uint64_t base, std::uint64_t extent) {
  void* got = ::mmap(pointer(base), extent, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (got == pointer(base)) return true;
  if (got != MAP_FAILED) ::munmap(got, extent);
  return false;
}

bool AddressSpace::close_holes(std::uint64_t base, std::uint64_t bytes) {
  const std::uint64_t end = base + bytes;
  for (auto low = holes_.first_at_or_after(base); low && *low < end; low = holes_.first_at_or_after(base)) {
    const std::uint64_t high = std::min(holes_.end_of(*low), end);
    if (!take(*low, high - *low)) return false;
    holes_.remove(*low, high);
  }
  return true;
}

/// Of an mmap() that fails POSIX says that mappings in its range "may have been unmapped". Then something
/// else of the process could get there: the addresses are taken again or, where not even that can be, no
/// longer used.
AddressSpace::Replaced AddressSpace::replace(std::uint64_t base, std::uint64_t bytes, int flags, int file,
                                             std::uint64_t offset) {
  if (!close_holes(base, bytes)) return Replaced::kKept;
  const void* got =
      ::mmap(pointer(base), bytes, PROT_NONE, flags | MAP_FIXED, file, static_cast<off_t>(offset));
  if (got != MAP_FAILED) return Replaced::kDone;
  if (is_mapped(base, bytes)) return Replaced::kKept;
  if (!take(base, bytes)) holes_.add(base, base + bytes);
  return Replaced::kGone;
}

bool AddressSpace::place(std::uint64_t extent, std::uint64_t alignment, std::uint64_t* out) {
  for (const Window& window : kWindows) {
    std::uint64_t from = window.begin;
    for (int i = 0; i < kTries; ++i) {
      const auto gap = taken_.first_gap(round_up(from, alignment), extent, window.end);
      if (!gap) break;
      const std::uint64_t base = round_up(*gap, alignment);
      if (base == *gap && take(base, extent)) {
        *out = base;
        return true;
      }
      from = base == *gap ? base + kStep : base;
    }
  }
  return false;
}

CUresult AddressSpace::reserve(std::uint64_t size, std::uint64_t alignment, std::uint64_t hint, bool plain,
                               std::uint64_t* out) {
  constexpr std::uint64_t kPage = 4096;
  if (size == 0 || size % kPage != 0 || hint % kPage != 0 || (alignment & (alignment - 1)) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (size > kWindows[0].end) return CUDA_ERROR_OUT_OF_MEMORY;
  const std::uint64_t extent = round_up(size, kFrameBytes);
  if (alignment < kFrameBytes) alignment = kFrameBytes;
  std::uint64_t base = hint;
  const bool hint_fits = hint >= kWindows[0].begin && hint + extent <= kWindows[0].end &&
                         hint % alignment == 0 && !taken_.overlaps(hint, hint + extent) && take(hint, extent);
  if (!hint_fits && !place(extent, alignment, &base)) {
    report_if_limited(extent);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  taken_.add(base, base + extent + kFrameBytes);
  {
    const std::scoped_lock changing(reservations_change_);
    reservations_.emplace(base, Reservation{base, size, extent, plain});
  }
  *out = base;
  return CUDA_SUCCESS;
}

CUresult AddressSpace::free_reservation(std::uint64_t base, std::uint64_t size, bool plain) {
  const auto it = reservations_.find(base);
  if (it == reservations_.end() || it->second.size != size || it->second.plain != plain) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const auto inside = mappings_.lower_bound(base);
  if (inside != mappings_.end() && inside->first < base + size) return CUDA_ERROR_INVALID_VALUE;
  const std::uint64_t extent = it->second.extent;
  const std::uint64_t end = base + extent;
  for (std::uint64_t at = base; at < end;) {
    const std::uint64_t stop = std::min(holes_.first_at_or_after(at).value_or(end), end);
    if (stop > at) ::munmap(pointer(at), stop - at);
    at = stop < end ? holes_.end_of(stop) : end;
  }
  holes_.remove(base, end);
  {
    const std::scoped_lock changing(reservations_change_);
    reservations_.erase(it);
  }
  taken_.remove(base, base + extent + kFrameBytes);
  // A neighbour that was placed by a hint may lie in the gap that was just given up.
  for (auto next = reservations_.lower_bound(base);
       next != reservations_.end() && next->first <= base + extent; ++next) {
    taken_.add(next->first, next->first + next->second.extent + kFrameBytes);
  }
  return CUDA_SUCCESS;
}

bool AddressSpace::room_for_one_more() {
  const std::uint64_t bound = 2 * mappings_.size() + reservations_.size();
  if (bound < kManyMaps) return true;
  if (maps_counted_ == 0 || mappings_.size() > mappings_when_counted_ + 256) {
    maps_counted_ = count_process_maps();
    most_maps_ = most_process_maps();
    mappings_when_counted_ = mappings_.size();
  }
  const std::uint64_t since =
      mappings_.size() > mappings_when_counted_ ? mappings_.size() - mappings_when_counted_ : 0;
  if (maps_counted_ + 2 * since < most_maps_) return true;
  maps_counted_ = 0;
  report_error(
      "this process has about " + std::to_string(most_maps_) +
      " mappings, nearly all that it may: no more device memory is mapped, so that its own still can "
      "be; raise the sysctl vm.max_map_count");
  return false;
}

CUresult AddressSpace::map(std::uint64_t base, Physical* physical, bool plain) {
  const Reservation* reservation = reservation_at(base);
  const std::uint64_t end = base + physical->size;
  if (reservation == nullptr || reservation->plain != plain || end > reservation->base + reservation->size) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const auto next = mappings_.lower_bound(base);
  if ((next != mappings_.end() && next->first < end) || mapping_at(base) != nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!room_for_one_more()) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult placed = physical->memory->add_mapping(physical, base - kWindows[0].begin);
  if (placed != CUDA_SUCCESS) return placed;
  const Replaced replaced =
      replace(base, physical->size, MAP_SHARED, physical->memory->fd(), physical->record->offset);
  if (replaced != Replaced::kDone) {
    physical->memory->drop_mapping(physical);
    report_no_mapping("device memory was not mapped");
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  mappings_.emplace(base, Mapping{base, physical->size, physical, {}, false});
  return CUDA_SUCCESS;
}

bool AddressSpace::whole_mappings(std::uint64_t base, std::uint64_t size, bool plain, Gaps gaps) const {
  const std::uint64_t end = base + size;
  std::uint64_t at = base;
  for (auto it = mappings_.find(base); at < end; ++it) {
    if (it == mappings_.end() || it->second.physical->plain != plain) return false;
    if (gaps == Gaps::kRefused && it->first != at) return false;
    at = it->first + it->second.size;
  }
  return size != 0 && at == end;
}

CUresult AddressSpace::unmap(std::uint64_t base, std::uint64_t size, bool plain) {
  if (!whole_mappings(base, size, plain, Gaps::kRefused)) return CUDA_ERROR_INVALID_VALUE;
  const Replaced replaced = replace(base, size, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (replaced == Replaced::kKept) {
    report_no_mapping("device memory was not unmapped");
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  for (auto it = mappings_.find(base); it != mappings_.end() && it->first < base + size;) {
    it->second.physical->memory->drop_mapping(it->second.physical);
    it = mappings_.erase(it);
  }
  return CUDA_SUCCESS;
}

unsigned Mapping::strongest() const {
  return *std::max_element(access.begin(), access.end());
}

CUresult AddressSpace::set_access(std::uint64_t base, std::uint64_t size, int ordinal,
                                  unsigned long long access, bool plain) {
  if (!whole_mappings(base, size, plain, Gaps::kAllowed)) return CUDA_ERROR_INVALID_VALUE;
  const auto end_of_range = [&](const auto& it) { return it == mappings_.end() || it->first >= base + size; };
  std::vector<std::uint8_t> before;
  for (auto it = mappings_.find(base); !end_of_range(it); ++it) {
    before.push_back(it->second.access[static_cast<std::size_t>(ordinal)]);
    it->second.access[static_cast<std::size_t>(ordinal)] = static_cast<std::uint8_t>(access);
  }
  // Neighbours that mostly end up alike are changed together.
  Run run;
  bool ok = true;
  for (auto it = mappings_.find(base); !end_of_range(it); ++it) ok = run.add_all(&it->second) && ok;
  if (run.end() && ok) return CUDA_SUCCESS;
  auto old = before.begin();
  for (auto it = mappings_.find(base); !end_of_range(it); ++it) {
    it->second.access[static_cast<std::size_t>(ordinal)] = *old++;
  }
  // What was in use stays in use: to open it again later may take more mappings than there were.
  Run back;
  ok = true;
  for (auto it = mappings_.find(base); !end_of_range(it); ++it) ok = back.add_all(&it->second) && ok;
  if (!back.end() || !ok) {
    ::mprotect(pointer(base), size, PROT_NONE);
    for (auto it = mappings_.find(base); !end_of_range(it); ++it) it->second.open = false;
  }
  report_no_mapping("the access to device memory was not changed");
  return CUDA_ERROR_OUT_OF_MEMORY;
}

TouchResult AddressSpace::mend(std::uint64_t address, bool write) const {
  const Mapping* m = mapping_at(address);
  if (m == nullptr || m->open) return TouchResult::kIllegal;
  const int allowed = protection(m->strongest());
  if ((allowed & (write ? PROT_WRITE : PROT_READ)) == 0) return TouchResult::kIllegal;
  const std::uint64_t frame = (address - m->base) / kFrameBytes;
  if (!m->physical->memory->touch(m->physical, frame, 1)) return TouchResult::kNoMemory;
  const bool opened = open_pages(m->base + frame * kFrameBytes, kFrameBytes, allowed);
  return opened ? TouchResult::kReady : TouchResult::kNoMappings;
}

bool AddressSpace::may_hold(std::uint64_t address) {
  return std::any_of(kWindows.begin(), kWindows.end(),
                     [&](const Window& w) { return address >= w.begin && address < w.end; });
}

TouchResult AddressSpace::touch(std::uint64_t address, std::uint64_t bytes) const {
  const std::uint64_t end = address + bytes;
  for (std::uint64_t at = address; at < end; at = (at / kFrameBytes + 1) * kFrameBytes) {
    const Mapping* m = mapping_at(at);
    const TouchResult touch = m == nullptr || m->open ? TouchResult::kReady : mend(at, false);
    if (touch != TouchResult::kReady) return touch;
  }
  return TouchResult::kReady;
}

bool AddressSpace::owns(std::uint64_t address) const {
  bool found = false;
  reservations_change_.try_with([&] { found = reservation_at(address) != nullptr; });
  return found;
}

void AddressSpace::poison(std::uint64_t address, std::uint64_t bytes) const {
  const std::uint64_t end = address + bytes;
  for (std::uint64_t at = address; at < end;) {
    const Mapping* m = mapping_at(at);
    if (m == nullptr) return;
    const std::uint64_t stop = std::min(end, m->base + m->size);
    m->physical->memory->poison(*m->physical, at - m->base, stop - at);
    at = stop;
  }
}

const Mapping* AddressSpace::mapping_at(std::uint64_t address) const {
  return range_at(mappings_, address);
}

const Reservation* AddressSpace::reservation_at(std::uint64_t address) const {
  return range_at(reservations_, address);
}

Physical* AddressSpace::mapped_memory(std::uint64_t id) const {
  for (const auto& [base, mapping] : mappings_) {
    if (mapping.physical->id == id && !mapping.physical->plain) return mapping.physical;
  }
  return nullptr;
}

bool AddressSpace::is_bare(std::uint64_t base, std::uint64_t size) const {
  const Reservation* r = reservation_at(base);
  if (r == nullptr || r->plain || size == 0 || size > r->base + r->size - base) return false;
  const auto next = mappings_.lower_bound(base);
  return mapping_at(base) == nullptr && (next == mappings_.end() || next->first >= base + size);
}

bool AddressSpace::mapped(std::uint64_t address, std::uint64_t bytes) const {
  const std::uint64_t end = address + bytes;
  if (end < address) return false;
  for (const Mapping* m = mapping_at(address); m != nullptr; m = mapping_at(m->base + m->size)) {
    if (end <= m->base + m->size) return true;
  }
  return false;
}

}  // namespace simgpu
