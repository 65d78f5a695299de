#pragma once

#include <mutex>
#include <span>
#include <unordered_map>

#include "allocator/address_tables.h"
#include "allocator/arena.h"
#include "allocator/residency.h"

namespace tidepool::runtime {

/// Blocks of one device that stay because an address in AddressTables leads to them. They stay until they are
/// freed, also when nothing names them any more: a kernel may have copied the table unseen. Only where memory
/// would be refused otherwise, those that nothing names may move again (TP2105).
///
/// Thread-safe.
class NamedBlocks {
 public:
  NamedBlocks(const Arena& arena, Residency& residency, AddressTables& tables) noexcept
      : arena_(arena), residency_(residency), tables_(tables) {}
  NamedBlocks(const NamedBlocks&) = delete;
  NamedBlocks& operator=(const NamedBlocks&) = delete;

  /// Holds those that are live and not held here yet (Residency::hold). What leads to them must be named by
  /// now. If it fails, none more is held. May wait for device work.
  Status hold(std::span<const BlockId> ids, WorkName what) noexcept;
  /// Bytes of live blocks that are held here. Takes no turn in the slow path.
  [[nodiscard]] Bytes held() const noexcept;
  /// Does a name lead to the block, or close beside it (Arena::Finder::beside)?
  [[nodiscard]] bool is_named(const Block& block) const noexcept;
  /// Lets blocks go that nothing names any more. False: there are none. Takes no turn in the slow path.
  bool let_go_of_unnamed() noexcept;

 private:
  [[nodiscard]] bool is_over(const Hold& hold) const noexcept {
    return arena_.block(hold.id).life.load(std::memory_order_acquire) != hold.life;
  }

  const Arena& arena_;
  Residency& residency_;
  AddressTables& tables_;
  mutable std::mutex lock_;  // before the tables' and Residency's for what is kept
  std::unordered_map<BlockId, Hold> held_;
};

}  // namespace tidepool::runtime
