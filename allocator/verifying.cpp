// The part of Residency that does TIDEPOOL_CHECK=full's looking at bytes: whether a block that leaves is on
// the host what it is on the device, whether the host keeps it, and whether it comes back. By copies and
// hashes on the host alone: what needs a multiprocessor may never come, and users would wait for it. Where
// host memory has no room for a second copy nobody looks. Runs in the slow path only, with the turnstile
// held.

#include <algorithm>
#include <cstring>
#include <utility>

#include "allocator/residency.h"
#include "allocator/support/message.h"
#include "allocator/support/stats_page.h"

namespace tidepool::runtime {
namespace {

constexpr int kLooks = 5;  // at one block that leaves

bool same_bytes(const HostSlot& a, const HostSlot& b, Bytes size) noexcept {
  std::size_t in_a = 0;  // runs
  std::size_t in_b = 0;
  Bytes at_a;  // bytes of these runs
  Bytes at_b;
  while (size > Bytes()) {
    const Bytes piece = std::min({a[in_a].size - at_a, b[in_b].size - at_b, size});
    if (std::memcmp(a[in_a].base + at_a.count(), b[in_b].base + at_b.count(), piece.count()) != 0)
      return false;
    size -= piece;
    at_a += piece;
    at_b += piece;
    if (at_a == a[in_a].size) {
      ++in_a;
      at_a = Bytes();
    }
    if (at_b == b[in_b].size) {
      ++in_b;
      at_b = Bytes();
    }
  }
  return true;
}

ContentHash hash_of(const HostSlot& slot, Bytes size) noexcept {
  ContentHasherOfHost hasher;
  for (const HostRun& run : slot) {
    const Bytes piece = std::min(run.size, size);
    hasher.add(run.base, piece.count());
    size -= piece;
  }
  return hasher.result();
}

unsigned long long number(DevicePtr at) noexcept {
  return at.address();  // as printf's %llx wants it
}

void report_other_bytes(Step step, const Block& block) noexcept {
  const BytesText size(block.requested());
  if (step == Step::kUnchanged) {
    report<Msg::TP3004>(size.c_str(), number(block.base));
  } else {
    report<Msg::TP3008>(size.c_str(), number(block.base));
  }
}

void count_verified(Bytes size) noexcept {
  StatsPage::instance().add(Metric::verified_bytes_total, size.count());
}

}  // namespace

// In kUnmapping. All work that names the block has ended, and so has its copy, or what says that none is
// needed: the host must have what a second copy finds. Where it has not, what two copies agree on counts: the
// block may have been written to, and any copy may be the wrong one. kOk, or why it is not known that nothing
// reads the block any more.
Status Residency::verify_leaving(Eviction& eviction) noexcept {
  Block& block = arena_.block(eviction.id);
  if (eviction.slot.empty()) return kOk;
  const Bytes size = block.requested();
  bool is_told = false;
  for (int looks = 0; looks < kLooks; ++looks) {
    DeviceResult<HostSlot> seen = host_.allocate(size_of(eviction.slot));
    if (!seen.ok()) break;
    Use started;
    const DeviceResult<Use> copied = engine_.look(block, *seen, &started);
    const Status waited = wait_host(started, Metric::wait_copy_out_ns_total);
    if (!waited.ok()) {
      block.outgoing.store(started.raw(), std::memory_order_release);
      lost_.push_back({std::move(*seen), started});
      return waited;
    }
    const bool is_same = !copied.ok() || same_bytes(eviction.slot, *seen, size);
    if (copied.ok()) count_verified(size);
    if (!is_same) {
      if (!std::exchange(is_told, true)) report_other_bytes(eviction.step, block);
      std::swap(eviction.slot, *seen);
      eviction.step = Step::kCopying;
      eviction.is_noted = false;
      questions_.put(std::exchange(eviction.answer, nullptr));
    }
    host_.release(*seen);
    if (is_same) break;
  }
  if (left_.size() <= eviction.id) left_.resize(eviction.id + 1);
  left_[eviction.id] = hash_of(eviction.slot, size);
  return kOk;
}

// Before the copy in. A block whose bytes are lost does not come back as something else.
Status Residency::verify_out(BlockId id, const Block& block, WorkName what) noexcept {
  const Bytes size = block.requested();
  count_verified(size);
  if (hash_of(block.host, size) == left_[id]) return kOk;
  report<Msg::TP3009>(BytesText(size).c_str(), number(block.base), WorkName::Text(what).c_str());
  return kUnknownError;
}

// `copied`: the copy in; set to what users of the block have to come after now.
Arrival Residency::look_behind_copy_in(BlockId id, const Block& block, Use* copied) noexcept {
  DeviceResult<HostSlot> seen = host_.allocate(size_of(block.host));
  if (!seen.ok()) return {};
  Use started;
  const DeviceResult<Use> looked = engine_.look_behind_copy_in(block, *seen, &started);
  if (started) *copied = started;
  if (looked.ok()) return {std::move(*seen), block.base, block.requested(), left_[id]};
  lost_.push_back({std::move(*seen), started});
  return {};
}

void Residency::verify_arrival(const Arrival& arrival) noexcept {
  count_verified(arrival.size);
  if (hash_of(arrival.seen, arrival.size) != arrival.left)
    report<Msg::TP3010>(BytesText(arrival.size).c_str(), number(arrival.base));
  host_.release(arrival.seen);
}

}  // namespace tidepool::runtime
