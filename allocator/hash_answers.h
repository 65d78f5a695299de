#pragma once

#include <array>
#include <bitset>
#include <cstddef>

#include "allocator/device.h"
#include "allocator/streams.h"
#include "allocator/support/content_hash.h"

namespace tidepool::runtime {

/// Where the device writes content hashes for us: places in one page of pinned host memory, kept out of
/// forked children. A place that was given back is given out again once the work that writes it has passed.
///
/// For the owner of the slow path; not thread-safe.
class HashAnswers {
 public:
  static constexpr std::size_t kPlaces = 256;
  static constexpr std::size_t kPage = kPlaces * sizeof(ContentHash);

  HashAnswers(Device& device, StreamTable& streams) noexcept : device_(device), streams_(streams) {}
  ~HashAnswers();
  HashAnswers(const HashAnswers&) = delete;
  HashAnswers& operator=(const HashAnswers&) = delete;

  /// Pins the page. Until it has succeeded there are no places.
  Status open() noexcept;
  /// The context that had pinned the page is gone. No places are left.
  void abandon() noexcept;

  /// The page, while nothing was written to it: zeros.
  [[nodiscard]] const void* zeros() const noexcept { return places_; }
  /// A place for one hash; null where none is free.
  ContentHash* take() noexcept;
  /// Gives a place back (null: nothing) that the device writes no later than `last`.
  void put(ContentHash* place, Use last) noexcept;

 private:
  static constexpr std::size_t kLooks = 8;  // places looked at before there is none

  Device& device_;
  StreamTable& streams_;
  ContentHash* places_ = nullptr;
  std::array<Use, kPlaces> last_{};
  std::bitset<kPlaces> taken_;
  std::size_t next_ = 0;
};

}  // namespace tidepool::runtime
