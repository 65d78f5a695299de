#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "allocator/block.h"
#include "allocator/device.h"
#include "allocator/streams.h"
#include "allocator/support/content_hash.h"

namespace tidepool::runtime {

/// Asks the device for content hashes of blocks. They are made in a stream of their own, so that nothing else
/// waits where they do: for a place on a multiprocessor, which a kernel of the program can hold for ever.
///
/// So an answer may never come. Then all questions are given up: the device does not look at the blocks any
/// more (HashControl), nothing is asked until it has come past them, and what it writes there is no answer to
/// anything. Until a hash has been made or given up, it reads: the block keeps its address.
///
/// For the owner of the slow path; not thread-safe.
class HashQuestions {
 public:
  HashQuestions(Device& device, StreamTable& streams) noexcept : device_(device), streams_(streams) {}
  ~HashQuestions();
  HashQuestions(const HashQuestions&) = delete;
  HashQuestions& operator=(const HashQuestions&) = delete;

  /// Loads the code and creates streams; may wait for the device. `memory`: for Device::prepare_hash(), not
  /// zero yet. Until it has succeeded nothing is asked. Called once.
  Status open(DevicePtr memory) noexcept;
  /// The context is gone. Nothing is asked any more.
  void abandon() noexcept;

  /// Can something be asked now?
  [[nodiscard]] bool is_open() noexcept;
  /// Has the block hashed once all its uses have passed (`are_over`: they have). Where the answer will be;
  /// null: nothing was asked. To be put() back.
  ContentHash* ask(BlockId id, const Block& block, bool are_over) noexcept;
  enum class Answer : std::uint8_t {
    kPending,
    kHere,   ///< the hash of what the block held when it was asked, if nobody has used the block since
    kNever,  ///< it was given up
  };
  [[nodiscard]] Answer look(const ContentHash* answer) noexcept;
  /// What comes after the hash.
  [[nodiscard]] Use use_of(const ContentHash* answer) const noexcept;
  /// Nobody wants the answer any more; null: nothing happens.
  void put(ContentHash* answer) noexcept;

  /// What comes after the last hash that may read the block still; none: it may be unmapped as far as hashes
  /// are concerned.
  [[nodiscard]] Use reading(BlockId id) noexcept;
  /// Gives all up that was asked and is not there. kOk: no hash reads any block. kNotReady: some have begun,
  /// or the device does not even say. Waits for the device, for a second at most.
  Status give_up() noexcept;

 private:
  static constexpr std::size_t kPlaces = 254;
  static constexpr std::size_t kLooks = 8;  // places looked at before there is none
  /// A hash that has begun has its multiprocessors and takes a fraction of this.
  static constexpr Nanos kPatience = seconds(1);

  /// Pinned, kept out of forked children.
  struct Page {
    ContentHash answers[kPlaces];
    unsigned long long void_up_to, entered, left, unused;
  };
  static_assert(sizeof(Page) == 4096);
  /// The last question whose answer was to be in a place.
  struct Place {
    BlockId block = kNoBlock;
    bool taken = false;
    std::uint64_t number = 0;
    Use last;
  };

  Status pin_page() noexcept;
  Status open_stream(Stream** stream) noexcept;
  Status clear(DevicePtr memory) noexcept;
  Status ask_who_reads(Nanos deadline) noexcept;
  [[nodiscard]] Place& place_of(const ContentHash* answer) noexcept;
  ContentHash* take() noexcept;

  Device& device_;
  StreamTable& streams_;
  Stream* stream_ = nullptr;
  Stream* control_ = nullptr;  // for what gives questions up; never behind a kernel
  Page* page_ = nullptr;
  DevicePtr memory_;
  bool is_open_ = false;
  std::array<Place, kPlaces> places_{};
  std::size_t next_ = 0;
  std::uint64_t newest_ = 0;    // number of the latest question
  std::uint64_t given_up_ = 0;  // of the latest that was given up
  std::uint64_t quiet_ = 0;     // of the latest that is known not to read
  Use overdue_;                 // the last hash that was given up and has not been seen to pass
};

}  // namespace tidepool::runtime
