#pragma once

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include "allocator/runtime.h"
#include "tests/fakes/null_device.h"

namespace tidepool::bench {

/// A program on a device that does nothing and holds half of its blocks: each turn is one launch that names
/// eight of them which are out, so that eight others have to leave. What it costs is the slow path's own
/// work.
class TurnWorkload {
 public:
  static constexpr std::size_t kNamed = 8;
  static constexpr Bytes kBlock = MiB(2);

  enum class Kind {
    kAll,    ///< the blocks one after the other, none of which is what it was: the worst for LRU
    kRead,   ///< the same where nothing changes a block: they leave without a copy
    kAmong,  ///< one block in a hundred does not fit; launches go through all, forth and back
    kFreed,  ///< as kAll, and a block is freed and allocated before each turn
  };
  /// The kind's name in benchmarks; kAll where there is none of that name.
  static Kind kind_of(std::string_view name) noexcept;

  TurnWorkload(Kind kind, std::size_t blocks);
  /// One turn of the slow path, with what belongs to it.
  void turn();

 private:
  void launch(std::size_t eight);
  void launch_next();

  const Kind kind_;
  fakes::NullDevice device_;
  std::unique_ptr<runtime::Runtime> runtime_;
  std::vector<runtime::DevicePtr> at_;
  std::vector<runtime::BlockId> blocks_;
  std::size_t next_ = 0;  ///< eight of blocks_
  bool forth_ = true;
};

}  // namespace tidepool::bench
