#include "allocator/captures.h"

#include "allocator/backoff.h"
#include "allocator/support/units.h"

namespace tidepool::runtime {
namespace {

constexpr Nanos kLongestLook = seconds(1);

}  // namespace

std::atomic<int> captures_under_way{0};
std::atomic<int> unguarded_calls{0};

void begin_capture() noexcept {
  captures_under_way.fetch_add(1, std::memory_order_seq_cst);
  if (unguarded_calls.load(std::memory_order_seq_cst) == 0) return;
  const Nanos start = monotonic_now();
  Backoff backoff;
  do {
    backoff.pause();
  } while (unguarded_calls.load(std::memory_order_seq_cst) != 0 && monotonic_now() - start < kLongestLook);
}

void end_captures(int count) noexcept {
  captures_under_way.fetch_sub(count, std::memory_order_seq_cst);
}

}  // namespace tidepool::runtime
