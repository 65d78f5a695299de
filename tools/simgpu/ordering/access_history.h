#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tools/simgpu/ordering/order.h"

namespace simgpu::ordering {

/// Bytes that an operation touches. A place is memory as such: however many addresses it is mapped at, it is
/// one place.
struct Touch {
  std::uint64_t place = 0;
  std::uint64_t bytes = 0;
  std::uint64_t address = 0;  ///< by which the operation reaches it
  bool write = false;
  bool inferred = false;  ///< the real extent may be smaller
};

/// One operation's way of touching some bytes, as it is remembered.
struct Access {
  std::shared_ptr<Lane> lane;
  std::uint64_t ticket = 0;
  const std::string* name = nullptr;  ///< of the operation; outlives the history
  std::uint64_t shift = 0;            ///< address minus place
  bool write = false;
  bool inferred = false;
};

/// Two operations of which one writes what the other touches, with nothing that orders them.
struct Race {
  Access first;             ///< called earlier
  Access second;            ///< called later; without a lane: the host takes the memory away
  std::uint64_t place = 0;  ///< of the first byte in common, as the second's addresses go
  std::uint64_t bytes = 0;  ///< in common
  [[nodiscard]] bool possible() const { return first.inferred || second.inferred; }
};

/// Which operations touched which bytes, as far as later ones may race with them. Of a byte, an access is
/// forgotten once the host knows of it, and once one that comes after it stands for it: one that is at least
/// as strong (a write, or both read), at least as certain and made at the same address. Whatever would race
/// with the forgotten one races with that.
///
/// Not thread-safe: the device lock protects it.
class AccessHistory {
 public:
  explicit AccessHistory(const Order& order) : order_(order) {}
  AccessHistory(const AccessHistory&) = delete;
  AccessHistory& operator=(const AccessHistory&) = delete;

  /// The latest operation of the stream touches these bytes. Returns the races with earlier operations, at
  /// most one for each of them and each way (read, write) it touched them. Nothing is said or remembered of
  /// an operation whose order cannot be known (Order::loosen).
  std::vector<Race> record(const std::shared_ptr<Lane>& lane, const std::string* name,
                           std::span<const Touch> touches);
  /// The host takes away the access to this place at these addresses, now. Returns what may still be running.
  std::vector<Race> take_away(std::uint64_t place, std::uint64_t bytes, std::uint64_t address);
  /// The memory is no longer what it was: what was done to it concerns nobody.
  void forget(std::uint64_t place, std::uint64_t bytes);

  /// Pieces that are remembered, for tests of bounded memory.
  [[nodiscard]] std::size_t cells() const { return cells_.size(); }

 private:
  struct Cell {
    std::uint64_t end;
    std::vector<Access> accesses;
  };
  using Cells = std::map<std::uint64_t, Cell>;

  Cells::iterator split(std::uint64_t at);
  void touch(const Access& access, std::uint64_t place, std::uint64_t bytes, std::vector<Race>* races);
  void touch_cell(const Access& access, std::uint64_t place, Cell& cell, std::vector<Race>* races);
  void join_with_previous(Cells::iterator it);
  void sweep();

  const Order& order_;
  Cells cells_;
  std::size_t sweep_at_ = 1024;
};

}  // namespace simgpu::ordering
