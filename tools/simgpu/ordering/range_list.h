#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace simgpu::ordering {

/// The bytes that one launch declares, gathered from its blocks. Allocates nothing and never fails, so it can
/// be filled where neither is allowed.
class RangeList {
 public:
  struct Range {
    std::uint64_t low, high;  ///< half open
    bool write;
    bool operator==(const Range&) const = default;
  };
  static constexpr std::size_t kLimit = 1024;

  void clear() {
    count_ = 0;
    coarse_ = false;
  }
  void add(std::uint64_t low, std::uint64_t bytes, bool write);
  /// What was added, as few ranges as possible: reads first, each kind sorted, apart from each other.
  std::span<const Range> merged();
  /// True if there were too many separate pieces, so that gaps between them are in the ranges too.
  [[nodiscard]] bool coarse() const { return coarse_; }

 private:
  void compact();
  void coarsen();

  std::array<Range, kLimit> ranges_;
  std::size_t count_ = 0;
  bool coarse_ = false;
};

}  // namespace simgpu::ordering
