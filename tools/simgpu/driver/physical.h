#pragma once

#include <cstdint>
#include <vector>

#include "tools/simgpu/driver/cuda_api.h"
#include "tools/simgpu/driver/intervals.h"
#include "tools/simgpu/machine/machine_file.h"

namespace simgpu {

/// Device memory is handed out in frames of this many bytes; also the VMM granularity.
inline constexpr std::uint64_t kFrameBytes = std::uint64_t{2} << 20;

class PhysicalMemory;

/// Device memory that cuMemCreate or a plain allocation holds. It lives while it has a handle or a mapping
/// here, or another process or a file descriptor holds it.
struct Physical {
  PhysicalMemory* memory = nullptr;  ///< the device it is of
  FrameRecord* record = nullptr;     ///< what the processes of the machine share of it
  std::uint64_t id =
      0;  ///< the program's handle; never used twice on any device, so that a stale one is found
  std::uint64_t size = 0;
  std::uint64_t place = 0;     ///< of its first byte, among all bytes of device memory that there ever were
  bool plain = false;          ///< belongs to a plain allocation: no handle of the program's
  std::uint32_t handles = 1;   ///< cuMemCreate plus cuMemRetainAllocationHandle, minus cuMemRelease
  std::uint32_t mappings = 0;  ///< addresses it is mapped at
  /// By frame: nothing has touched it since it was created, so it needs no memory of the host. Empty where
  /// none is: other processes may know the memory.
  std::vector<bool> fresh;
  CUmemAllocationProp prop{};
};

/// A device's memory: a fixed number of frames, counted over all processes of the machine, backed by one
/// memory file, so that one frame can be mapped at several addresses. Not thread-safe: the driver's lock
/// protects what belongs to this process, the machine's mutex what is shared.
///
/// New memory never holds useful bytes: every frame is filled with a pattern made from the seed when it is
/// first touched, recycled or not, so that a copy that was lost is seen. Until then it takes no memory here,
/// so a device may be larger than the machine.
///
/// A process that has ended, in whatever way, holds nothing any more: its memory is found and given back when
/// somebody needs it or asks how much there is.
class PhysicalMemory {
 public:
  PhysicalMemory(int ordinal, const MachineFile& machine, const ProcessSlot& slot);
  PhysicalMemory(const PhysicalMemory&) = delete;
  PhysicalMemory& operator=(const PhysicalMemory&) = delete;

  /// False if the backing file could not be opened.
  [[nodiscard]] bool ok() const { return fd_ >= 0; }
  /// Of the device whose memory it is.
  [[nodiscard]] int ordinal() const { return ordinal_; }
  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] std::uint64_t capacity() const { return table_.capacity; }
  /// Bytes in use by all processes that are alive.
  [[nodiscard]] std::uint64_t used();

  /// Takes `size` bytes, a multiple of kFrameBytes. CUDA_ERROR_OUT_OF_MEMORY beyond the capacity.
  CUresult create(std::uint64_t size, bool plain, Physical** out);
  /// Gives one handle back.
  void drop_handle(Physical* physical);
  /// Counts one more mapping. The first one chooses the place in the file: at `preferred` where that is free,
  /// which lets the kernel merge neighbouring mappings.
  CUresult add_mapping(Physical* physical, std::uint64_t preferred);
  void drop_mapping(Physical* physical);

  /// A file descriptor that stands for the memory and keeps it alive until its last copy is closed. Negative
  /// if the system refuses one.
  int export_descriptor(Physical* physical);
  /// The memory that a descriptor of any process stands for, with one more handle here. Null if the
  /// descriptor is not one of this device's, or its memory is gone.
  Physical* import_descriptor(int descriptor);

  /// Names memory to other processes without keeping it alive.
  struct Name {
    std::uint32_t record;
    std::uint64_t generation;
  };
  /// The memory is placed if it was not.
  CUresult name(Physical* physical, Name* out);
  /// The memory of this name, with one more handle here; null if it is gone.
  Physical* find(const Name& name);

  /// Fills with the pattern what of these bytes of the memory has been touched. Both of any size.
  void poison(const Physical& physical, std::uint64_t offset, std::uint64_t bytes) const;
  /// Fills fresh frames with the pattern; they are fresh no more. False if the host has no memory for them.
  /// Safe in a signal handler.
  bool touch(Physical* physical, std::uint64_t first_frame, std::uint64_t frames) const;

 private:
  CUresult place(Physical* physical, std::uint64_t preferred);
  Physical* adopt(FrameRecord* record);
  void maybe_free(Physical* physical);
  CUresult place_shared(Physical* physical);
  bool poison_file(std::uint64_t offset, std::uint64_t bytes) const;
  void collect();
  void forget_slot(unsigned slot);
  [[nodiscard]] bool descriptor_open(const FrameRecord& record) const;
  void release(FrameRecord* record);
  void keep_place_of(const FrameRecord& record);
  void take_back_places();
  void recycle(std::uint64_t low, std::uint64_t high);

  int ordinal_;
  const MachineFile& machine_;
  FrameTable& table_;
  unsigned slot_;
  int fd_;
  Intervals places_;    ///< ranges of this slot's part of the file that are in use
  Intervals recycled_;  ///< ranges of it that are free but still hold pages of the host
  /// Memory in this slot's part that only others hold: its place is free once the generation has changed.
  struct Lent {
    const FrameRecord* record;
    std::uint64_t generation, offset, size;
  };
  std::vector<Lent> lent_;
  std::vector<Physical*> shared_;  ///< of this process, that others may know too
  std::vector<std::uint64_t> pattern_;
};

}  // namespace simgpu
