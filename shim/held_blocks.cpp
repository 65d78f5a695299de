#include "shim/held_blocks.h"

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <new>
#include <unordered_map>
#include <utility>
#include <vector>

#include "allocator/support/message.h"

namespace tidepool::shim {
namespace {

/// What one object holds: what it was made of, and what single nodes of it were given since.
struct Parts {
  HeldBlocks whole;
  std::vector<std::pair<CUgraphNode, HeldBlocks>> nodes;
  template <class Do>
  void for_each(Do&& what) {
    what(whole);
    for (auto& [node, held] : nodes) what(held);
  }
};

/// What objects of one kind hold.
template <class Handle>
class Holders {
 public:
  void add(Handle handle, Parts&& parts) noexcept {
    const std::lock_guard guard(lock_);
    known_.insert_or_assign(handle, std::move(parts));
  }
  void join(Handle handle, HeldBlocks&& held) noexcept {
    const std::lock_guard guard(lock_);
    known_[handle].whole.join(std::move(held));
  }
  /// `held` keeps what the node was given before.
  void exchange(Handle handle, CUgraphNode node, HeldBlocks& held) noexcept {
    const std::lock_guard guard(lock_);
    auto& nodes = known_[handle].nodes;
    const auto known =
        std::find_if(nodes.begin(), nodes.end(), [node](const auto& part) { return part.first == node; });
    if (known == nodes.end()) {
      nodes.emplace_back(node, std::move(held));
    } else {
      std::swap(known->second, held);
    }
  }
  Parts take(Handle handle) noexcept {
    const std::lock_guard guard(lock_);
    auto found = known_.extract(handle);
    return found ? std::move(found.mapped()) : Parts();
  }
  HeldBlocks take_whole(Handle handle) noexcept {
    Parts parts = take(handle);
    for (auto& [node, held] : parts.nodes) parts.whole.join(std::move(held));
    return std::move(parts.whole);
  }
  void note(Handle handle, const WorkUses& uses) noexcept {
    const std::lock_guard guard(lock_);
    const auto found = known_.find(handle);
    if (found != known_.end()) found->second.for_each([&](HeldBlocks& held) { held.note(uses); });
  }
  bool is_out_of_date(Handle handle) noexcept {
    const std::lock_guard guard(lock_);
    bool is_any = false;
    const auto found = known_.find(handle);
    if (found == known_.end()) return false;
    found->second.for_each([&](HeldBlocks& held) { is_any = is_any || held.is_out_of_date(); });
    return is_any;
  }
  void forget(CUdevice device) noexcept {
    const std::lock_guard guard(lock_);
    for (auto& [handle, parts] : known_) parts.for_each([&](HeldBlocks& held) { held.forget(device); });
  }

  /// Never destroyed: hooks run until the process has ended.
  static Holders& instance() noexcept {
    alignas(Holders) static std::byte storage[sizeof(Holders)];
    static Holders* const only = ::new (storage) Holders;
    return *only;
  }

 private:
  std::mutex lock_;
  std::unordered_map<Handle, Parts> known_;
};

using Instances = Holders<CUgraphExec>;
using Textures = Holders<CUtexObject>;

}  // namespace

CUresult HeldBlocks::hold(const char* what, FunctionRef<bool(TouchSet&)> scan) noexcept {
  runtime::Status status;
  for_each_managed([&](const ManagedDevice& device) {
    if (!status.ok() || device.runtime->frozen()) return;
    // A driver whose device is lost tells nothing of a graph.
    status = device.runtime->device_status();
    if (!status.ok()) return;
    TouchSet set(device.runtime->arena());
    const bool is_known = scan(set) && set.complete();
    if (is_known && !set.empty()) {
      There there{&device, {}, device.runtime->held_frees(), {}};
      status = device.runtime->hold(set.ids(), what, there.blocks);
      if (status.ok()) there_.push_back(std::move(there));
    } else if (!is_known) {
      status = device.runtime->freeze(what);
      if (status.ok()) report<Msg::TP2101>(what);
    }
  });
  if (!status.ok()) let_go();
  return static_cast<CUresult>(status.code());
}

void HeldBlocks::join(HeldBlocks&& other) noexcept {
  for (There& more : other.there_) {
    const auto mine = std::find_if(there_.begin(), there_.end(),
                                   [&](const There& there) { return there.device == more.device; });
    if (mine == there_.end()) {
      there_.push_back(std::exchange(more, There{more.device, {}, 0, {}}));
      continue;
    }
    // What is held already is not held twice, or an instance that is changed again and again would grow.
    std::vector<runtime::Hold> twice;
    for (const runtime::Hold& hold : more.blocks) {
      const bool is_mine = std::find(mine->blocks.begin(), mine->blocks.end(), hold) != mine->blocks.end();
      (is_mine ? twice : mine->blocks).push_back(hold);
    }
    more.blocks = std::move(twice);
    mine->frees_seen = std::min(mine->frees_seen, more.frees_seen);
    for (std::size_t i = 0; i < more.use_count; ++i) mine->note(more.uses[i]);
    mine->is_used_widely = mine->is_used_widely || more.is_used_widely;
  }
}

// Any address of a block leads to it.
void HeldBlocks::name_addresses() noexcept {
  for (There& there : there_) {
    for (const runtime::Hold& hold : there.blocks)
      runtime::AddressTables::instance().name(hold.base.address());
    there.is_named = true;
  }
}

bool HeldBlocks::is_out_of_date() const noexcept {
  return std::any_of(there_.begin(), there_.end(), [](const There& there) {
    return managed_in_slot(there.device->slot) == there.device &&
           there.device->runtime->held_frees() != there.frees_seen;
  });
}

CUresult HeldBlocks::renew(const char* what) noexcept {
  runtime::Status status;
  for (There& there : there_) {
    if (!status.ok() || managed_in_slot(there.device->slot) != there.device) continue;
    status = there.device->runtime->renew(there.blocks, there.frees_seen, what);
  }
  return static_cast<CUresult>(status.code());
}

void HeldBlocks::There::note(runtime::Use use) noexcept {
  const auto end = uses.begin() + static_cast<std::ptrdiff_t>(use_count);
  const auto same =
      std::find_if(uses.begin(), end, [use](runtime::Use known) { return known.stream() == use.stream(); });
  if (same != end) {
    if (same->ticket() < use.ticket()) *same = use;
  } else if (!use || use_count == uses.size()) {
    is_used_widely = true;
  } else {
    uses[use_count++] = use;
  }
}

// In streams that are not followed nobody can tell when it has ended.
void HeldBlocks::note(const WorkUses& uses) noexcept {
  if (!uses.is_followed) return never_let_go();
  for (There& there : there_) there.note(uses.by_slot[there.device->slot]);
}

void HeldBlocks::note_unseen() noexcept {
  for (There& there : there_) there.is_used_widely = true;
}

void HeldBlocks::forget(CUdevice device) noexcept {
  std::erase_if(there_, [device](const There& there) { return there.device->ordinal == device; });
}

void HeldBlocks::let_go() noexcept {
  for (const There& there : there_) {
    if (managed_in_slot(there.device->slot) != there.device) continue;  // its memory has ended
    there.device->runtime->let_go(there.blocks, std::span(there.uses).first(there.use_count),
                                  there.is_used_widely);
    for (const runtime::Hold& hold : there.blocks) {
      if (there.is_named) runtime::AddressTables::instance().unname(hold.base.address());
    }
  }
  there_.clear();
}

void add_held(CUgraphExec instance, HeldBlocks&& held) noexcept {
  Instances::instance().add(instance, {std::move(held), {}});
}
void join_held(CUgraphExec instance, HeldBlocks&& held) noexcept {
  Instances::instance().join(instance, std::move(held));
}
void exchange_held(CUgraphExec instance, CUgraphNode node, HeldBlocks&& held) noexcept {
  HeldBlocks before = std::move(held);
  Instances::instance().exchange(instance, node, before);
}
HeldBlocks take_held(CUgraphExec instance) noexcept {
  return Instances::instance().take_whole(instance);
}
// The driver wants one thread at a time to use an instance (CUDA runtime API, graph object thread safety), so
// nobody misses what is taken meanwhile.
CUresult renew_held(CUgraphExec instance, const char* what) noexcept {
  if (!Instances::instance().is_out_of_date(instance)) return CUDA_SUCCESS;
  Parts parts = Instances::instance().take(instance);
  CUresult result = CUDA_SUCCESS;
  parts.for_each([&](HeldBlocks& held) {
    if (result == CUDA_SUCCESS) result = held.renew(what);
  });
  Instances::instance().add(instance, std::move(parts));
  return result;
}
void note_launch(CUgraphExec instance, const WorkUses& uses) noexcept {
  Instances::instance().note(instance, uses);
}

void add_held(CUtexObject texture, HeldBlocks&& held) noexcept {
  Textures::instance().add(texture, {std::move(held), {}});
}
HeldBlocks take_held(CUtexObject texture) noexcept {
  return Textures::instance().take_whole(texture);
}

void forget_held(CUdevice device) noexcept {
  Instances::instance().forget(device);
  Textures::instance().forget(device);
}

}  // namespace tidepool::shim
