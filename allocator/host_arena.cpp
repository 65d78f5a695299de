#include "allocator/host_arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>

#include "allocator/wait_clock.h"

namespace tidepool::runtime {
namespace {

constexpr std::size_t kHugePage = 2u << 20;

constinit std::atomic<std::uint64_t> g_pinned{0};  // by all arenas of the process

// Registering memory is mostly the system's finding and clearing of its pages: 380 us a MiB with small ones,
// 180 with huge ones (docs/reference/hardware). They are a wish; the mapping starts where they can be had.
std::byte* map_pages(Bytes size) noexcept {
  const std::size_t bytes = size.count();
  void* const whole =
      ::mmap(nullptr, bytes + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (whole == MAP_FAILED) return nullptr;
  auto* const first = static_cast<std::byte*>(whole);
  const std::size_t before = -reinterpret_cast<std::uintptr_t>(whole) % kHugePage;
  std::byte* const base = first + before;
  if (before != 0) ::munmap(first, before);
  ::munmap(base + bytes, kHugePage - before);
  (void)::madvise(base, bytes, MADV_HUGEPAGE);
  (void)::madvise(base, bytes, MADV_DONTFORK);
  return base;
}

}  // namespace

HostArena::HostArena(Device& device, Bytes budget, Bytes granule, Bytes chunk, Nanos patience) noexcept
    : device_(device),
      granule_(granule),
      budget_(granule * (budget / granule)),
      chunk_(chunk),
      patience_(patience) {}

HostArena::~HostArena() {
  for (const auto& [base, size] : chunks_) {
    // A failure here leaves the pages pinned until the process ends; there is nobody left to tell.
    (void)device_.unregister_host(base);
    ::munmap(base, size.count());
  }
  count_pinned(pinned(), false);
}

void HostArena::abandon() noexcept {
  const std::lock_guard guard(lock_);
  for (const auto& [base, size] : chunks_) ::munmap(base, size.count());
  chunks_.clear();
  holes_.clear();
  by_size_.clear();
  count_pinned(pinned(), false);
}

void HostArena::count_pinned(Bytes size, bool more) noexcept {
  for (std::atomic<std::uint64_t>* count : {&g_pinned, &pinned_}) {
    more ? count->fetch_add(size.count(), std::memory_order_relaxed)
         : count->fetch_sub(size.count(), std::memory_order_relaxed);
  }
}

Bytes HostArena::budget() const noexcept {
  return budget_ - (Bytes(g_pinned.load(std::memory_order_relaxed)) - pinned());
}

Bytes HostArena::used() const noexcept {
  const std::lock_guard guard(lock_);
  return used_;
}

std::size_t HostArena::holes() const noexcept {
  const std::lock_guard guard(lock_);
  return holes_.size();
}

Bytes HostArena::pinned() const noexcept {
  return Bytes(pinned_.load(std::memory_order_relaxed));
}

Status HostArena::add_chunk() noexcept {
  const Bytes size = std::min(chunk_, budget() - pinned());
  if (size == Bytes()) return kOutOfMemory;
  const WaitClock clock(Metric::wait_pinning_ns_total);
  // Counted first, so that of two devices that grow at once only one has the last of the budget.
  count_pinned(size, true);
  std::byte* const base = pinned() <= budget() ? map_pages(size) : nullptr;
  const Status status = base != nullptr ? device_.register_host(base, size) : kOutOfMemory;
  is_refused_.store(!status.ok(), std::memory_order_relaxed);
  if (!status.ok()) {
    count_pinned(size, false);
    if (base != nullptr) ::munmap(base, size.count());
    return status;
  }
  chunks_.emplace(base, size);
  add_hole(base, size);
  if (std::exchange(has_given_back_, false))
    patience_ = std::max(patience_, std::min(patience_ + patience_, kMostPatience));
  return kOk;
}

Status HostArena::grow_to(Bytes wanted) noexcept {
  const std::lock_guard guard(lock_);
  const Bytes target = std::min(wanted, budget());
  note_need(target);
  while (pinned() < target) {
    if (const Status status = add_chunk(); !status.ok()) return status;
  }
  return kOk;
}

void HostArena::add_hole(std::byte* base, Bytes size) noexcept {
  holes_.emplace(base, size);
  by_size_.emplace(size, base);
}

void HostArena::remove_hole(std::map<std::byte*, Bytes>::iterator hole) noexcept {
  by_size_.erase({hole->second, hole->first});
  holes_.erase(hole);
}

// The smallest hole that holds all of it, else the largest ones.
HostRun HostArena::take(Bytes wanted) noexcept {
  auto fit = by_size_.lower_bound({wanted, nullptr});
  if (fit == by_size_.end()) --fit;
  const HostRun run{fit->second, std::min(fit->first, wanted)};
  const Bytes rest = fit->first - run.size;
  remove_hole(holes_.find(run.base));
  if (rest != Bytes()) add_hole(run.base + run.size.count(), rest);
  return run;
}

DeviceResult<HostSlot> HostArena::allocate(Bytes size) noexcept {
  const std::lock_guard guard(lock_);
  if (used_ + size > budget()) return Err{kOutOfMemory};
  while (pinned() < used_ + size) {
    Status status = add_chunk();
    if (!status.ok()) status = add_chunk();  // one refusal is survived
    if (!status.ok()) return Err{status};
  }
  HostSlot slot;
  for (Bytes missing = size; missing > Bytes(); missing = missing - slot.back().size) {
    slot.push_back(take(missing));
  }
  used_ += size;
  note_need(used_);
  return slot;
}

void HostArena::release(const HostSlot& slot) noexcept {
  if (slot.empty()) return;  // as of nearly all blocks that are freed: no lock for these
  const std::lock_guard guard(lock_);
  for (const HostRun& run : slot) {
    std::byte* base = run.base;
    Bytes size = run.size;
    // Holes of two chunks stay apart, even where the system has put these side by side: a copy is within one
    // registration.
    const auto next = holes_.lower_bound(base);
    if (next != holes_.end() && next->first == base + size.count() && !chunks_.contains(next->first)) {
      size += next->second;
      remove_hole(next);
    }
    const auto after = holes_.lower_bound(base);
    if (after != holes_.begin() && !chunks_.contains(base)) {
      const auto before = std::prev(after);
      if (before->first + before->second.count() == base) {
        base = before->first;
        size += before->second;
        remove_hole(before);
      }
    }
    add_hole(base, size);
    used_ -= run.size;
  }
}

// A chunk that is one hole, taken out of the books; none if `keep` would not be left.
HostRun HostArena::take_idle_chunk(Bytes keep) noexcept {
  for (auto one = by_size_.rbegin(); one != by_size_.rend(); ++one) {
    const auto [size, base] = *one;
    const auto chunk = chunks_.find(base);
    if (chunk == chunks_.end() || chunk->second != size || pinned() < keep + size) continue;
    remove_hole(holes_.find(base));
    chunks_.erase(chunk);
    return {base, size};
  }
  return {};
}

bool HostArena::give_back_idle(Nanos now) noexcept {
  if (now.count() < next_look_.load(std::memory_order_relaxed)) return false;
  HostRun idle;
  {
    const std::lock_guard guard(lock_);
    if (now.count() < next_look_.load(std::memory_order_relaxed)) return false;
    next_look_.store(now.count() + patience_.count() / kLooks, std::memory_order_relaxed);
    note_need(used_);
    if (now >= span_end_) {
      most_before_ = span_end_ == Nanos() ? budget_ : most_;  // nothing is known before the first look
      most_ = used_;
      span_end_ = now + patience_;
    }
    idle = take_idle_chunk(std::max(most_, most_before_));
  }
  if (idle.base == nullptr) return false;
  // Without the lock: the driver may take its time, and others need slots meanwhile.
  const Status status = [&] {
    const WaitClock clock(Metric::wait_pinning_ns_total);
    return device_.unregister_host(idle.base);
  }();
  if (status.ok()) ::munmap(idle.base, idle.size.count());
  const std::lock_guard guard(lock_);
  if (!status.ok()) {
    chunks_.emplace(idle.base, idle.size);
    add_hole(idle.base, idle.size);
    return false;
  }
  count_pinned(idle.size, false);
  has_given_back_ = true;
  return true;
}

}  // namespace tidepool::runtime
