#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "tools/simgpu/ordering/clock.h"

namespace simgpu::ordering {

/// How a stream stands to the legacy default stream of its context.
enum class LaneKind : std::uint8_t { kLegacy, kBlocking, kNonBlocking };

/// Whose work a stream does, as messages name it.
struct Owner {
  std::uint64_t stream = 0;  ///< the program's stream
  bool legacy = false;       ///< which is the legacy default stream
  bool graph = false;        ///< it is work of a graph that was launched there

  bool operator==(const Owner&) const = default;
};

/// What is known to come before the operations of one stream, besides that stream's own earlier ones and what
/// the host has waited for. Only an Order looks inside.
class Lane {
 public:
  Lane(std::uint64_t id, std::uint64_t context, LaneKind kind)
      : id_(id), owner_{id, kind == LaneKind::kLegacy, false}, context_(context), kind_(kind) {}
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  [[nodiscard]] std::uint64_t id() const { return id_; }
  [[nodiscard]] LaneKind kind() const { return kind_; }
  /// Itself, unless another was named.
  [[nodiscard]] const Owner& owner() const { return owner_; }
  void works_for(const Owner& owner) { owner_ = owner; }
  /// The number of the latest operation.
  [[nodiscard]] std::uint64_t enqueued() const { return enqueued_; }

 private:
  friend class Order;

  /// What came before the operations below this number.
  struct Change {
    std::uint64_t until;
    Clock before;
  };

  std::uint64_t id_;
  Owner owner_;
  std::uint64_t context_;
  LaneKind kind_;
  std::uint64_t enqueued_ = 0;
  std::uint64_t host_knows_ = 0;  ///< operations up to here precede whatever the host does next
  std::uint64_t completed_ = 0;   ///< operations up to here have really run
  Clock before_;                  ///< of the latest operation
  std::deque<Change> earlier_;    ///< of older ones that the host does not know of, oldest first
};

/// "After that operation."
struct After {
  std::shared_ptr<Lane> lane;
  std::uint64_t ticket = 0;
};

/// Which operation must come before which, by what the program asked for: its streams, event waits, the
/// legacy stream's rules and what the host waited for before it called. Never by the order in which they
/// happened to run. Fed in the order of the API calls.
///
/// Two operations that neither precedes the other are unordered: hardware may run them in either order or at
/// once. Not thread-safe: the device lock protects it.
class Order {
 public:
  Order() = default;
  Order(const Order&) = delete;
  Order& operator=(const Order&) = delete;

  std::shared_ptr<Lane> new_lane(std::uint64_t id, std::uint64_t context, LaneKind kind);

  /// The stream gets one more operation, which comes after these. Returns its number, from 1 on.
  std::uint64_t enqueue(Lane& lane, std::span<const After> after);

  /// True if that operation comes before the latest of `lane`, or is the same.
  [[nodiscard]] bool precedes(const Lane& earlier, std::uint64_t ticket, const Lane& lane) const;
  /// True if that operation comes before whatever the host does next.
  [[nodiscard]] bool known_to_host(const Lane& lane, std::uint64_t ticket) const {
    return ticket <= lane.host_knows_;
  }

  /// The host waited for this operation, or found that it had ended.
  void host_waited(Lane& lane, std::uint64_t ticket);
  /// The same for all operations of a context; 0: of all contexts.
  void host_waited_all(std::uint64_t context);

  /// The stream's operations from now on come after something that cannot be known here, such as a value that
  /// another stream or process writes. Nothing is said about such operations and what depends on them.
  static void loosen(Lane& lane);
  /// True if it is not known what precedes the latest operation of this stream.
  [[nodiscard]] static bool loose(const Lane& lane) { return lane.before_.loose(); }
  /// The operation has run.
  static void completed(Lane& lane, std::uint64_t ticket) { lane.completed_ = ticket; }

  /// Lanes that are remembered, for tests of bounded memory.
  [[nodiscard]] std::size_t lanes() const { return by_id_.size(); }

 private:
  static const Clock& before(const Lane& lane, std::uint64_t ticket);
  static void host_learns(Lane& lane, std::uint64_t ticket);
  void host_learns(const Clock& clock);
  void follow(Lane& lane, const Lane& other, std::uint64_t ticket);
  static Clock& change(Lane& lane);
  void trim(Clock& clock);
  void forget_ended_lanes();

  std::map<std::uint64_t, std::shared_ptr<Lane>> by_id_;
  std::map<std::uint64_t, std::vector<Lane*>> blocking_;  ///< blocking streams by context
  std::map<std::uint64_t, std::vector<Lane*>> legacy_;    ///< legacy stream by context
  std::size_t sweep_at_ = 64;
};

}  // namespace simgpu::ordering
