#pragma once

#include <algorithm>
#include <span>

#include "allocator/arena.h"

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

  explicit BasicTouchSet(const Lookup& lookup) noexcept : lookup_(lookup) {}

  /// Adds the block that the address leads to, if there is one: that holds it, or lies close beside it.
  void add(std::uint64_t address) noexcept {
    const typename Lookup::Finder finder = lookup_.finder();
    if (!finder.covers(address)) return;
    runtime::BlockId id = finder.at(address);
    if (id == last_) return;
    if (id == runtime::kNoBlock) [[unlikely]] {
      id = finder.beside(address);
      if (id == runtime::kNoBlock) return;
    }
    last_ = id;
    if (size_ == kRoom) [[unlikely]]
      make_room();
    if (complete_) ids_[size_++] = id;
  }

  /// add() for `count` addresses, which `address_at(i)` gives.
  template <class AddressAt>
  void add_each(std::size_t count, AddressAt&& address_at) noexcept {
    if (size_ + count > kRoom) [[unlikely]] {
      for (std::size_t i = 0; i < count; ++i) add(address_at(i));
      return;
    }
    // In variables of its own: stores into ids_ could change any member, for all that the compiler knows.
    const typename Lookup::Finder finder = lookup_.finder();
    runtime::BlockId* end = ids_ + size_;
    runtime::BlockId last = last_;
    std::size_t i = 0;
    for (; i < count; ++i) {
      const std::uint64_t address = address_at(i);
      if (!finder.covers(address)) continue;
      const runtime::BlockId id = finder.at(address);
      if (id == last) continue;
      if (id == runtime::kNoBlock) [[unlikely]]
        break;
      last = id;
      *end++ = id;
    }
    last_ = last;
    size_ = static_cast<std::size_t>(end - ids_);
    // Beside a block, or nowhere: a call in the loop would cost every launch.
    for (; i < count; ++i) add(address_at(i));
  }

  /// False: more blocks were named, or almost, than there is room for.
  [[nodiscard]] bool complete() const noexcept { return complete_; }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] std::span<const runtime::BlockId> ids() const noexcept { return {ids_, size_}; }

 private:
  // Gives up while some room is left, so that few names in many words cost few sorts.
  [[gnu::noinline]] void make_room() noexcept {
    if (!complete_) return;
    std::sort(ids_, ids_ + size_);
    size_ = static_cast<std::size_t>(std::unique(ids_, ids_ + size_) - ids_);
    complete_ = size_ <= kRoom - kRoom / 8;
  }

  const Lookup& lookup_;
  std::size_t size_ = 0;
  bool complete_ = true;
  runtime::BlockId last_ = ~runtime::BlockId{0};  // neighbours are often the same block
  runtime::BlockId ids_[kRoom];                   // not initialised: only the first size_ are read
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
