// What is known of the other devices of the process: their streams, and their access to memory of this one.

#include "allocator/residency.h"
#include "allocator/streams.h"

namespace tidepool::runtime {

void StreamTable::retire_thread() noexcept {
  retire(kPerThreadStream);
  for (unsigned i = 0; i < kMostDevices; ++i) {
    if (peers_[i].load(std::memory_order_acquire) != nullptr) retire(stream_of_peer(kPerThreadStream, i));
  }
}

void StreamTable::add_peer(unsigned number, Device& device) noexcept {
  peers_[number].store(&device, std::memory_order_release);
}

void StreamTable::remove_peer(unsigned number) noexcept {
  const Device* const device = peers_[number].exchange(nullptr);
  if (device == nullptr) return;
  peers_in_use_.fetch_and(~(std::uint64_t{1} << number), std::memory_order_acq_rel);
  const std::lock_guard guard(lock_);
  for (Stream* stream : entries_) {
    if (stream == nullptr || stream->device_ != device) continue;
    const std::lock_guard one(stream->lock_);
    while (!stream->marks_.empty()) stream->marks_.pop_front();
    stream->completed_.store(stream->cover(), std::memory_order_release);
    stream->key_.store(0, std::memory_order_release);
    stream->device_ = &device_;
    for (auto& slot : slots_) {
      if (slot.load(std::memory_order_relaxed) == stream->index_)
        slot.store(kTombstone, std::memory_order_release);
    }
  }
}

// Events of the device itself serve again; a peer's go, since its context may go with them.
void StreamTable::give_event(Stream& stream, EventHandle event) noexcept {
  if (is_peers(stream)) {
    (void)stream.device_->destroy_event(event);
    return;
  }
  if (stream.spare_events_.size() < MarkRing::kRoom) return stream.spare_events_.push_back(event);
  const std::lock_guard events(events_lock_);
  spare_events_.push_back(event);
}

// A stream's own first: threads in different streams then share no lock.
DeviceResult<EventHandle> StreamTable::take_event(Stream& stream) noexcept {
  if (!is_peers(stream)) {
    if (!stream.spare_events_.empty()) {
      const EventHandle event = stream.spare_events_.back();
      stream.spare_events_.pop_back();
      return event;
    }
    const std::lock_guard events(events_lock_);
    if (!spare_events_.empty()) {
      const EventHandle event = spare_events_.back();
      spare_events_.pop_back();
      return event;
    }
  }
  // Without an event nobody can tell when memory may move: worth a second try.
  DeviceResult<EventHandle> made = stream.device_->create_event();
  if (!made.ok()) made = stream.device_->create_event();
  return made;
}

Status StreamTable::synchronize() noexcept {
  Status status = device_.synchronize();
  const std::uint64_t peers = peers_in_use_.load(std::memory_order_acquire);
  for (unsigned i = 0; peers >> i != 0 && status.ok(); ++i) {
    Device* const peer = (peers >> i & 1) != 0 ? peers_[i].load(std::memory_order_acquire) : nullptr;
    if (peer != nullptr) status = synchronize(*peer);
  }
  return status;
}

Status StreamTable::synchronize(Device& device) noexcept {
  Status status = device.synchronize();
  if (&device == &device_ || status.ok() || is_capture_error(status)) return status;
  // A second error is the peer's own: nothing of it runs any more.
  status = device.synchronize();
  return is_capture_error(status) ? status : kOk;
}

// With the turnstile nothing else maps or unmaps; a freed block's memory is given out without it, as it is.
// Where not all is open the next binding gives access.
Status Residency::renew_access() noexcept {
  const TurnstileGuard turn(turnstile_);
  Status status = kOk;
  for (BlockId id = 1; id < arena_.end_id() && status.ok(); ++id) {
    const Block& block = arena_.block(id);
    if (block.extents.empty() || !block.is_open()) continue;
    status = device_.set_access(block.base, block.backed());
    if (!status.ok()) status = device_.set_access(block.base, block.backed());  // one failure is survived
  }
  return status;
}

}  // namespace tidepool::runtime
