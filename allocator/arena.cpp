#include "allocator/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>
#include <new>

namespace tidepool::runtime {
namespace {

constexpr std::uint64_t kReservationFactor = 8;
constexpr Bytes kLargestReservation = GiB(1024);
constexpr Bytes kSmallestReservation = MiB(64);

// Zero pages that cost memory only where they are used.
void* lazy_zeroes(std::size_t size) noexcept {
  void* at =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return at == MAP_FAILED ? nullptr : at;
}

}  // namespace

DeviceResult<Arena*> Arena::create(Device& device, unsigned number) noexcept {
  Bytes size = std::min(device.total_memory() * kReservationFactor, kLargestReservation).round_up(kChunk);
  DeviceResult<DevicePtr> base = device.reserve(size);
  while (!base.ok() && size > kSmallestReservation) {
    size = Bytes(size.count() / 2).round_up(kChunk);
    base = device.reserve(size);
  }
  if (!base.ok()) return Err{base.error()};

  const std::uint64_t count = size / kChunk;
  auto* blocks = static_cast<Block*>(lazy_zeroes((count + 1) * sizeof(Block)));
  auto* chunks = static_cast<std::atomic<BlockId>*>(lazy_zeroes(count * sizeof(std::atomic<BlockId>)));
  auto* arena = blocks == nullptr || chunks == nullptr
                    ? nullptr
                    : new (std::nothrow) Arena(device, *base, size, blocks, chunks, number);
  if (arena == nullptr) {
    if (blocks != nullptr) ::munmap(blocks, (count + 1) * sizeof(Block));
    if (chunks != nullptr) ::munmap(chunks, count * sizeof(std::atomic<BlockId>));
    (void)device.release_addresses(*base, size);
    return Err{kOutOfMemory};
  }
  return arena;
}

Arena::Arena(Device& device, DevicePtr base, Bytes size, Block* blocks, std::atomic<BlockId>* chunks,
             unsigned number) noexcept
    : device_(device),
      base_(base),
      size_(size),
      first_recorded_(number << kIdBits),
      blocks_(blocks),
      chunks_(chunks) {
  // The first chunk stays empty: the guard in front of the first block.
  holes_.emplace(base.address() + kChunk.count(), size.count() - kChunk.count());
}

Arena::~Arena() {
  const std::uint64_t count = size_ / kChunk;
  for (BlockId id = 1; id < end_id(); ++id) blocks_[id].~Block();
  ::munmap(blocks_, (count + 1) * sizeof(Block));
  ::munmap(chunks_, count * sizeof(std::atomic<BlockId>));
  (void)device_.release_addresses(base_, size_);
}

// Vectors of the base instruction set have no comparison of 64 bits, but a shift: what is left of an offset
// within the arena is 0, and of any offset fits into the lower half of its word.
bool Arena::Finder::covers_some(const std::byte* words, std::size_t many) const noexcept {
  using Pair = std::uint64_t __attribute__((vector_size(16)));
  using Halves = std::uint32_t __attribute__((vector_size(16)));
  constexpr std::size_t kAtOnce = 8;  // words
  const std::uint64_t shift = std::max<std::uint64_t>(std::bit_width(size_ - 1), 32);
  const Pair base = {base_, base_};
  const auto own = [&](const std::byte* at) {
    Pair pair;
    std::memcpy(&pair, at, sizeof pair);
    return reinterpret_cast<Halves>((pair - base) >> shift) == Halves{};
  };
  Halves found{};
  std::size_t i = 0;
  for (; i + kAtOnce <= many; i += kAtOnce) {
    const std::byte* const at = words + i * sizeof(std::uint64_t);
    found |= (own(at) | own(at + 16)) | (own(at + 32) | own(at + 48));
  }
  if ((found[0] | found[2]) != 0) return true;
  for (; i < many; ++i) {
    std::uint64_t word = 0;
    std::memcpy(&word, words + i * sizeof word, sizeof word);
    if (covers(word)) return true;
  }
  return false;
}

DeviceResult<DevicePtr> Arena::take_addresses(Bytes span) noexcept {
  const std::uint64_t wanted = (span + kChunk).count();  // one chunk of guard behind every block
  for (auto hole = holes_.begin(); hole != holes_.end(); ++hole) {
    if (hole->second < wanted) continue;
    const DevicePtr at(hole->first);
    const std::uint64_t rest = hole->second - wanted;
    holes_.erase(hole);
    if (rest != 0) holes_.emplace(at.address() + wanted, rest);
    return at;
  }
  return Err{kOutOfMemory};
}

void Arena::give_addresses(DevicePtr at, Bytes span) noexcept {
  auto [hole, added] = holes_.emplace(at.address(), (span + kChunk).count());
  if (auto next = std::next(hole); next != holes_.end() && hole->first + hole->second == next->first) {
    hole->second += next->second;
    holes_.erase(next);
  }
  if (hole == holes_.begin()) return;
  if (auto before = std::prev(hole); before->first + before->second == hole->first) {
    before->second += hole->second;
    holes_.erase(hole);
  }
}

void Arena::fill_chunks(DevicePtr at, Bytes span, BlockId id) noexcept {
  const std::uint64_t first = (at.address() - base_.address()) / kChunk.count();
  for (std::uint64_t i = 0; i < span / kChunk; ++i) chunks_[first + i].store(id, std::memory_order_release);
}

DeviceResult<BlockId> Arena::add(Bytes requested, Bytes span) noexcept {
  const std::lock_guard guard(lock_);
  const DeviceResult<DevicePtr> at = take_addresses(span);
  if (!at.ok()) return Err{at.error()};
  BlockId id;
  if (!spare_ids_.empty()) {
    id = spare_ids_.back();
    spare_ids_.pop_back();
  } else {
    id = end_id_.load(std::memory_order_relaxed);
    new (&blocks_[id]) Block;
    end_id_.store(id + 1, std::memory_order_release);
  }
  Block& block = blocks_[id];
  block.base = *at;
  block.set_requested(requested);
  block.span = span;
  block.forget_uses();
  block.touched.store(false, std::memory_order_relaxed);
  block.last_use.store(0, std::memory_order_relaxed);
  block.settle(BlockState::kReserved);
  fill_chunks(*at, span, id);
  return id;
}

void Arena::remove(BlockId id) noexcept {
  const std::lock_guard guard(lock_);
  Block& block = blocks_[id];
  fill_chunks(block.base, block.span, kNoBlock);
  give_addresses(block.base, block.span);
  spare_ids_.push_back(id);
}

}  // namespace tidepool::runtime
