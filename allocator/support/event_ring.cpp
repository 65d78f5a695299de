#include "allocator/support/event_ring.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "allocator/support/options.h"
#include "allocator/support/run_file.h"
#include "allocator/support/text_writer.h"

namespace tidepool {
namespace {

constinit EventRing g_ring;

/// The rank that a job starter gave this process.
std::int64_t rank_of_process() noexcept {
  for (const char* const name : {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"}) {
    const char* const text = std::getenv(name);
    std::int64_t rank = -1;
    if (text != nullptr && std::from_chars(text, text + std::strlen(text), rank).ec == std::errc() &&
        rank >= 0)
      return rank;
  }
  return -1;
}

void read_arguments(EventRingLayout& ring) noexcept {
  const int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  const ssize_t got = read(fd, ring.arguments, sizeof ring.arguments);
  ring.argument_bytes = got > 0 ? static_cast<std::uint32_t>(got) : 0;
  close(fd);
}

void fill_header(EventRingLayout& ring) noexcept {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  ring.version = kEventRingVersion;
  ring.record_count = kEventRecordCount;
  ring.table_hash = event_table_hash();
  ring.pid = getpid();
  ring.start_unix_ns = static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
  ring.start_ns = monotonic_now().count();
  ring.rank = rank_of_process();
  TextWriter(ring.program, sizeof ring.program).put(program_invocation_short_name);
  const char* const run_id = std::getenv(kRunIdVariable);
  TextWriter(ring.run_id, sizeof ring.run_id).put(run_id == nullptr ? "" : run_id);
  read_arguments(ring);
  ring.magic.store(kEventRingMagic, std::memory_order_release);
}

}  // namespace

void EventRecord::store(const EventBody& body) noexcept {
  const auto* const bytes = reinterpret_cast<const char*>(&body);
  const std::size_t used = offsetof(EventBody, text) + body.text_bytes;
  for (std::size_t i = 0; i * 8 < used; ++i) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes + i * 8, sizeof word);
    words[i].store(word, std::memory_order_release);
  }
}

void EventRecord::load(EventBody& body) const noexcept {
  auto* const bytes = reinterpret_cast<char*>(&body);
  for (std::size_t i = 0; i < kWords; ++i) {
    const std::uint64_t word = words[i].load(std::memory_order_acquire);
    std::memcpy(bytes + i * 8, &word, sizeof word);
  }
}

constinit std::atomic<EventLevel> detail::event_levels[kSubsystemCount] = {};

void detail::write_event(Ev event, const EventValues& values) noexcept {
  g_ring.write(event, values);
}

EventRing& EventRing::instance() noexcept {
  return g_ring;
}

int EventRing::open(const char* run_dir, const LogLevels& levels) noexcept {
  const bool is_off = std::all_of(std::begin(levels.of), std::end(levels.of),
                                  [](EventLevel l) { return l == EventLevel::kOff; });
  if (is_open() || is_off || run_dir == nullptr || run_dir[0] == '\0') return 0;
  const int saved_errno = errno;
  const int fd = create_run_file(run_dir, "events", sizeof(EventRingLayout));
  void* const got =
      fd < 0 ? MAP_FAILED : mmap(nullptr, sizeof(EventRingLayout), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  const int problem = got == MAP_FAILED ? errno : 0;
  if (got != MAP_FAILED) {
    auto* const ring = static_cast<EventRingLayout*>(got);
    fill_header(*ring);
    ring_.store(ring, std::memory_order_release);
    for (std::size_t i = 0; i < kSubsystemCount; ++i) {
      detail::event_levels[i].store(levels.of[i], std::memory_order_release);
    }
  }
  if (fd >= 0) close(fd);
  errno = saved_errno;
  return problem;
}

void EventRing::reset_after_fork() noexcept {
  for (std::atomic<EventLevel>& level : detail::event_levels)
    level.store(EventLevel::kOff, std::memory_order_relaxed);
  if (EventRingLayout* const ring = ring_.exchange(nullptr)) munmap(ring, sizeof *ring);
}

void EventRing::write(Ev event, const EventValues& values) noexcept {
  EventRingLayout* const ring = ring_.load(std::memory_order_acquire);
  if (ring == nullptr) return;
  const int saved_errno = errno;
  const std::uint64_t number = ring->next.fetch_add(1, std::memory_order_relaxed);
  EventRecord& record = ring->records[number % kEventRecordCount];
  // Its place may still be written by a thread that was stopped a whole round ago, or already belong to a
  // later one.
  std::uint64_t before = record.state.load(std::memory_order_relaxed);
  if (before % 2 != 0 || before > 2 * number ||
      !record.state.compare_exchange_strong(before, 2 * number + 1, std::memory_order_acquire)) {
    ring->lost.fetch_add(1, std::memory_order_relaxed);
    errno = saved_errno;
    return;
  }
  EventBody body;
  body.time_ns = monotonic_now().count();
  body.thread = static_cast<std::uint32_t>(syscall(SYS_gettid));
  body.event = static_cast<std::uint16_t>(event);
  std::copy(std::begin(values.values), std::end(values.values), body.values);
  const std::size_t length = values.text == nullptr ? 0 : strnlen(values.text, kEventTextBytes);
  std::memcpy(body.text, values.text == nullptr ? "" : values.text, length);
  std::memset(body.text + length, 0, (kEventTextBytes - length) % sizeof(std::uint64_t));
  body.text_bytes = static_cast<std::uint16_t>(length);
  record.store(body);
  record.state.store(2 * number + 2, std::memory_order_release);
  errno = saved_errno;
}

}  // namespace tidepool
