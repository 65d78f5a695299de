#pragma once

#include <cuda.h>

#include <array>
#include <span>
#include <utility>
#include <vector>

#include "allocator/runtime.h"
#include "shim/gate_several.h"
#include "shim/managed.h"

/// Blocks that stay on the device as long as some object of the program's lives: an instance of a graph,
/// whose launches use them unseen, or a texture.
namespace tidepool::shim {

/// What one object holds, on all devices. Blocks are let go when it ends; until then each is counted once.
class HeldBlocks {
 public:
  HeldBlocks() noexcept = default;
  ~HeldBlocks() { let_go(); }
  HeldBlocks(HeldBlocks&& other) noexcept : there_(std::exchange(other.there_, {})) {}
  HeldBlocks& operator=(HeldBlocks&& other) noexcept {
    std::swap(there_, other.there_);
    return *this;
  }

  /// Holds what `scan(set)` finds; where it cannot tell, everything stays from here on (TP2101). If it fails
  /// nothing is held. `what` names the call in messages.
  CUresult hold(const char* what, FunctionRef<bool(TouchSet&)> scan) noexcept;
  /// Whoever is allocated memory at these addresses later finds that it stays as well, as long as this lives.
  /// For objects whose uses cannot be seen; of others see renew().
  void name_addresses() noexcept;
  /// Takes over what the other holds, and how it was used.
  void join(HeldBlocks&& other) noexcept;
  /// Memory was freed that the object names: renew() has something to look for.
  [[nodiscard]] bool is_out_of_date() const noexcept;
  /// Holds what was allocated meanwhile where freed memory was that the object names. `what` as for hold().
  CUresult renew(const char* what) noexcept;
  /// The object's work was put into a stream.
  void note(const WorkUses& uses) noexcept;
  /// Work in streams that nobody sees uses the blocks, which has ended or is in streams of this process when
  /// the object ends.
  void note_unseen() noexcept;
  /// Work that never ends in our sight uses them, or may: they stay until they are freed.
  void never_let_go() noexcept { there_.clear(); }
  /// The device's context has ended, and its memory with it.
  void forget(CUdevice device) noexcept;

 private:
  struct There {
    const ManagedDevice* device;
    std::vector<runtime::Hold> blocks;
    std::uint64_t frees_seen = 0;      ///< Runtime::held_frees() that `blocks` are of
    std::array<runtime::Use, 4> uses;  ///< the newest of each stream
    std::size_t use_count = 0;
    bool is_named = false;        ///< their addresses are, in AddressTables
    bool is_used_widely = false;  ///< by more streams, or nobody knows by which
    void note(runtime::Use use) noexcept;
  };
  void let_go() noexcept;

  std::vector<There> there_;
};

/// What instances of graphs hold. Thread-safe; allocates.
///
/// `*out` was made, and holds them.
void add_held(CUgraphExec instance, HeldBlocks&& held) noexcept;
/// It holds these as well.
void join_held(CUgraphExec instance, HeldBlocks&& held) noexcept;
/// One node of it was given other parameters: it holds these instead of what the node was given before. What
/// it was made of it goes on holding.
void exchange_held(CUgraphExec instance, CUgraphNode node, HeldBlocks&& held) noexcept;
/// What it holds, which it no longer does: before its handle can come back for another.
HeldBlocks take_held(CUgraphExec instance) noexcept;
/// Before a launch of it: HeldBlocks::renew(). Costs a short lock where nothing was freed.
CUresult renew_held(CUgraphExec instance, const char* what) noexcept;
/// It was launched. Allocates nothing; a short lock.
void note_launch(CUgraphExec instance, const WorkUses& uses) noexcept;

/// The same for textures, whose users cannot be seen.
void add_held(CUtexObject texture, HeldBlocks&& held) noexcept;
HeldBlocks take_held(CUtexObject texture) noexcept;

/// The device's context has ended, and its graphs and textures with it.
void forget_held(CUdevice device) noexcept;

}  // namespace tidepool::shim
