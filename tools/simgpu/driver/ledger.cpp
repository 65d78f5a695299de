#include "tools/simgpu/driver/ledger.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <utility>

#include "tools/simgpu/driver/driver.h"
#include "tools/simgpu/driver/report.h"

namespace simgpu {
namespace {

constexpr std::int64_t kPermille = 1000;

/// CPU time of the calling thread when its last call ended; -1 before the first.
thread_local std::int64_t t_left_at = -1;

std::int64_t thread_time() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  constexpr std::int64_t kNanosPerSecond = 1'000'000'000;
  return now.tv_sec * kNanosPerSecond + now.tv_nsec;
}

/// What thread_time() says of a span in which nothing was done: asking is a call of the system. It is charged
/// to nobody, or a program that makes more calls would pay for each.
std::int64_t empty_span() {
  static const std::int64_t span = [] {
    std::array<std::int64_t, 65> spans{};
    for (std::int64_t& one : spans) {
      const std::int64_t before = thread_time();
      one = thread_time() - before;
    }
    std::nth_element(spans.begin(), spans.begin() + spans.size() / 2, spans.end());
    return spans[spans.size() / 2];
  }();
  return span;
}

std::array<timing::Link, timing::kDevices> links_of(const MachineConfig& config) {
  std::array<timing::Link, timing::kDevices> links;
  for (std::size_t i = 0; i < config.device_count; ++i) {
    // The profile gives a part of the sum of both directions, the timeline wants it of one.
    links[i].duplex_permille = static_cast<int>(2 * kPermille * config.devices[i].link_duplex + 0.5);
    links[i].copy_engines = config.devices[i].link_copy_engines;
  }
  return links;
}

timing::SharedEngines::Options options_of(const MachineConfig& config) {
  timing::SharedEngines::Options options;
  options.links = links_of(config);
  options.patience = std::chrono::milliseconds(config.patience_ms);
  return options;
}

/// Who goes first of processes that ask at the same time; -1: who joined first.
int rank_of_process() {
  const char* text = std::getenv("SIMGPU_RANK");
  return text == nullptr ? -1 : std::atoi(text);
}

}  // namespace

Ledger::Ledger(Machine& machine, ProcessNumber self)
    : wall_(machine.config.clock == ClockMode::kWall),
      measured_(machine.config.host_time == HostTime::kMeasured),
      shared_(machine.time, options_of(machine.config)),
      local_(links_of(machine.config)),
      joined_(!wall_ && shared_.join(self, rank_of_process(), &joined_at_)),
      timeline_(joined_ ? static_cast<timing::Engines&>(shared_) : local_),
      history_(order_) {
  timeline_.raise(joined_at_);
}

void Ledger::leave() {
  if (joined_) shared_.leave();
}

void Ledger::stand_aside() {
  if (joined_) shared_.stand_aside();
}

void Ledger::begin_call(std::int64_t cost_ns) {
  if (joined_) shared_.enter_call();
  if (measured_) {
    const std::int64_t now = thread_time();
    if (t_left_at >= 0) timeline_.charge(std::max<std::int64_t>(now - t_left_at - empty_span(), 0));
  }
  timeline_.charge(cost_ns);
}

Ledger::OffTheClock::OffTheClock(const Ledger& ledger)
    : measured_(ledger.measured_), began_(measured_ ? thread_time() : 0) {}

Ledger::OffTheClock::~OffTheClock() {
  if (measured_ && t_left_at >= 0) t_left_at += thread_time() - began_ + empty_span();
}

void Ledger::end_call() {
  page().virtual_ns.store(static_cast<std::uint64_t>(timeline_.now()), std::memory_order_relaxed);
  if (joined_) shared_.leave_call();
  if (measured_) t_left_at = thread_time();
}

void Ledger::open_lanes(Stream& stream) {
  const std::uint64_t context = stream.context->id;
  if (stream.legacy) {
    stream.time = timing::Timeline::new_lane(stream.id, context, timing::LaneKind::kLegacy);
    stream.order = order_.new_lane(stream.id, context, ordering::LaneKind::kLegacy);
  } else if (stream.blocking) {
    stream.time = timing::Timeline::new_lane(stream.id, context, timing::LaneKind::kBlocking);
    stream.order = order_.new_lane(stream.id, context, ordering::LaneKind::kBlocking);
  } else {
    stream.time = timing::Timeline::new_lane(stream.id, context, timing::LaneKind::kNonBlocking);
    stream.order = order_.new_lane(stream.id, context, ordering::LaneKind::kNonBlocking);
  }
}

void Ledger::enqueue(const std::shared_ptr<Stream>& stream, const Operation& operation) {
  if (stream->order == nullptr) open_lanes(*stream);
  if (stream->works_for) stream->order->works_for(*stream->works_for);
  footprint(*stream, operation, &footprint_);
  time_after_.clear();
  order_after_.clear();
  for (const Wait& wait : operation.waits) {
    if (wait.ticket == 0) continue;
    time_after_.push_back({wait.stream->time, wait.ticket});
    order_after_.push_back({wait.stream->order, wait.ticket});
  }
  if (!wall_) {
    timing::Task task{footprint_.work, footprint_.name, nullptr};
    if (const auto* mark = std::get_if<Mark>(&operation.work)) {
      task.stamp = std::shared_ptr<timing::Stamp>(mark->record, &mark->record->when);
    }
    timeline_.enqueue(stream->time, std::move(task), time_after_);
  }
  order_.enqueue(*stream->order, order_after_);
  if (!footprint_.touches.empty()) {
    races_.unordered(history_.record(stream->order, footprint_.name, footprint_.touches));
  }
}

void Ledger::completed(const Stream& stream, std::uint64_t ticket) {
  ordering::Order::completed(*stream.order, ticket);
}

void Ledger::host_waited(const Stream& stream, std::uint64_t ticket) {
  if (stream.order == nullptr) return;
  if (!wall_) timeline_.wait(stream.time, ticket);
  order_.host_waited(*stream.order, ticket);
}

void Ledger::host_waited_all(const Context* context) {
  const std::uint64_t id = context == nullptr ? 0 : context->id;
  if (!wall_) timeline_.wait_all(id);
  order_.host_waited_all(id);
}

void Ledger::host_can_see(const Stream& stream, std::uint64_t ticket) {
  order_.host_waited(*stream.order, ticket);
}

bool Ledger::precedes(const Wait& operation, const Stream& stream) const {
  return operation.stream->order != nullptr && stream.order != nullptr &&
         order_.precedes(*operation.stream->order, operation.ticket, *stream.order);
}

void Ledger::order_unknown(const std::shared_ptr<Stream>& stream) {
  if (stream->order == nullptr) open_lanes(*stream);
  ordering::Order::loosen(*stream->order);
}

std::vector<ordering::Race> Ledger::users_of(std::uint64_t address, std::uint64_t bytes) {
  std::vector<ordering::Touch> touches;
  add_touches(address, bytes, true, false, &touches);
  std::vector<ordering::Race> users;
  for (const ordering::Touch& touch : touches) {
    const auto found = history_.take_away(touch.place, touch.bytes, touch.address);
    users.insert(users.end(), found.begin(), found.end());
  }
  return users;
}

void Ledger::forget(std::uint64_t address, std::uint64_t bytes) {
  std::vector<ordering::Touch> touches;
  add_touches(address, bytes, true, false, &touches);
  for (const ordering::Touch& touch : touches) history_.forget(touch.place, touch.bytes);
}

}  // namespace simgpu
