#include "tests/fakes/fake_queue.h"

#include <utility>
#include <vector>

namespace tidepool::fakes {

using runtime::EventHandle;
using runtime::StreamHandle;

std::uint64_t FakeQueue::key(StreamHandle stream) {
  const auto handle = static_cast<std::uint64_t>(stream);
  return handle == 0 ? kLegacy : handle;
}

StreamHandle FakeQueue::create_stream(bool blocking) {
  const std::uint64_t handle = next_handle_++;
  streams_.emplace(handle, Stream{blocking, {}});
  return StreamHandle{handle};
}

EventHandle FakeQueue::create_event() {
  const std::uint64_t handle = next_handle_++;
  events_.emplace(handle, nullptr);
  return EventHandle{handle};
}

bool FakeQueue::destroy_event(EventHandle event) {
  return events_.erase(static_cast<std::uint64_t>(event)) == 1;
}

bool FakeQueue::has_stream(StreamHandle stream) const {
  return streams_.contains(key(stream));
}

bool FakeQueue::has_event(EventHandle event) const {
  return events_.contains(static_cast<std::uint64_t>(event));
}

void FakeQueue::push_item(StreamHandle stream, Work work, std::shared_ptr<const Record> need) {
  streams_.at(key(stream)).items.push_back({next_order_++, std::move(work), std::move(need), false});
}

void FakeQueue::push(StreamHandle stream, Work work) {
  push_item(stream, std::move(work), nullptr);
}

void FakeQueue::push_kernel(StreamHandle stream, Work work) {
  push_item(stream, std::move(work), nullptr);
  streams_.at(key(stream)).items.back().is_kernel = true;
}

void FakeQueue::record(EventHandle event, StreamHandle stream) {
  // Each record is an object of its own: a wait holds the one that was latest when it was issued
  // (CUDA Driver API, cuStreamWaitEvent), whatever happens to the event later.
  auto record = std::make_shared<Record>();
  events_.at(static_cast<std::uint64_t>(event)) = record;
  push_item(
      stream, [record] { record->done = true; }, nullptr);
}

void FakeQueue::wait(StreamHandle stream, EventHandle event) {
  push_item(
      stream, [] {}, events_.at(static_cast<std::uint64_t>(event)));
}

void FakeQueue::hold(StreamHandle stream) {
  auto& hold = holds_[key(stream)] = std::make_shared<Record>();
  push_item(
      stream, [] {}, hold);
}

void FakeQueue::end_hold(StreamHandle stream) {
  holds_.at(key(stream))->done = true;
}

bool FakeQueue::is_done(EventHandle event) const {
  const auto& record = events_.at(static_cast<std::uint64_t>(event));
  return record == nullptr || record->done;
}

bool FakeQueue::is_ready(std::uint64_t stream_key, const Stream& stream) const {
  const Item& head = stream.items.front();
  if (head.need != nullptr && !head.need->done) return false;
  if (head.is_kernel && !are_free_) return false;
  if (stream_key == kLegacy) {
    for (const auto& [other_key, other] : streams_) {
      if (other_key == kLegacy || !other.blocking || other.items.empty()) continue;
      if (other.items.front().order < head.order) return false;
    }
    return true;
  }
  const auto& legacy = streams_.at(kLegacy).items;
  return !stream.blocking || legacy.empty() || legacy.front().order > head.order;
}

bool FakeQueue::run_one() {
  std::vector<Stream*> ready;
  for (auto& [stream_key, stream] : streams_) {
    if (!stream.items.empty() && is_ready(stream_key, stream)) ready.push_back(&stream);
  }
  if (ready.empty()) return false;
  Stream& chosen = *ready[draw(ready.size())];
  const Work work = std::move(chosen.items.front().work);
  chosen.items.pop_front();
  work();
  return true;
}

std::size_t FakeQueue::pending() const {
  std::size_t count = 0;
  for (const auto& [stream_key, stream] : streams_) count += stream.items.size();
  return count;
}

std::size_t FakeQueue::draw(std::size_t bound) {
  return std::uniform_int_distribution<std::size_t>(0, bound - 1)(random_);
}

}  // namespace tidepool::fakes
