#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>

#include "allocator/device.h"

namespace tidepool::fakes {

/// Streams and events of the fake device: queues whose work runs late and in an order drawn from a seed, as
/// far as streams, events and the legacy stream (handles 0 and 1) allow. Nothing runs until it is asked for.
///
/// Not thread-safe; FakeDevice locks.
class FakeQueue {
 public:
  using Work = std::function<void()>;

  explicit FakeQueue(std::uint64_t seed) : random_(seed) {}

  /// A stream that ignores the legacy stream (`blocking` false), or is ordered with it.
  [[nodiscard]] runtime::StreamHandle create_stream(bool blocking);
  [[nodiscard]] runtime::EventHandle create_event();
  [[nodiscard]] bool destroy_event(runtime::EventHandle event);

  [[nodiscard]] bool has_stream(runtime::StreamHandle stream) const;
  [[nodiscard]] bool has_event(runtime::EventHandle event) const;

  /// The caller has checked the handles.
  void push(runtime::StreamHandle stream, Work work);
  /// The same for work that needs a multiprocessor.
  void push_kernel(runtime::StreamHandle stream, Work work);
  void record(runtime::EventHandle event, runtime::StreamHandle stream);
  void wait(runtime::StreamHandle stream, runtime::EventHandle event);
  /// A kernel that ends when end_hold() says so.
  void hold(runtime::StreamHandle stream);
  void end_hold(runtime::StreamHandle stream);
  /// While there are none, no kernel begins.
  void set_multiprocessors(bool are_free) { are_free_ = are_free; }
  [[nodiscard]] bool is_done(runtime::EventHandle event) const;

  /// Runs one piece of ready work; false where there is none.
  bool run_one();
  [[nodiscard]] std::size_t pending() const;
  /// A number below `bound`, from the seed.
  [[nodiscard]] std::size_t draw(std::size_t bound);

 private:
  struct Record {
    bool done = false;
  };
  struct Item {
    std::uint64_t order;
    Work work;                           // empty for a wait
    std::shared_ptr<const Record> need;  // must be done before this runs
    bool is_kernel = false;
  };
  struct Stream {
    bool blocking;
    std::deque<Item> items;
  };
  static constexpr std::uint64_t kLegacy = 1;

  [[nodiscard]] static std::uint64_t key(runtime::StreamHandle stream);
  [[nodiscard]] bool is_ready(std::uint64_t key, const Stream& stream) const;
  void push_item(runtime::StreamHandle stream, Work work, std::shared_ptr<const Record> need);

  std::mt19937_64 random_;
  bool are_free_ = true;
  std::uint64_t next_order_ = 0;
  std::uint64_t next_handle_ = 0x1000;
  std::map<std::uint64_t, Stream> streams_{{kLegacy, Stream{true, {}}}};
  std::map<std::uint64_t, std::shared_ptr<Record>> holds_;   // of a stream
  std::map<std::uint64_t, std::shared_ptr<Record>> events_;  // null: never recorded
};

}  // namespace tidepool::fakes
