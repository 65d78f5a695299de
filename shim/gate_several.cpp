#include "shim/gate_several.h"

#include <algorithm>

#include "shim/ownership.h"

namespace tidepool::shim {
namespace {

/// One pass of a call through the gates of all devices that it touches.
struct Passage {
  std::span<const TouchedThere> touched;
  const ManagedDevice& home;
  CUstream stream;
  bool per_thread;
  Waits waits;
  runtime::WorkName what;
  FunctionRef<CUresult()> enqueue;
  bool is_refused = false;

  // Each gate is held while the next one is passed, in the order of slots. So whoever waits at a gate holds
  // pins of devices with lower slots only, and who waits for those pins to go waits for nobody that waits for
  // him.
  CUresult go(std::size_t next) noexcept {
    if (next == touched.size()) {
      const CUresult result = enqueue();
      is_refused = result == CUDA_ERROR_OUT_OF_MEMORY;
      return result;
    }
    const TouchedThere& here = touched[next];
    const runtime::StreamHandle handle = stream_for(*here.device, home, stream, per_thread);
    const auto inside = [&] { return static_cast<int>(go(next + 1)); };
    // An epoch must not be held while another gate is waited for.
    const bool is_plain = touched.size() == 1 && waits == Waits::kNo;
    runtime::Runtime& runtime = *here.device->runtime;
    return static_cast<CUresult>(is_plain ? runtime.launch(here.ids, handle, what, inside)
                                          : runtime.call_blocking(here.ids, handle, what, inside));
  }
};

// Where devices cannot reach each other, or access cannot be had, the driver has the last word about the
// copy.
void let_home_in(std::span<const TouchedThere> touched, const ManagedDevice& home) noexcept {
  for (const TouchedThere& there : touched) {
    if (there.device != &home && can_reach(home.ordinal, there.device->ordinal))
      (void)let_peer_in(there.device->ordinal, home.ordinal);
  }
}

}  // namespace

TouchedDevices::TouchedDevices(FunctionRef<bool(TouchSet&)> collect) {
  for_each_managed([&](const ManagedDevice& device) {
    TouchSet set(device.runtime->arena());
    const bool is_told = collect(set);
    is_known_ = is_known_ && is_told && set.complete();
    if (!is_told || !set.complete()) {
      all_.push_back({&device, device.runtime->live_blocks()});
    } else if (!set.empty()) {
      all_.push_back({&device, {set.ids().begin(), set.ids().end()}});
    }
  });
}

TouchedDevices::TouchedDevices() : is_known_(false) {
  for_each_managed([&](const ManagedDevice& device) {
    all_.push_back({&device, device.runtime->live_blocks()});
  });
}

std::vector<std::uint32_t> TouchedDevices::recorded() const {
  std::vector<std::uint32_t> blocks;
  for (const TouchedThere& touched : all_) {
    const runtime::Arena& arena = touched.device->runtime->arena();
    std::transform(touched.ids.begin(), touched.ids.end(), std::back_inserter(blocks),
                   [&](runtime::BlockId id) { return arena.recorded(id); });
  }
  return blocks;
}

CUresult keep_blocks(const TouchedDevices& touched, runtime::WorkName what) noexcept {
  CUresult kept = CUDA_SUCCESS;
  for (const TouchedThere& there : touched.all()) {
    if (kept == CUDA_SUCCESS) kept = keep_blocks(*there.device->runtime, there.ids, what);
  }
  return kept;
}

namespace {
// With what it names on the first of these devices there, then on the next.
CUresult call_captured(std::span<const TouchedThere> touched, runtime::WorkName what,
                       FunctionRef<CUresult()> enqueue) noexcept {
  if (touched.empty()) return enqueue();
  const auto rest = [&] { return call_captured(touched.subspan(1), what, enqueue); };
  const TouchedThere& first = touched.front();
  return static_cast<CUresult>(first.device->runtime->call_captured(first.ids, what, rest));
}
}  // namespace

CUresult pass(const TouchedDevices& touched, CUstream stream, bool per_thread, Waits waits,
              runtime::WorkName what, Reach reach, FunctionRef<CUresult()> enqueue) noexcept {
  if (touched.all().empty()) return pass_without_blocks(stream, per_thread, what, enqueue);
  const ManagedDevice* const home = home_of(stream);
  if (home != nullptr && reach == Reach::kCopies) let_home_in(touched.all(), *home);
  if (home == nullptr && reach == Reach::kCopies) let_stream_in(stream);
  if (is_capturing(stream, per_thread)) {
    bool is_called = false;
    const CUresult result = with_room_outside([&](bool& is_refused) {
      const auto capture = [&] {
        is_called = true;
        const CUresult captured = enqueue();
        is_refused = captured == CUDA_ERROR_OUT_OF_MEMORY;
        return captured;
      };
      return call_captured(touched.all(), what, capture);
    });
    return is_called ? result : spoil_capture(stream, per_thread, result);
  }
  if (home == nullptr) {
    const CUresult kept = keep_blocks(touched, what);
    return kept == CUDA_SUCCESS ? with_room(enqueue) : kept;
  }
  return with_room_outside([&](bool& is_refused) {
    Passage passage{touched.all(), *home, stream, per_thread, waits, what, enqueue};
    const CUresult result = passage.go(0);
    is_refused = passage.is_refused;
    return result;
  });
}

}  // namespace tidepool::shim
