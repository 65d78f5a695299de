#include "allocator/free_list.h"

#include <algorithm>

#include "allocator/epoch.h"

namespace tidepool::runtime {

FreeList::Shard& FreeList::shard_for(std::uint16_t stream) noexcept {
  return shards_[(stream != kAnyStream ? stream : EpochRegistry::instance().my_number()) % kShards];
}

FreeList::Chain& FreeList::chain_of(Shard& shard, const Block& block, std::uint16_t stream) noexcept {
  std::vector<Chain>& chains = shard.by_span[block.span.count()];
  const auto known =
      std::find_if(chains.begin(), chains.end(), [&](const Chain& c) { return c.stream == stream; });
  if (known != chains.end()) return *known;
  // Streams come and go: the place of one that left nothing behind serves again.
  const auto empty =
      std::find_if(chains.begin(), chains.end(), [](const Chain& c) { return c.ends.first == kNoBlock; });
  if (empty != chains.end()) {
    empty->stream = stream;
    return *empty;
  }
  return chains.emplace_back(Chain{stream, {}});
}

void FreeList::link(Shard& shard, BlockId id, std::uint16_t stream) noexcept {
  Block& block = arena_.block(id);
  block.free.stream = block.extents.empty() ? kNoMemory : stream;
  block.free.shard = static_cast<std::uint16_t>(&shard - shards_.data());
  block.free.age = newest_age_.fetch_add(1, std::memory_order_relaxed) + 1;
  block.free.newer = block.free.next = kNoBlock;
  Chain& chain = chain_of(shard, block, block.free.stream);
  block.free.older = shard.by_age.last;
  block.free.before = chain.ends.last;
  (block.free.older != kNoBlock ? arena_.block(block.free.older).free.newer : shard.by_age.first) = id;
  (block.free.before != kNoBlock ? arena_.block(block.free.before).free.next : chain.ends.first) = id;
  shard.by_age.last = id;
  chain.ends.last = id;
  shard.counts[kind_of(block.free.stream)].fetch_add(1, std::memory_order_relaxed);
  bytes_.fetch_add(block.backed().count(), std::memory_order_relaxed);
}

void FreeList::unlink(Shard& shard, BlockId id) noexcept {
  const Block::FreeLinks& links = arena_.block(id).free;
  shard.counts[kind_of(links.stream)].fetch_sub(1, std::memory_order_relaxed);
  bytes_.fetch_sub(arena_.block(id).backed().count(), std::memory_order_relaxed);
  Chain& chain = chain_of(shard, arena_.block(id), links.stream);
  (links.older != kNoBlock ? arena_.block(links.older).free.newer : shard.by_age.first) = links.newer;
  (links.newer != kNoBlock ? arena_.block(links.newer).free.older : shard.by_age.last) = links.older;
  (links.before != kNoBlock ? arena_.block(links.before).free.next : chain.ends.first) = links.next;
  (links.next != kNoBlock ? arena_.block(links.next).free.before : chain.ends.last) = links.before;
}

// No work may be pending that was enqueued for the block's last life, be it our own copy in. A use that no
// mark covers yet gets one, so that the answer changes with time.
bool FreeList::is_idle(const Block& block) noexcept {
  if (block.used_widely.load(std::memory_order_acquire)) return false;
  return std::all_of(block.uses.begin(), block.uses.end(), [&](const auto& use) {
    return streams_.passed_or_wanted(Use::from_raw(use.load(std::memory_order_acquire)));
  });
}

// The newest of the stream's own (its memory is warm), the oldest of others (most likely to have passed).
BlockId FreeList::usable_in(const Chain& chain, std::uint16_t stream) noexcept {
  const bool own = chain.stream == kAnyStream || chain.stream == stream;
  BlockId id = own ? chain.ends.last : chain.ends.first;
  for (int looked = 0; id != kNoBlock && looked < kLook; ++looked) {
    const Block& block = arena_.block(id);
    const bool whole = block.backed() == block.span && block.pins.load(std::memory_order_acquire) == 0;
    const bool ordered = chain.stream == stream && stream != kAnyStream;
    if (whole && (ordered || is_idle(block))) return id;
    id = own ? block.free.before : block.free.next;
  }
  return kNoBlock;
}

// With kNoMemory for the stream: blocks that are an address only, which have no uses.
BlockId FreeList::find(Shard& shard, Bytes span, std::uint16_t stream) noexcept {
  const std::uint64_t most = span.count() + span.count() / (kMostWaste - 1);
  for (auto at = shard.by_span.lower_bound(span.count()); at != shard.by_span.end() && at->first <= most;
       ++at) {
    for (const bool own : {true, false}) {
      for (const Chain& chain : at->second) {
        if ((chain.stream == kNoMemory) != (stream == kNoMemory)) continue;
        if (stream == kNoMemory) {
          if (chain.ends.last != kNoBlock) return chain.ends.last;
          continue;
        }
        if ((chain.stream == stream || chain.stream == kAnyStream) != own) continue;
        if (const BlockId id = usable_in(chain, stream); id != kNoBlock) return id;
      }
    }
  }
  return kNoBlock;
}

BlockId FreeList::find_waiting(Shard& shard, Bytes span) noexcept {
  const auto at = shard.by_span.find(span.count());
  if (at == shard.by_span.end()) return kNoBlock;
  for (const Chain& chain : at->second) {
    if (chain.stream == kNoMemory || chain.ends.first == kNoBlock) continue;
    const Block& block = arena_.block(chain.ends.first);
    if (block.used_widely.load(std::memory_order_acquire) || block.pins.load(std::memory_order_acquire) != 0)
      continue;
    if (block.backed() == block.span) return chain.ends.first;
  }
  return kNoBlock;
}

void FreeList::put_back(BlockId id) noexcept {
  Shard& shard = shards_[arena_.block(id).free.shard];
  const std::lock_guard guard(shard.lock);
  link(shard, id, kAnyStream);
}

void FreeList::forget_uses(Entry entry) noexcept {
  Block& block = arena_.block(entry.id);
  for (Shard& shard : shards_) {
    const std::lock_guard guard(shard.lock);
    for (BlockId id = shard.by_age.first; id != kNoBlock; id = arena_.block(id).free.newer) {
      if (id == entry.id && block.free.age == entry.age) return block.forget_uses();
    }
  }
}

bool FreeList::return_addresses() noexcept {
  bool any = false;
  for (Shard& shard : shards_) {
    const std::lock_guard guard(shard.lock);
    for (BlockId id = shard.by_age.first; id != kNoBlock;) {
      const BlockId newer = arena_.block(id).free.newer;
      if (arena_.block(id).free.stream == kNoMemory && !arena_.block(id).is_pinned()) {
        unlink(shard, id);
        arena_.remove(id);
        any = true;
      }
      id = newer;
    }
  }
  return any;
}

}  // namespace tidepool::runtime
