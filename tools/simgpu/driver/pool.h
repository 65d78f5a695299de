#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "tools/simgpu/driver/gpu.h"
#include "tools/simgpu/driver/operation.h"
#include "tools/simgpu/driver/plain_heap.h"

namespace simgpu {

struct Driver;

/// A memory pool of the "Stream Ordered Memory Allocator". It holds chunks of device memory in whole frames
/// and hands out pieces of them. A piece is allocated and freed twice: at the call, which decides what the
/// pool gives out next, and when the operation that the call queued runs, which decides what work may touch.
///
/// A freed piece is given out again where the new allocation is sure to come after the free: in the same
/// stream, where the host knows that the free has run, or where events order the two and the pool may follow
/// them. Where there is no more memory it is also given out with a wait for the free, if the pool may add
/// dependencies, or once the free has run, if it may be opportunistic. Freed memory is filled with the
/// pattern when the free runs.
///
/// Not thread-safe: the driver's lock protects it.
class Pool : public std::enable_shared_from_this<Pool> {
 public:
  Pool(Driver& driver, Gpu& gpu, const CUmemPoolProps& props);
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  [[nodiscard]] CUmemoryPool handle() { return reinterpret_cast<CUmemoryPool>(this); }
  [[nodiscard]] Gpu& gpu() const { return gpu_; }
  [[nodiscard]] const CUmemPoolProps& props() const { return props_; }
  /// It stands for a pool of another process, which `origin` names (api_pool_share.cpp).
  using Origin = std::array<std::uint64_t, 3>;
  void import(const Origin& origin) { origin_ = origin; }
  /// None: the pool is this process's own.
  [[nodiscard]] const std::optional<Origin>& origin() const { return origin_; }
  [[nodiscard]] bool imported() const { return origin_.has_value(); }
  /// A handle of it has been given to others.
  void share() { shared_ = true; }
  [[nodiscard]] bool shared() const { return shared_; }

  /// A piece for work that is queued in `stream` from now on; queues the operation that makes it usable.
  CUresult allocate(std::uint64_t size, Context* owner, const std::shared_ptr<Stream>& stream,
                    std::uint64_t* out);
  /// A piece for a graph, in frames of its own, without an operation: launches queue theirs.
  CUresult reserve(std::uint64_t size, std::uint64_t* out);
  /// Takes it back; it is free after `last_use`.
  void release(std::uint64_t base, std::optional<Wait> last_use);
  /// Frees a live piece when work that is queued in `stream` so far is done.
  void free(std::uint64_t base, const std::shared_ptr<Stream>& stream);
  /// Frees a live piece that no work uses any more.
  void free_now(std::uint64_t base);

  /// The operations that allocate() and free() queued, when they run.
  /// A use that has ended does not begin any more.
  void begin(std::uint64_t base, std::uint64_t size, const std::shared_ptr<PieceUse>& use);
  void end(std::uint64_t base, PieceUse& use);
  /// True if the address is in the pool's memory.
  [[nodiscard]] bool holds(std::uint64_t address) const;
  /// True if the range is inside one piece that work may touch now.
  [[nodiscard]] bool usable(std::uint64_t address, std::uint64_t bytes) const;

  /// When a freed piece counts as free: chance decides of which frees only the device knows that they have
  /// run.
  enum class Free : std::uint8_t { kHostKnows, kHasRun };
  /// Gives free chunks back to the device until at most `keep` bytes are held.
  void trim(std::uint64_t keep, Free free = Free::kHostKnows);
  /// The host has synchronised: forgets the frees that it knows to be over, and gives back what is held
  /// beyond the release threshold.
  void synchronized();

  CUresult get(CUmemPool_attribute attribute, void* value) const;
  CUresult set(CUmemPool_attribute attribute, const void* value);
  CUresult set_access(int ordinal, CUmemAccess_flags access);
  [[nodiscard]] CUmemAccess_flags access(int ordinal) const;

  /// The program has destroyed it: it ends with its last piece.
  void abandon() { abandoned_ = true; }
  [[nodiscard]] bool abandoned() const { return abandoned_; }
  [[nodiscard]] bool finished() const { return abandoned_ && live_ == 0; }
  /// True if it holds no memory.
  [[nodiscard]] bool empty() const { return chunks_.empty(); }

 private:
  struct Piece {
    std::uint64_t size = 0;
    bool live = false;              ///< handed out, as the program sees it
    std::optional<Wait> freed;      ///< the free that work must come after; none: everything does
    std::shared_ptr<PieceUse> use;  ///< the latest
  };
  struct Touchable {
    std::uint64_t size = 0;
    std::shared_ptr<const PieceUse> use;
  };
  struct Chunk {
    std::uint64_t size = 0;
    std::map<std::uint64_t, Piece> pieces;  ///< by address, without gaps
  };
  using Pieces = std::map<std::uint64_t, Piece>;
  struct Place {
    Chunk* chunk = nullptr;
    Pieces::iterator piece;
    bool wait = false;  ///< the allocation must be told to wait for the free
  };

  std::optional<Place> find(std::uint64_t size, const Stream& stream, bool may_wait);
  CUresult grow(std::uint64_t size);
  CUresult make_room(std::uint64_t size, const std::shared_ptr<Stream>& stream, Place* out);
  bool idle(const Chunk& chunk, Free free) const;
  Chunk& chunk_of(std::uint64_t address);
  void take(const Place& place, std::uint64_t rounded, std::uint64_t size, Context* owner);
  void put_back(std::uint64_t base, std::optional<Wait> freed);
  void count_used(std::int64_t change);

  Driver& driver_;
  Gpu& gpu_;
  const CUmemPoolProps props_;
  std::optional<Origin> origin_;
  bool shared_ = false;
  std::map<std::uint64_t, Chunk> chunks_;
  std::map<std::uint64_t, Touchable> touchable_;  ///< by address: pieces that work may touch now
  std::array<CUmemAccess_flags, MachineConfig::kMaxDevices> access_{};
  bool abandoned_ = false;
  std::uint64_t live_ = 0;  ///< pieces handed out
  std::uint64_t threshold_ = 0;
  std::uint64_t reserved_ = 0, reserved_high_ = 0;
  std::uint64_t used_ = 0, used_high_ = 0;
  // What it may do to give memory out again (CU_MEMPOOL_ATTR_REUSE_...).
  bool follow_events_ = true;
  bool opportunistic_ = true;
  bool internal_dependencies_ = true;
};

}  // namespace simgpu
