#pragma once

#include <algorithm>
#include <span>

#include "allocator/arena.h"
#include "allocator/epoch.h"

namespace tidepool::shim {

/// The blocks that one call touches, as `Lookup` finds them: managed ones, or watched ones (observe.h). Fixed
/// size, on the stack of the hook. Names may repeat. Nothing is left out in silence: a set that is not
/// complete() stands for all live blocks.
template <class Lookup>
class BasicTouchSet {
 public:
  /// Parameters of a launch hold at most 4,095 pointers (32,764 bytes; CUDA programming guide, kernel
  /// parameters). Batches of copies have no such limit.
  static constexpr std::size_t kRoom = 4096;

  explicit BasicTouchSet(const Lookup& lookup) noexcept : lookup_(lookup) { room_[0] = kNone; }

  /// Adds the block that the address leads to, if there is one: that holds it, or lies close beside it.
  void add(std::uint64_t address) noexcept {
    const typename Lookup::Finder finder = lookup_.finder();
    if (!finder.covers(address)) return;
    runtime::BlockId id = finder.at(address);
    if (id == room_[size_]) return;
    if (id == runtime::kNoBlock) [[unlikely]] {
      id = finder.beside(address);
      if (id == runtime::kNoBlock) return;
    }
    if (size_ == kRoom) [[unlikely]]
      make_room();
    if (!complete_) return;
    room_[++size_] = id;
    bits_ |= runtime::EpochRegistry::bit_of(id);
  }

  /// add() for `count` addresses, which `address_at(i)` gives.
  template <class AddressAt>
  [[gnu::always_inline]] void add_each(std::size_t count, AddressAt&& address_at) noexcept {
    if (size_ + count > kRoom) [[unlikely]] {
      for (std::size_t i = 0; i < count; ++i) add(address_at(i));
      return;
    }
    // In variables of its own: stores into room_ could change any member, for all that the compiler knows.
    const typename Lookup::Finder finder = lookup_.finder();
    runtime::BlockId* last = room_ + size_;
    std::uint64_t bits = bits_;
    std::size_t i = 0;
    for (; i < count; ++i) {
      const std::uint64_t address = address_at(i);
      if (!finder.covers(address)) continue;
      const runtime::BlockId id = finder.at(address);
      if (id == *last) continue;
      if (id == runtime::kNoBlock) [[unlikely]]
        break;
      *++last = id;
      runtime::EpochRegistry::add_bit(bits, id);
    }
    bits_ = bits;
    size_ = static_cast<std::size_t>(last - room_);
    // Beside a block, or nowhere: a call in the loop would cost every launch.
    for (; i < count; ++i) add(address_at(i));
  }

  /// False: more blocks were named, or almost, than there is room for.
  [[nodiscard]] bool complete() const noexcept { return complete_; }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] std::span<const runtime::BlockId> ids() const noexcept { return {room_ + 1, size_}; }
  /// EpochRegistry::bit_of() of all of them.
  [[nodiscard]] std::uint64_t bits() const noexcept { return bits_; }

 private:
  // Gives up while some room is left, so that few names in many words cost few sorts.
  [[gnu::noinline]] void make_room() noexcept {
    if (!complete_) return;
    std::sort(room_ + 1, room_ + 1 + size_);
    size_ = static_cast<std::size_t>(std::unique(room_ + 1, room_ + 1 + size_) - (room_ + 1));
    complete_ = size_ <= kRoom - kRoom / 8;
  }

  static constexpr runtime::BlockId kNone = ~runtime::BlockId{0};  // what no chunk says

  const Lookup& lookup_;
  std::size_t size_ = 0;
  bool complete_ = true;
  std::uint64_t bits_ = 0;
  /// Behind one that is none: neighbours are often the same block, and each is held against the one before.
  /// Not initialised: only the first size_ + 1 are read.
  runtime::BlockId room_[kRoom + 1];
};

using TouchSet = BasicTouchSet<runtime::Arena>;

/// What a set holds, whichever it is. Valid as long as the set.
struct Touched {
  template <class Lookup>
  Touched(const BasicTouchSet<Lookup>& set) noexcept  // NOLINT(google-explicit-constructor)
      : ids(set.ids()), complete(set.complete()) {}
  Touched(std::span<const runtime::BlockId> blocks, bool is_complete) noexcept
      : ids(blocks), complete(is_complete) {}
  std::span<const runtime::BlockId> ids;
  bool complete;
};

}  // namespace tidepool::shim
