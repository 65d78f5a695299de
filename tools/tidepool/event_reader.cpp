#include "tools/tidepool/event_reader.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

namespace tidepool::tools {
namespace {

std::vector<std::string> split_arguments(const EventRingLayout& ring) {
  std::vector<std::string> words;
  std::string_view rest(ring.arguments, std::min<std::size_t>(ring.argument_bytes, sizeof ring.arguments));
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\0'), rest.size());
    words.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return words;
}

}  // namespace

std::optional<EventReader> EventReader::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return std::nullopt;
  struct stat file;
  const bool is_whole = fstat(fd, &file) == 0 && S_ISREG(file.st_mode) &&
                        file.st_size >= static_cast<off_t>(sizeof(EventRingLayout));
  void* const got =
      is_whole ? mmap(nullptr, sizeof(EventRingLayout), PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
  close(fd);
  if (got == MAP_FAILED) return std::nullopt;
  const auto* const ring = static_cast<const EventRingLayout*>(got);
  if (ring->magic.load(std::memory_order_acquire) != kEventRingMagic || ring->version != kEventRingVersion ||
      ring->record_count != kEventRecordCount || ring->table_hash != event_table_hash()) {
    munmap(got, sizeof(EventRingLayout));
    return std::nullopt;
  }
  return EventReader(ring);
}

EventReader::EventReader(const EventRingLayout* ring)
    : ring_(ring),
      source_{ring->pid,
              ring->start_unix_ns,
              ring->rank,
              std::string(ring->program, strnlen(ring->program, sizeof ring->program)),
              std::string(ring->run_id, strnlen(ring->run_id, sizeof ring->run_id)),
              split_arguments(*ring)} {}

EventReader::EventReader(EventReader&& other) noexcept
    : ring_(std::exchange(other.ring_, nullptr)),
      source_(std::move(other.source_)),
      next_(other.next_),
      lost_(other.lost_),
      waited_for_(other.waited_for_) {}

EventReader::~EventReader() {
  if (ring_ != nullptr) munmap(const_cast<EventRingLayout*>(ring_), sizeof *ring_);
}

/// The event with the number `next_`: handed on or found lost (then `next_` moves on), or not there yet.
bool EventReader::read_one(const std::function<void(const EventSeen&)>& take) {
  const EventRecord& record = ring_->records[next_ % kEventRecordCount];
  const std::uint64_t done = 2 * next_ + 2;
  const std::uint64_t before = record.state.load(std::memory_order_acquire);
  if (before < done) return false;
  if (before == done) {
    EventBody body;
    record.load(body);
    if (record.state.load(std::memory_order_relaxed) == done && body.event < event_rows().size()) {
      EventSeen seen{next_, body.time_ns - ring_->start_ns, body.thread, nullptr, {}, {}};
      std::copy(std::begin(body.values), std::end(body.values), seen.values);
      seen.text.assign(body.text, std::min<std::size_t>(body.text_bytes, kEventTextBytes));
      seen.row = &event_rows()[body.event];
      ++next_;
      take(seen);
      return true;
    }
  }
  ++next_;  // overwritten
  ++lost_;
  return true;
}

void EventReader::read(const std::function<void(const EventSeen&)>& take, bool is_last) {
  const std::uint64_t end = ring_->next.load(std::memory_order_acquire);
  if (end > next_ + kEventRecordCount) {
    lost_ += end - kEventRecordCount - next_;
    next_ = end - kEventRecordCount;
  }
  while (next_ < end) {
    if (read_one(take)) continue;
    if (!is_last && waited_for_ != next_) {
      waited_for_ = next_;
      return;
    }
    ++next_;
    ++lost_;
  }
}

std::vector<std::string> list_event_rings(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with("events.")) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace tidepool::tools
