#pragma once

#include <algorithm>
#include <span>

#include "allocator/runtime.h"

namespace tidepool::shim {

/// The managed blocks that one call touches. Fixed size, on the stack of the hook. Names may repeat.
class TouchSet {
 public:
  /// Parameters of a launch hold at most 4,095 pointers (32,764 bytes; CUDA programming guide, kernel
  /// parameters).
  static constexpr std::size_t kRoom = 4096;

  explicit TouchSet(const runtime::Runtime& runtime) noexcept : arena_(runtime.arena()) {}

  /// Adds the block at the address, if there is one.
  void add(std::uint64_t address) noexcept {
    const runtime::BlockId id = arena_.find(address);
    if (id == runtime::kNoBlock) return;
    if (id == last_) return;
    last_ = id;
    if (size_ == kRoom) [[unlikely]]
      compact();
    if (size_ < kRoom) ids_[size_++] = id;
  }

  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] std::span<const runtime::BlockId> ids() const noexcept { return {ids_, size_}; }

 private:
  [[gnu::noinline]] void compact() noexcept {
    std::sort(ids_, ids_ + size_);
    size_ = static_cast<std::size_t>(std::unique(ids_, ids_ + size_) - ids_);
  }

  const runtime::Arena& arena_;
  std::size_t size_ = 0;
  runtime::BlockId last_ = runtime::kNoBlock;  // neighbours are often the same block
  runtime::BlockId ids_[kRoom];                // not initialised: only the first size_ are read
};

}  // namespace tidepool::shim
