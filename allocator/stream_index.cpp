// The half of StreamTable that finds a stream by its handle, and gives entries to streams that come and go.

#include <algorithm>
#include <new>

#include "allocator/streams.h"

namespace tidepool::runtime {
namespace {

std::uint64_t thread_tag() noexcept {
  static std::atomic<std::uint64_t> g_next{1};
  __attribute__((tls_model("initial-exec"))) thread_local std::uint64_t t_tag = 0;
  if (t_tag == 0) t_tag = g_next.fetch_add(1, std::memory_order_relaxed);
  return t_tag;
}

std::size_t hash(std::uint64_t key) noexcept {
  return static_cast<std::size_t>((key * 0x9E3779B97F4A7C15u) >> 40);
}

}  // namespace

// Handles are pointers or 1 and 2, with the number of a peer above; a thread's own default stream gets a key
// above all of them.
std::uint64_t StreamTable::key_of(StreamHandle handle) noexcept {
  if (handle_at_home(handle) != kPerThreadStream) [[likely]]
    return static_cast<std::uint64_t>(handle);
  const auto of_peer = static_cast<std::uint64_t>(handle) - static_cast<std::uint64_t>(kPerThreadStream);
  return (std::uint64_t{1} << 63) | of_peer | thread_tag();
}

Stream* StreamTable::look_up(StreamHandle handle) noexcept {
  const std::uint64_t key = key_of(handle);
  Stream* stream = find_key(key);
  if (stream == nullptr) stream = add(handle, key);
  if (stream != nullptr) t_found = {id_, stream};
  return stream;
}

Stream* StreamTable::find_key(std::uint64_t key) noexcept {
  for (std::size_t i = hash(key), n = 0; n < kSlots; ++i, ++n) {
    const std::uint16_t index = slots_[i % kSlots].load(std::memory_order_acquire);
    if (index == kEmpty) return nullptr;
    if (index == kTombstone) continue;
    Stream* stream = by_index_[index].load(std::memory_order_acquire);
    if (stream->key_.load(std::memory_order_acquire) == key) return stream;
  }
  return nullptr;
}

Stream* StreamTable::unused_entry() noexcept {
  for (std::size_t i = 1; i < entries_.size(); ++i) {
    Stream* stream = entries_[i];
    if (stream->key_.load(std::memory_order_relaxed) != 0) continue;
    if (passed(Use(stream->index_, stream->enqueued_.load(std::memory_order_relaxed)))) return stream;
  }
  if (entries_.size() == kMaxStreams) return nullptr;
  auto* stream = new (std::nothrow) Stream;
  if (stream == nullptr) return nullptr;
  stream->index_ = static_cast<std::uint16_t>(entries_.size());
  stream->uncovered_.store(Use(stream->index_, 1).raw(), std::memory_order_relaxed);
  stream->end_ = Use(stream->index_, 0).raw() + Use(1, 0).raw();
  by_index_[stream->index_].store(stream, std::memory_order_release);
  entries_.push_back(stream);
  known_.store(entries_.size() - 1, std::memory_order_relaxed);
  return stream;
}

Stream* StreamTable::add(StreamHandle handle, std::uint64_t key) noexcept {
  const std::lock_guard guard(lock_);
  if (Stream* stream = find_key(key)) return stream;
  const int peer = peer_of(handle);
  Device* const device =
      peer < 0 ? &device_ : peers_[static_cast<unsigned>(peer)].load(std::memory_order_acquire);
  Stream* stream = device != nullptr ? unused_entry() : nullptr;
  if (peer >= 0) note_peer(static_cast<unsigned>(peer));
  if (stream == nullptr) {
    has_strangers_.store(true, std::memory_order_release);
    return nullptr;
  }
  if (stream->device_ != device) {
    const std::lock_guard one(stream->lock_);
    drop_marks(*stream);
    stream->device_ = device;
  }
  stream->handle_ = handle_at_home(handle);
  stream->mark_each_ = stream->handle_ == kPerThreadStream;
  stream->ordered_after_.store(0, std::memory_order_relaxed);
  stream->key_.store(key, std::memory_order_release);
  for (std::size_t i = hash(key);; ++i) {
    auto& slot = slots_[i % kSlots];
    const std::uint16_t index = slot.load(std::memory_order_relaxed);
    if (index != kEmpty && index != kTombstone) continue;
    slot.store(stream->index_, std::memory_order_release);
    return stream;
  }
}

// Where nothing is behind the slot no search has to go on from it, nor from tombstones in front of it. So
// these stay only in front of streams that are in use, however many come and go. A search that is under way
// finds what it looked for, or that it is not there: then it looks again with the lock held.
void StreamTable::empty_slot(std::size_t at) noexcept {
  slots_[at].store(kTombstone, std::memory_order_release);
  if (slots_[(at + 1) % kSlots].load(std::memory_order_relaxed) != kEmpty) return;
  for (; slots_[at].load(std::memory_order_relaxed) == kTombstone; at = (at + kSlots - 1) % kSlots) {
    slots_[at].store(kEmpty, std::memory_order_release);
  }
}

std::size_t StreamTable::longest_search() noexcept {
  const std::lock_guard guard(lock_);
  std::size_t longest = 0;
  std::size_t here = 0;
  for (std::size_t i = 0; i < 2 * kSlots; ++i) {  // twice: one may begin before the end
    here = slots_[i % kSlots].load(std::memory_order_relaxed) == kEmpty ? 0 : here + 1;
    longest = std::max(longest, here + 1);
  }
  return std::min(longest, kSlots);
}

void StreamTable::retire(StreamHandle handle) noexcept {
  const std::uint64_t key = key_of(handle);
  Stream* stream = find_key(key);
  if (stream == nullptr) return;
  {
    // Without this mark the tickets would never pass. If even waiting fails the device is lost.
    const std::lock_guard guard(stream->lock_);
    if (!mark_locked(*stream).ok() && !mark_locked(*stream).ok()) (void)pass_all_locked(*stream);
  }
  const std::lock_guard guard(lock_);
  for (std::size_t i = hash(key), n = 0; n < kSlots; ++i, ++n) {
    auto& slot = slots_[i % kSlots];
    const std::uint16_t index = slot.load(std::memory_order_relaxed);
    if (index == kEmpty) break;
    if (index == stream->index_) empty_slot(i % kSlots);
  }
  stream->key_.store(0, std::memory_order_release);
}

}  // namespace tidepool::runtime
