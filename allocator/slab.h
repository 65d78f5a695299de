#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "allocator/arena.h"
#include "allocator/residency.h"
#include "allocator/ring_queue.h"
#include "allocator/slab_map.h"

namespace tidepool::runtime {

/// Small allocations: they share slabs of one chunk that stay on the device. They are half of all allocations
/// of a training job and under one per cent of its bytes, so moving them would cost more than it frees.
///
/// Slabs belong to domains: one for each stream that allocates in stream order, some that share the threads
/// which allocate for use at once. A place that its domain's stream freed is free for that stream at once;
/// one that another stream freed waits until the free has passed. Threads and streams of different domains
/// meet no common lock, unless slabs take a quarter of the device's limit: from there on a domain without
/// room is given places of others' slabs, as far as their work has passed, before it gets a slab more.
///
/// Thread-safe. allocate() may take the slow path for a new slab.
class SlabHeap {
 public:
  static constexpr Bytes kLargest = MiB(1);

  SlabHeap(Arena& arena, Residency& residency, StreamTable& streams) noexcept
      : arena_(arena), residency_(residency), streams_(streams) {}
  ~SlabHeap();
  SlabHeap(const SlabHeap&) = delete;
  SlabHeap& operator=(const SlabHeap&) = delete;

  /// `size` in 1 … kLargest; aligned to 512 bytes. `stream`: the index of the stream in whose order the
  /// memory will be used first; 0 for use at once anywhere.
  DeviceResult<DevicePtr> allocate(Bytes size, std::uint16_t stream, std::uint8_t tag) noexcept;
  /// A place for use at once anywhere, in a slab that is there and has room; kOutOfMemory: none has. Takes no
  /// memory and no slow path.
  DeviceResult<DevicePtr> allocate_spare(Bytes size) noexcept { return take_of_others(nullptr, {size, 0}); }
  /// `freed_by`: what must pass before another stream may use the place; none: all work on it has been waited
  /// for. kInvalidValue: not the start of a live allocation.
  Status free(BlockId slab, DevicePtr at, Use freed_by) noexcept;
  /// The live allocation that holds the address; a zero size when there is none.
  Allocation describe(BlockId slab, DevicePtr at) noexcept;
  /// Bytes of slabs (whole chunks).
  [[nodiscard]] Bytes held() const noexcept { return Bytes(held_bytes_.load(std::memory_order_relaxed)); }
  /// A limit in which all fits with the slabs that there are, may have to be higher by so much: with more to
  /// share, less is shared.
  [[nodiscard]] Bytes could_grow_by(Bytes limit) const noexcept;

 private:
  static constexpr std::size_t kThreadDomains = 16;

  static constexpr std::uint64_t kUnsharedPart = 4;  // of the limit
  static constexpr std::uint32_t kMostEmpty = 8;     // slabs that are kept empty, in all domains together

  struct Domain;
  /// Never given back to the system: whoever asks about a pointer that is being freed may still look at it.
  struct Slab {
    std::atomic<Domain*> owner{nullptr};  // with the lock of the domain that it leaves
    // With the owner's lock:
    BlockId id = kNoBlock;  // kNoBlock: not in use
    DevicePtr base;
    SlabMap map;
    Use last_freed;  // newest free in the domain's own stream: places are free for others once it has passed
    std::size_t room = 0;  // the list it is in
    Slab* before = nullptr;
    Slab* next = nullptr;
  };
  /// A place that was freed by a stream other than the domain's.
  struct Pending {
    Slab* slab = nullptr;
    std::uint16_t unit = 0;
    Use freed_by;
  };
  struct alignas(64) Domain {
    std::mutex growth;  // held by who gets a slab for it, also while that waits for the device; before `lock`
    std::mutex lock;
    std::uint16_t stream = 0;
    std::array<Slab*, SlabMap::kOrders + 1> by_room{};  // lists of slabs by SlabMap::room()
    std::uint32_t rooms = 0;                            // bit k: by_room[k] is not empty
    std::size_t empty_slabs = 0;
    RingQueue<Pending> pending;
  };

  /// The slab of the block, with its domain's lock held by `guard`; null: the block is none.
  Slab* find(BlockId id, std::unique_lock<std::mutex>& guard) noexcept;
  /// A slab that becomes the domain's, without memory. No lock is held.
  Slab* unused_slab(Domain& domain) noexcept;
  Domain* domain_for(std::uint16_t stream) noexcept;
  static void insert(Domain& domain, Slab& slab) noexcept;
  static void remove(Domain& domain, Slab& slab) noexcept;
  /// What is asked for.
  struct Wanted {
    Bytes size;
    std::uint8_t tag;
  };
  [[nodiscard]] Bytes most_unshared() const noexcept;
  DevicePtr take(Domain& domain, Slab& slab, Wanted wanted) noexcept;
  DeviceResult<DevicePtr> take_any(Domain& domain, Wanted wanted) noexcept;
  DeviceResult<DevicePtr> take_of_others(const Domain* mine, Wanted wanted) noexcept;
  void give(Slab& slab, std::size_t unit) noexcept;
  bool settle_pending(Domain& domain) noexcept;
  void drop_if_spare(Domain& domain, Slab& slab) noexcept;
  /// take_any(), also once frees have been seen to. Takes the domain's lock.
  DeviceResult<DevicePtr> take_here(Domain& domain, Wanted wanted) noexcept;
  /// A place in a new slab; with `growth` held and not the domain's lock. `room` holds.
  DeviceResult<DevicePtr> take_new(Domain& domain, Wanted wanted, Residency::Promise& room) noexcept;
  template <class Visit>
  void for_each_domain(Visit&& visit) noexcept;

  Arena& arena_;
  Residency& residency_;
  StreamTable& streams_;
  std::array<Domain, kThreadDomains> of_threads_;
  std::array<std::atomic<Domain*>, StreamTable::kMaxStreams> of_streams_{};
  std::atomic<std::uint32_t> highest_stream_{0};
  std::atomic<std::uint64_t> held_bytes_{0};
  std::atomic<std::uint32_t> empty_slabs_{0};
  std::atomic<bool> shares_{false};  // places of another domain's slab were given, for want of room
  std::mutex unused_lock_;
  std::vector<Slab*> unused_;
};

}  // namespace tidepool::runtime
