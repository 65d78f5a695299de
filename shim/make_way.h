#pragma once

#include <cuda.h>

#include "allocator/support/units.h"
#include "shim/outside_memory.h"

namespace tidepool::shim {

/// While one exists, so much of a device's budget is promised to memory that the driver is asked for and that
/// is not managed. Blocks have made room for it, and take it from nobody else's promise. Counted once given
/// (outside_memory.h, before this ends), it then takes the place of the promise.
///
/// More than the whole budget is not made room for: it could not fit, and the driver may have it or not.
class Room {
 public:
  Room(CUdevice device, Bytes size) noexcept;
  ~Room();
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;
  /// With it and all else that the process holds the budget is kept, or there is none.
  [[nodiscard]] bool is_made() const noexcept { return is_made_; }

 private:
  const CUdevice device_;
  Bytes size_;  ///< promised
  bool is_made_;
};

/// Around the free of memory that is not managed, by its address: it is no longer counted, since the address
/// may come back before the free has returned, but promised to nobody until it has. Nothing where nothing is
/// known of the address.
class LeavingRoom {
 public:
  explicit LeavingRoom(CUdeviceptr at) noexcept;
  ~LeavingRoom();
  LeavingRoom(const LeavingRoom&) = delete;
  LeavingRoom& operator=(const LeavingRoom&) = delete;
  /// The free failed: it is counted as before.
  void stays() const noexcept;

 private:
  OutsideMemory memory_{};
};

/// Memory that is not managed has changed on the device: what is managed has what remains of the budget.
void settle_outside(CUdevice device) noexcept;
/// The same where it is not known of which device.
void settle_outside_of_all() noexcept;

/// What is managed on the current device is given back to the driver, which has refused a call for want of
/// memory: more each time, until it is all. `size`: what the call takes, zero where that is not known.
class GiveWay {
 public:
  explicit GiveWay(Bytes size = Bytes()) noexcept : size_(size) {}
  /// True: some was given, and the call may be tried again.
  bool operator()() noexcept;

 private:
  const Bytes size_;
  Bytes next_;
  unsigned times_ = 0;
};

/// Runs `call()`, and again where the driver had no memory for it but could be given some: modules that are
/// loaded, graphs, libraries, whatever the program has of the driver. `size` as for GiveWay.
template <class Call>
CUresult with_room(Call&& call, Bytes size = Bytes()) noexcept {
  CUresult result = call();
  for (GiveWay give(size); result == CUDA_ERROR_OUT_OF_MEMORY && give();) result = call();
  return result;
}

/// The same for a call that is made behind a gate. `pass(is_refused)` returns what the call did, and says
/// whether the driver was asked and had no memory; room is made outside of the gate, where nothing is held
/// that it needs.
template <class Pass>
[[gnu::always_inline]] inline CUresult with_room_outside(Pass&& pass) noexcept {
  GiveWay give;
  for (;;) {
    bool is_refused = false;
    const CUresult result = pass(is_refused);
    if (!is_refused || !give()) return result;
  }
}

}  // namespace tidepool::shim
