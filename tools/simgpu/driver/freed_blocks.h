#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

namespace simgpu {

/// Who held an address last, of blocks that were freed: for messages about pointers that are out of date.
/// Addresses are given out again, so a later block hides what it covers of earlier ones; the oldest are
/// forgotten. Not thread-safe: the device lock protects it.
class FreedBlocks {
 public:
  struct Block {
    std::uint64_t base = 0;
    std::uint64_t size = 0;  ///< as the program asked for
  };

  /// At least this many of the latest blocks are remembered.
  static constexpr std::size_t kRemembered = 4096;

  /// The block has been freed; it occupied `rounded` bytes from its base on.
  void add(const Block& block, std::uint64_t rounded);
  /// The latest block that held the address, or null; valid until the next call of add().
  [[nodiscard]] const Block* at(std::uint64_t address) const;

 private:
  struct Range {
    std::uint64_t end;
    std::uint64_t number;  ///< blocks that were freed before
    Block block;
  };

  std::map<std::uint64_t, Range> ranges_;  ///< by start; they do not overlap
  std::uint64_t next_ = 0;
};

}  // namespace simgpu
