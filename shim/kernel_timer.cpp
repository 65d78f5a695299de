#include "shim/kernel_timer.h"

#include <array>
#include <mutex>

#include "shim/capture.h"
#include "shim/managed.h"
#include "shim/real_driver.h"
#include "shim/stream_context.h"

namespace tidepool::shim {
namespace {

using runtime::Recorder;

struct Pair {
  CUevent start;
  CUevent end;
};
struct Pending {
  Pair events;
  std::uint64_t launch;  // sequence number of its record
};

// As many launches can be in flight and timed.
constexpr std::size_t kPairs = 4096;
// So many are looked at in one call: nobody waits for all of them.
constexpr unsigned kAtOnce = 8;

constinit std::mutex g_lock;
// All of it: g_lock.
std::array<Pair, kPairs> g_free;
std::array<Pending, kPairs> g_pending;  // a ring
std::size_t g_free_count = 0;
std::size_t g_made = 0;
std::size_t g_first = 0;
std::size_t g_in_use = 0;        // taken, and not yet in the ring
std::uint64_t g_generation = 0;  // of contexts: events of an earlier one are gone
constinit plan::ProfileRecord g_profile{};

std::atomic<std::size_t> g_pending_count{0};
std::atomic<bool> g_is_due{false};  // the cost is still to be written

/// Adds what a scope takes to the cost of the profile.
class Cost {
 public:
  ~Cost() { g_profile.host_ns += static_cast<std::uint64_t>((monotonic_now() - start_).count()); }

 private:
  Nanos start_ = monotonic_now();
};

bool take_pair(Pair& pair) noexcept {
  const runtime::DriverTable& driver = active_driver().runtime;
  if (g_free_count > 0) {
    pair = g_free[--g_free_count];
    return true;
  }
  if (g_made == kPairs) return false;
  if (driver.cuEventCreate(&pair.start, CU_EVENT_DEFAULT) != CUDA_SUCCESS) return false;
  if (driver.cuEventCreate(&pair.end, CU_EVENT_DEFAULT) != CUDA_SUCCESS) {
    (void)driver.cuEventDestroy_v2(pair.start);
    return false;
  }
  ++g_made;
  return true;
}

// Oldest first; with the lock held.
void write_some(unsigned most) noexcept {
  const RealDriver& driver = active_driver();
  for (; most > 0 && g_pending_count.load(std::memory_order_relaxed) > 0; --most) {
    const Pending& oldest = g_pending[g_first];
    const CUresult state = driver.runtime.cuEventQuery(oldest.events.end);
    if (state == CUDA_ERROR_NOT_READY) return;
    float ms = 0;
    if (state == CUDA_SUCCESS &&
        driver.cuEventElapsedTime(&ms, oldest.events.start, oldest.events.end) == CUDA_SUCCESS && ms >= 0) {
      ++g_profile.timed;
      Recorder::instance().duration(
          {oldest.launch, static_cast<std::uint64_t>(static_cast<double>(ms) * 1e6)});
    } else {
      ++g_profile.skipped;
    }
    g_free[g_free_count++] = oldest.events;
    g_first = (g_first + 1) % kPairs;
    g_pending_count.fetch_sub(1, std::memory_order_relaxed);
  }
}

// An event serves again, and only in streams of the context that it was made in.
bool is_on_first_device(CUstream stream) noexcept {
  const ManagedDevice* const home = home_of(stream);
  return home != nullptr && home->slot == 0;
}

}  // namespace

void TimedLaunch::begin(CUstream stream, bool per_thread) noexcept {
  const RealDriver& driver = active_driver();
  const RelaxedCapture relaxed;  // a capture of any thread may be under way
  const bool can = driver.cuEventElapsedTime != nullptr && !is_capturing(stream, per_thread) &&
                   (!any_managed() || is_on_first_device(stream)) && relaxed.ok();
  stream_ = stream != nullptr ? stream : per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
  const std::lock_guard guard(g_lock);
  const Cost cost;
  g_is_due.store(true, std::memory_order_relaxed);
  if (relaxed.ok()) write_some(kAtOnce);
  Pair pair{};
  if (!can || !take_pair(pair)) {
    ++g_profile.skipped;
    return;
  }
  if (driver.runtime.cuEventRecord(pair.start, stream_) != CUDA_SUCCESS) {
    --g_made;  // whatever is wrong with it, it is not used again
    ++g_profile.skipped;
    return;
  }
  ++g_in_use;
  generation_ = g_generation;
  start_ = pair.start;
  end_ = pair.end;
}

void TimedLaunch::end(CUresult result) noexcept {
  if (start_ == nullptr) return;
  const bool is_whole =
      result == CUDA_SUCCESS && active_driver().runtime.cuEventRecord(end_, stream_) == CUDA_SUCCESS;
  if (!is_whole) give_back();
}

void TimedLaunch::hand_over() noexcept {
  const std::lock_guard guard(g_lock);
  const Cost cost;
  if (generation_ == g_generation) {
    --g_in_use;
    const std::size_t count = g_pending_count.load(std::memory_order_relaxed);
    g_pending[(g_first + count) % kPairs] = {{start_, end_}, Recorder::instance().last_sequence()};
    g_pending_count.store(count + 1, std::memory_order_relaxed);
  }
  start_ = nullptr;
}

void TimedLaunch::give_back() noexcept {
  const std::lock_guard guard(g_lock);
  if (generation_ == g_generation) {
    --g_in_use;
    ++g_profile.skipped;
    g_free[g_free_count++] = {start_, end_};
  }
  start_ = nullptr;
}

void write_durations() noexcept {
  if (!g_is_due.load(std::memory_order_relaxed) || timing()) [[likely]]
    return;
  const std::unique_lock guard(g_lock, std::try_to_lock);
  if (!guard.owns_lock()) return;
  if (const RelaxedCapture relaxed; relaxed.ok()) {
    const Cost cost;
    write_some(kAtOnce);
  }
  if (g_pending_count.load(std::memory_order_relaxed) > 0 || g_in_use > 0) return;
  g_is_due.store(false, std::memory_order_relaxed);
  Recorder::instance().profile(g_profile);
}

void forget_timings() noexcept {
  const std::lock_guard guard(g_lock);
  ++g_generation;
  g_profile.skipped += g_pending_count.load(std::memory_order_relaxed) + g_in_use;
  g_free_count = g_made = g_first = g_in_use = 0;
  g_pending_count.store(0, std::memory_order_relaxed);
}

}  // namespace tidepool::shim
