#include "shim/make_way.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <utility>

#include "shim/managed.h"
#include "shim/outside_memory.h"
#include "shim/real_driver.h"

namespace tidepool::shim {
namespace {

// What a refused call is given first where it does not say what it wanted. A module's code and data, an
// upload of a graph, a small workspace fit; and what is given comes back by itself when it is needed.
constexpr Bytes kGiven = MiB(64);
// Twice as much each time: this is more than any device has.
constexpr unsigned kMostTimes = 16;

/// The runtime of the current device, if there is one already.
runtime::Runtime* runtime_of_current() noexcept {
  CUdevice device = 0;
  if (!any_managed() || active_driver().runtime.cuCtxGetDevice(&device) != CUDA_SUCCESS) return nullptr;
  const ManagedDevice* const managed = managed_on(device);
  return managed != nullptr ? managed->runtime : nullptr;
}

constinit std::mutex g_setting;
constinit std::array<Bytes, runtime::kMostDevices> g_promised{};  // g_setting

Bytes& promised_on(CUdevice device) noexcept {
  return g_promised[std::min(static_cast<std::size_t>(device), g_promised.size() - 1)];
}

// Worked out and set as one step, or of two threads the one that looked first could have the last word.
// False: with what is promised the budget is not kept.
bool settle(CUdevice device, Bytes more, Bytes less) noexcept {
  const ManagedDevice* const managed = managed_on(device);
  Bytes outside;
  {
    const std::lock_guard guard(g_setting);
    Bytes& promised = promised_on(device);
    promised = promised + more - less;
    if (managed == nullptr) return true;
    outside = outside_bytes(device).all() + promised;
    managed->runtime->set_outside(outside);
  }
  return managed->runtime->keep_limit() && outside <= managed->runtime->capacity();
}

/// Free memory of the current device, as the driver sees it.
Bytes drivers_free() noexcept {
  const auto ask = reinterpret_cast<decltype(&::cuMemGetInfo)>(
      active_driver().hooks[static_cast<std::size_t>(Hook::cuMemGetInfo_v2)]);
  std::size_t free = 0;
  std::size_t total = 0;
  return ask != nullptr && ask(&free, &total) == CUDA_SUCCESS ? Bytes(free) : Bytes();
}

/// How much the driver lacks for a call that takes `size`; zero: more than it could be given.
Bytes missing(const runtime::Runtime& runtime, Bytes size) noexcept {
  const Bytes lacks = size.round_up(MiB(2)) - drivers_free();
  return lacks > runtime.held() ? Bytes() : std::max(lacks, MiB(2));
}

}  // namespace

Room::Room(CUdevice device, Bytes size) noexcept : device_(device), size_(size) {
  const ManagedDevice* const managed = managed_on(device);
  if (managed != nullptr && size > managed->runtime->capacity()) {
    size_ = Bytes();
    is_made_ = false;
  } else {
    is_made_ = settle(device, size, Bytes());
  }
}

Room::~Room() {
  (void)settle(device_, Bytes(), size_);
}

// One step for whoever works out what is left.
LeavingRoom::LeavingRoom(CUdeviceptr at) noexcept {
  const std::lock_guard guard(g_setting);
  memory_ = remove_outside(at);
  Bytes& promised = promised_on(memory_.device);
  promised += memory_.size;
}

LeavingRoom::~LeavingRoom() {
  if (memory_.size != Bytes()) (void)settle(memory_.device, Bytes(), memory_.size);
}

void LeavingRoom::stays() const noexcept {
  if (memory_.size != Bytes()) add_outside(memory_);
}

void settle_outside(CUdevice device) noexcept {
  (void)settle(device, Bytes(), Bytes());
}

void settle_outside_of_all() noexcept {
  for_each_managed([](const ManagedDevice& device) { settle_outside(device.ordinal); });
}

bool GiveWay::operator()() noexcept {
  runtime::Runtime* const runtime = runtime_of_current();
  if (runtime == nullptr || times_ == kMostTimes) return false;
  if (times_++ == 0) next_ = size_ == Bytes() ? kGiven : missing(*runtime, size_);
  if (next_ >= runtime->held()) times_ = kMostTimes;  // there is no more to give
  return next_ != Bytes() && runtime->give_back(std::exchange(next_, next_ * 2));
}

}  // namespace tidepool::shim
