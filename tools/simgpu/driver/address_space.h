#pragma once

#include <array>
#include <cstdint>
#include <iterator>
#include <map>
#include <string>

#include "tools/simgpu/driver/cuda_api.h"
#include "tools/simgpu/driver/handler_lock.h"
#include "tools/simgpu/driver/physical.h"
#include "tools/simgpu/driver/touch.h"

namespace simgpu {

/// A range of device addresses that was reserved.
struct Reservation {
  std::uint64_t base = 0;
  std::uint64_t size = 0;    ///< as asked for
  std::uint64_t extent = 0;  ///< rounded up to frames: what is really held
  bool plain = false;        ///< holds a plain allocation; the program may not map into it
};

/// Physical memory at an address.
struct Mapping {
  std::uint64_t base = 0;
  std::uint64_t size = 0;
  Physical* physical = nullptr;
  /// CUmemAccess_flags by device ordinal.
  std::array<std::uint8_t, MachineConfig::kMaxDevices> access{};

  /// The most that any device may do: what the host's page tables say.
  [[nodiscard]] unsigned strongest() const;
  /// The host's page tables say so for all of it; else frames are opened as they are touched.
  bool open = false;
};

/// The devices' addresses, one space for all of them: reservations and what is mapped into them, by the rules
/// of the CUDA driver API's "Virtual Memory Management" page. Addresses are addresses of this process too;
/// what is not mapped, has no access or was never touched is PROT_NONE, so that a touch traps. Not
/// thread-safe: the device lock protects it.
class AddressSpace {
 public:
  AddressSpace() = default;
  AddressSpace(const AddressSpace&) = delete;
  AddressSpace& operator=(const AddressSpace&) = delete;

  /// Reserves addresses; `alignment` is 0 or a power of two, `hint` is taken where it is free.
  CUresult reserve(std::uint64_t size, std::uint64_t alignment, std::uint64_t hint, bool plain,
                   std::uint64_t* out);
  /// The range must be exactly one reservation without mappings.
  CUresult free_reservation(std::uint64_t base, std::uint64_t size, bool plain);
  /// Maps all of `physical` into an unmapped part of one reservation, without access.
  CUresult map(std::uint64_t base, Physical* physical, bool plain);
  /// Removes one or several whole neighbouring mappings. Does not wait for any work.
  CUresult unmap(std::uint64_t base, std::uint64_t size, bool plain);
  /// Sets a device's access to the whole mappings between the first and the last byte, which are mapped; of
  /// all or, where the system refuses, of none.
  CUresult set_access(std::uint64_t base, std::uint64_t size, int ordinal, unsigned long long access,
                      bool plain);

  /// To be called before anything touches device memory other than in guarded work: opens frames that were
  /// never touched.
  [[nodiscard]] TouchResult touch(std::uint64_t address, std::uint64_t bytes) const;
  /// The same for guarded work that trapped. Safe in a signal handler.
  [[nodiscard]] TouchResult mend(std::uint64_t address, bool write) const;
  /// True if the address is reserved. Safe in a signal handler of any thread, without the device lock; false
  /// where reservations change all the while.
  [[nodiscard]] bool owns(std::uint64_t address) const;
  /// True if device memory can lie at this address at all. Other things can too.
  [[nodiscard]] static bool may_hold(std::uint64_t address);
  /// Fills with the pattern what has been touched of memory that is mapped here.
  void poison(std::uint64_t address, std::uint64_t bytes) const;

  /// Null where nothing is mapped or reserved.
  [[nodiscard]] const Mapping* mapping_at(std::uint64_t address) const;
  /// How many mappings begin in the range.
  [[nodiscard]] std::int64_t mappings_in(std::uint64_t base, std::uint64_t size) const {
    return std::distance(mappings_.lower_bound(base), mappings_.lower_bound(base + size));
  }
  [[nodiscard]] const Reservation* reservation_at(std::uint64_t address) const;
  /// The memory of this id, if it is mapped anywhere.
  [[nodiscard]] Physical* mapped_memory(std::uint64_t id) const;
  /// True if all of it lies in one reservation of the program's, and nothing is mapped there.
  [[nodiscard]] bool is_bare(std::uint64_t base, std::uint64_t size) const;
  /// True if every byte is mapped, with any access.
  [[nodiscard]] bool mapped(std::uint64_t address, std::uint64_t bytes) const;

 private:
  /// What became of reserved addresses that were to hold something else.
  enum class Replaced : std::uint8_t {
    kDone,
    kKept,  ///< they hold what they held
    kGone,  ///< they hold nothing
  };
  Replaced replace(std::uint64_t base, std::uint64_t bytes, int flags, int file, std::uint64_t offset);
  bool close_holes(std::uint64_t base, std::uint64_t bytes);
  bool take(std::uint64_t base, std::uint64_t extent);
  bool place(std::uint64_t extent, std::uint64_t alignment, std::uint64_t* out);
  enum class Gaps : bool { kRefused, kAllowed };
  bool whole_mappings(std::uint64_t base, std::uint64_t size, bool plain, Gaps gaps) const;
  bool room_for_one_more();

  std::map<std::uint64_t, Reservation> reservations_;
  std::map<std::uint64_t, Mapping> mappings_;
  Intervals taken_;  ///< reserved extents, plus a gap of one frame after each
  /// Reserved addresses that the system has given up: other memory of the process may be there.
  Intervals holes_;
  mutable HandlerLock reservations_change_;
  std::uint64_t maps_counted_ = 0;
  std::uint64_t most_maps_ = 0;
  std::uint64_t mappings_when_counted_ = 0;
};

}  // namespace simgpu
