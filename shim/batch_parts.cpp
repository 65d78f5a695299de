#include "shim/batch_parts.h"

#include <algorithm>
#include <array>
#include <unordered_set>

#include "shim/managed.h"

namespace tidepool::shim {
namespace {

/// A block that a copy names, and what it takes of the room for what moves.
struct Named {
  unsigned slot;  // of the device
  runtime::BlockId id;
  Bytes bytes;
};
using Copy = std::vector<Named>;  // each block once
using Rooms = std::array<Bytes, runtime::kMostDevices>;

/// What some copies name together.
class Together {
 public:
  /// Adds the copy if no device then has more than `share` of its room taken; `any`: in any case.
  bool add(const Copy& copy, const Rooms& rooms, std::uint64_t share, bool any = false) {
    Rooms taken = taken_;
    for (const Named& named : copy) {
      if (!seen_.contains(key(named))) taken[named.slot] += named.bytes;
    }
    bool has_room = true;
    for (std::size_t slot = 0; slot < rooms.size(); ++slot)
      has_room = has_room && taken[slot] <= Bytes(rooms[slot].count() / share);
    if (!has_room && !any) return false;
    taken_ = taken;
    for (const Named& named : copy) seen_.insert(key(named));
    return true;
  }

 private:
  static std::uint64_t key(const Named& named) noexcept { return std::uint64_t{named.slot} << 32 | named.id; }
  Rooms taken_{};
  std::unordered_set<std::uint64_t> seen_;
};

Copy named_by(std::size_t i, FunctionRef<void(std::size_t, TouchSet&)> collect) {
  Copy copy;
  for_each_managed([&](const ManagedDevice& device) {
    TouchSet set(device.runtime->arena());
    collect(i, set);
    for (const runtime::BlockId id : set.ids()) {
      const bool is_new = std::none_of(copy.begin(), copy.end(), [&](const Named& named) {
        return named.slot == device.slot && named.id == id;
      });
      if (is_new) copy.push_back({device.slot, id, device.runtime->room_taken_by(id)});
    }
  });
  return copy;
}

CUresult call_with_bytes_there(unsigned slot, FunctionRef<void(TouchSet&)> collect, runtime::WorkName what,
                               FunctionRef<CUresult()> call) noexcept {
  if (slot == runtime::kMostDevices) return call();
  const auto rest = [&] { return call_with_bytes_there(slot + 1, collect, what, call); };
  const ManagedDevice* const device = managed_in_slot(slot);
  if (device == nullptr) return rest();
  TouchSet set(device->runtime->arena());
  collect(set);
  if (set.empty() || !set.complete()) return rest();
  return static_cast<CUresult>(device->runtime->call_captured(set.ids(), what, rest));
}

}  // namespace

bool may_exceed_room() noexcept {
  return find_managed([](const ManagedDevice& device) { return !device.runtime->holds_all(); }) != nullptr;
}

std::vector<BatchPart> parts_of_batch(std::size_t count, FunctionRef<void(std::size_t, TouchSet&)> collect) {
  const BatchPart whole{0, count};
  Rooms rooms{};
  for_each_managed([&](const ManagedDevice& device) { rooms[device.slot] = device.runtime->room_to_move(); });
  std::vector<Copy> copies;
  Together all;
  bool has_room = true;
  for (std::size_t i = 0; i < count; ++i) {
    copies.push_back(named_by(i, collect));
    has_room = has_room && all.add(copies.back(), rooms, 1);
    if (!Together().add(copies.back(), rooms, 1)) return {whole};
  }
  if (has_room) return {whole};
  std::vector<BatchPart> parts;
  Together part;
  for (std::size_t i = 0; i < count; ++i) {
    // Half of the room: while one part is copied, the memory of the next one comes.
    if (!parts.empty() && part.add(copies[i], rooms, 2)) {
      ++parts.back().count;
      continue;
    }
    parts.push_back({i, 1});
    part = Together();
    (void)part.add(copies[i], rooms, 2, true);
  }
  return parts;
}

CUresult call_with_bytes_there(FunctionRef<void(TouchSet&)> collect, runtime::WorkName what,
                               FunctionRef<CUresult()> call) noexcept {
  return call_with_bytes_there(0, collect, what, call);
}

}  // namespace tidepool::shim
