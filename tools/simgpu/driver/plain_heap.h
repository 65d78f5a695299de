#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "tools/simgpu/driver/address_space.h"
#include "tools/simgpu/driver/freed_blocks.h"

namespace simgpu {

struct Context;
struct Gpu;
class Pool;
class ProgramMemory;

/// Starts of allocations, plain ones and those of pools, are multiples of this many bytes.
inline constexpr std::uint64_t kAllocationAlignment = 512;

/// One plain allocation (cuMemAlloc).
struct PlainBlock {
  std::uint64_t base = 0;
  std::uint64_t size = 0;     ///< as asked for
  std::uint64_t rounded = 0;  ///< what it occupies
  std::uint64_t segment = 0;  ///< base of the frames it lies in
  Context* owner = nullptr;
  std::uint64_t id = 0;   ///< CU_POINTER_ATTRIBUTE_BUFFER_ID
  Pool* pool = nullptr;   ///< whose piece it is; null: of no pool
  bool freeing = false;   ///< a queued operation will free it
  bool imported = false;  ///< another process' allocation
};

/// cuMemAlloc's memory on every device: blocks above 1 MiB own their frames, smaller ones share frames of 2
/// MiB. Frames are charged to the device, not bytes. Starts are multiples of 512 bytes. Memory is filled with
/// the pattern at every allocation. Not thread-safe: the device lock protects it.
class PlainHeap {
 public:
  /// What it gives and takes is told to `program`, which may be made after it.
  PlainHeap(AddressSpace& space, ProgramMemory& program) : space_(space), program_(program) {}
  PlainHeap(const PlainHeap&) = delete;
  PlainHeap& operator=(const PlainHeap&) = delete;

  /// Memory of the owner's device.
  CUresult allocate(std::uint64_t size, Context* owner, std::uint64_t* out);
  /// Makes memory of another process an allocation of this one. Takes over one handle of `physical`.
  CUresult import(Physical* physical, std::uint64_t offset, std::uint64_t size, Context* owner,
                  std::uint64_t* out);
  /// CUDA_ERROR_INVALID_VALUE unless `base` is the start of a live block.
  CUresult free(std::uint64_t base);

  /// Makes a piece of a pool a block, and ends it, without touching memory.
  void adopt(PlainBlock block);
  void retire(std::uint64_t base);
  /// A queued operation will free the block: to the program it is none any more.
  void set_freeing(std::uint64_t base);
  [[nodiscard]] std::vector<PlainBlock> blocks_of(const Context* owner) const;

  /// Frames of the device at an address, mapped and accessible to it.
  CUresult new_segment(Gpu& gpu, std::uint64_t bytes, std::uint64_t* base);
  void drop_segment(std::uint64_t base, std::uint64_t bytes);

  /// The live block that holds the address, or null.
  [[nodiscard]] const PlainBlock* block_at(std::uint64_t address) const;
  [[nodiscard]] const FreedBlocks& freed() const { return freed_; }

 private:
  struct Slab {
    const Gpu* gpu = nullptr;
    Intervals used;
  };
  CUresult map_segment(Physical* physical, std::uint64_t* base);
  CUresult from_slab(Gpu& gpu, std::uint64_t rounded, std::uint64_t* base, std::uint64_t* segment);

  AddressSpace& space_;
  ProgramMemory& program_;
  std::map<std::uint64_t, PlainBlock> blocks_;
  std::map<std::uint64_t, Slab> slabs_;
  FreedBlocks freed_;
  std::uint64_t next_id_ = 1;
};

}  // namespace simgpu
