#include "allocator/runtime.h"

#include <algorithm>
#include <bit>
#include <new>
#include <utility>

#include "allocator/failed_call.h"
#include "allocator/support/events.h"
#include "allocator/support/message.h"
#include "allocator/support/stats_page.h"

namespace tidepool::runtime {
namespace {

constexpr Bytes kHostChunk = MiB(64);
/// With so much to hold, a slab more is less than two per cent of it.
constexpr Bytes kRoomForHashes = MiB(128);

}  // namespace

DeviceResult<Runtime*> Runtime::create(Device& device, const Options& options, Bytes host_total,
                                       unsigned number) noexcept {
  const Bytes total = device.total_memory();
  const Bytes capacity = device_capacity_of(options, total);
  if (is_budget_too_small(options, total)) {
    report_on<Msg::TP1005>(device.number(), BytesText(options.device_budget.resolve(total)).c_str(),
                           BytesText(total).c_str(), BytesText(std::min(kLeastDeviceBudget, total)).c_str());
  }
  if (is_budget_too_large(options, total))
    report_on<Msg::TP1006>(device.number(), BytesText(options.device_budget.resolve(total)).c_str(),
                           BytesText(total).c_str());
  if (is_reserve_too_large(options, total)) {
    report_on<Msg::TP1007>(device.number(), BytesText(options.device_reserve.amount.resolve(total)).c_str(),
                           BytesText(total).c_str(), BytesText(most_device_reserve(total)).c_str());
  }
  DeviceResult<Arena*> arena = Arena::create(device, number);
  if (!arena.ok()) return Err{arena.error()};
  auto* runtime = new (std::nothrow) Runtime(device, std::unique_ptr<Arena>(*arena), options, capacity,
                                             host_budget_of(options, host_total), number);
  if (runtime == nullptr) return Err{kOutOfMemory};
  if (const Status status = runtime->residency_.open(); !status.ok()) {
    delete runtime;
    return Err{status};
  }
  runtime->sums_.set(Metric::device_capacity_bytes, capacity.count(), Metric::device_capacity_bytes_peak);
  emit<Ev::budget>(capacity, total, Bytes(), std::uint64_t{0});
  runtime->obey();  // what was asked before there was a device to ask it of
  return runtime;
}

Runtime::Runtime(Device& device, std::unique_ptr<Arena> arena, const Options& options, Bytes capacity,
                 Bytes host_budget, unsigned number) noexcept
    : device_(device),
      arena_(std::move(arena)),
      options_(options),
      min_block_(options.min_block),
      sums_(number),
      pulse_(device.create_event()),
      pool_(device, Arena::kChunk * (capacity / Arena::kChunk)),
      host_(device, host_budget, Arena::kChunk, kHostChunk),
      streams_(device),
      residency_(device, *arena_, pool_, host_, streams_, sums_, options.check),
      tables_(AddressTables::instance()),
      named_(*arena_, residency_, tables_),
      slabs_(*arena_, residency_, streams_),
      epochs_(EpochRegistry::instance()),
      listener_(device.number()),
      budget_(options.device_budget),
      capacity_(capacity.count()),
      most_(capacity.count()) {
  residency_.on_need([](void* self, Bytes limit) { return static_cast<Runtime*>(self)->grow_limit(limit); },
                     [](void* self, Bytes limit) {
                       const Runtime& runtime = *static_cast<Runtime*>(self);
                       return Residency::Surroundings{runtime.outside(), runtime.allocated(),
                                                      runtime.named_.held(),
                                                      runtime.slabs_.could_grow_by(limit)};
                     },
                     this);
  residency_.on_shortage([](void* self) { return static_cast<NamedBlocks*>(self)->let_go_of_unnamed(); },
                         &named_);
  if (options.check == CheckLevel::kUnmap) pool_.attend_always();
  is_idle_memory_unmapped.store(options.check == CheckLevel::kUnmap, std::memory_order_relaxed);
  // A thread's own default streams end with the thread.
  (void)epochs_.add_exit_hook([](void* self) { static_cast<Runtime*>(self)->streams_.retire_thread(); },
                              this);
}

Runtime::~Runtime() {
  leave();
  if (pulse_.ok()) (void)device_.destroy_event(*pulse_);
}

void Runtime::leave() noexcept {
  epochs_.remove_exit_hook(this);
  listener_.close();
  tables_.forget(arena_->base().address(), (arena_->base() + arena_->size()).address());
  for (const Metric held :
       {Metric::allocated_bytes, Metric::device_resident_bytes, Metric::kept_bytes, Metric::held_bytes,
        Metric::host_bytes, Metric::device_handles, Metric::host_pinned_bytes, Metric::host_holes,
        Metric::block_ids, Metric::streams_known}) {
    sums_.set(held, 0);
  }
}

Status Runtime::device_status() noexcept {
  if (!pulse_.ok()) return kOk;
  Status status = device_.query(*pulse_);
  // One that does not repeat is not the device's.
  if (loses_device(status)) status = device_.query(*pulse_);
  return loses_device(status) ? status : kOk;
}

// Until a program has been told of a loss it cannot know that there was one, since work fails when it fails:
// an answer as of a device that is well is right. Then it is to get the same error from everything, and one
// that asks nothing else is to get it some time.
Status Runtime::loss() noexcept {
  const std::uint32_t answered = answers_.load(std::memory_order_relaxed);
  answers_.store(answered + 1, std::memory_order_relaxed);
  if (answered % kAnswersPerQuestion != 0 && !loss_was_told.load(std::memory_order_relaxed)) [[likely]]
    return kOk;
  return device_status();
}

Bytes Runtime::allocated() const noexcept {
  return Bytes(block_bytes_.load(std::memory_order_relaxed)) + slabs_.held();
}

void Runtime::publish_allocated() noexcept {
  const Bytes allocated = this->allocated();
  sums_.set(Metric::allocated_bytes, allocated.count(), Metric::allocated_bytes_peak);
  streams_.expect_evictions(allocated > pool_.limit());
}

// Device and host together must hold everything, and exchanging two blocks needs room on the host for the one
// that leaves before the other has arrived. Counts first and checks then, so that two threads cannot both
// take the last room.
bool Runtime::reserve(Bytes span) noexcept {
  block_bytes_.fetch_add(span.count(), std::memory_order_relaxed);
  const Bytes total = allocated();
  const Bytes exchange = total <= pool_.limit() ? Bytes() : std::max(residency_.largest(), span) * 2;
  const bool fits = total <= pool_.limit();
  const bool is_held = fits || residency_.fits(total + exchange - host_.budget());
  const auto may_come = [&] { return residency_.fits(residency_.kept() + span); };
  if (!is_held || !residency_.fits_without_unneeded(may_come)) {
    block_bytes_.fetch_sub(span.count(), std::memory_order_relaxed);
    return false;
  }
  // Pinning host memory is slow; here is a better place for it than the launch that will need it. If the
  // system refuses, the launch tries again.
  if (!fits) (void)host_.grow_to(total + exchange - pool_.limit());
  if (host_.pinned() != Bytes()) give_back_host();
  return true;
}

// For a program that does not fit, at an allocation that shows it: loading code may wait for the device,
// which a launch never may. The memory lies between the program's own small allocations; where there are none
// it is taken only if it does not matter.
void Runtime::prepare_hashes() noexcept {
  if (!options_.clean || hashes_prepared_.load(std::memory_order_relaxed)) return;
  // Where there is no room now, again after twice as many allocations.
  if (!std::has_single_bit(hash_tries_.fetch_add(1, std::memory_order_relaxed) + 1)) return;
  if (hashes_prepared_.exchange(true)) return;
  DeviceResult<DevicePtr> memory = slabs_.allocate_spare(Device::kHashMemory);
  if (!memory.ok() && pool_.limit() >= kRoomForHashes && residency_.may_keep(Arena::kChunk))
    memory = slabs_.allocate(Device::kHashMemory, 0, 0);
  if (memory.ok()) {
    residency_.open_hashes(*memory);
  } else {
    hashes_prepared_.store(false);
  }
}

// What a spike has left pinned. Here and not at launches, since the driver may wait for the device in it, as
// it may in an allocation.
void Runtime::give_back_host() noexcept {
  if (captures_under_way.load(std::memory_order_relaxed) > 0) return;
  if (host_.give_back_idle(monotonic_now())) sums_.set(Metric::host_pinned_bytes, host_.pinned().count());
}

void Runtime::unreserve(Bytes span) noexcept {
  block_bytes_.fetch_sub(span.count(), std::memory_order_relaxed);
}

DeviceResult<DevicePtr> Runtime::allocate_in(Bytes size, StreamHandle stream, std::uint8_t tag) noexcept {
  Stream* known = streams_.find(stream);
  const DeviceResult<DevicePtr> at = allocate_for(size, known, tag);
  if (!at.ok() || known == nullptr) return at;
  if (const Status status = be_a_barrier(*known); !status.ok()) {
    (void)free_in(*at, stream);
    return Err{status};
  }
  return at;
}

// An allocation or a free in the legacy stream is an operation of it, which all blocking streams wait for and
// which waits for all of them; recording an event is one too. Where even that fails, the host waits.
Status Runtime::be_a_barrier(Stream& stream) noexcept {
  if (stream.handle() != kLegacyStream || !blocking_streams_exist.load(std::memory_order_acquire)) return kOk;
  (void)stream.draw();
  return streams_.mark(stream).ok() ? kOk : streams_.synchronize();
}

DeviceResult<DevicePtr> Runtime::allocate_for(Bytes size, Stream* stream, std::uint8_t tag) noexcept {
  if (size == Bytes()) return Err{kInvalidValue};
  if (const Status status = loss(); !status.ok()) return Err{status};
  obey();
  const bool is_small = size <= SlabHeap::kLargest;
  const std::uint16_t order = stream != nullptr ? stream->index() : std::uint16_t{0};
  DeviceResult<DevicePtr> at =
      is_small ? slabs_.allocate(size, order, tag) : allocate_block(size, stream, tag);
  if (at.ok()) StatsPage::instance().add(Metric::blocks_managed_total, 1);
  if (!at.ok() && at.error() == kOutOfMemory) {
    const std::uint64_t held = sums_.set(Metric::allocated_bytes, allocated().count());
    StatsPage::instance().raise(Metric::refused_bytes_peak, held + size.count());
  }
  publish_allocated();
  return at;
}

DeviceResult<DevicePtr> Runtime::allocate_block(Bytes size, Stream* stream, std::uint8_t tag) noexcept {
  const Bytes span = size.round_up(Arena::kChunk);
  if (!reserve(span)) return Err{residency_.refuse(span)};
  if (allocated() > pool_.limit()) prepare_hashes();
  const bool is_anything_named = tables_.any();
  BlockId id = residency_.take_freed(size, span, stream);
  if (is_anything_named && id != kNoBlock && !may_serve(id)) [[unlikely]] {
    residency_.undo_take(id);
    id = kNoBlock;
  }
  if (id == kNoBlock) {
    const DeviceResult<BlockId> added = residency_.new_block(size, span);
    if (!added.ok()) {
      unreserve(span);
      return Err{residency_.refuse_addresses(span)};
    }
    id = *added;
  }
  Block& block = arena_->block(id);
  block_bytes_.fetch_add((block.span - span).count(), std::memory_order_relaxed);
  block.tag.store(tag, std::memory_order_relaxed);
  residency_.count(block);
  const bool is_to_be_kept = size < min_block_ || residency_.freezing();
  if (!is_to_be_kept && !is_anything_named) return block.base;
  const Status status = is_to_be_kept ? keep_new(id, size) : hold_new(id, size);
  if (!status.ok()) return Err{status};
  return block.base;
}

Status Runtime::free(DevicePtr at) noexcept {
  const BlockId id = arena_->find(at.address());
  if (id == kNoBlock) return kInvalidValue;
  Status status = streams_.wait_device();
  if (!status.ok()) return status;
  if (tables_.any()) forget_words(at);
  const Block& block = arena_->block(id);
  status = kInvalidValue;
  if (block.slab.load(std::memory_order_acquire) != nullptr) {
    status = slabs_.free(id, at, Use());
  } else if (block.base == at) {
    const Bytes span = block.span;
    status = residency_.free(id, Use());
    if (status.ok()) unreserve(span);
  }
  publish_allocated();
  return status;
}

Status Runtime::free_in(DevicePtr at, StreamHandle handle) noexcept {
  Stream* stream = streams_.find(handle);
  if (stream == nullptr) return free(at);
  const BlockId id = arena_->find(at.address());
  if (id == kNoBlock) return kInvalidValue;
  if (const Status lost = loss(); !lost.ok()) return lost;
  if (tables_.any()) forget_words(at);
  const Block& block = arena_->block(id);
  Status status = kInvalidValue;
  if (block.slab.load(std::memory_order_acquire) != nullptr) {
    status = slabs_.free(id, at, stream->draw());
  } else if (block.base == at) {
    const Bytes span = block.span;
    status = residency_.free_in(id, *stream);
    if (status.ok()) unreserve(span);
  }
  if (status.ok()) status = be_a_barrier(*stream);
  streams_.mark_sometimes(*stream, Bytes());
  publish_allocated();
  return status;
}

Allocation Runtime::describe(DevicePtr at) noexcept {
  const BlockId id = arena_->find(at.address());
  if (id == kNoBlock) return {};
  const Block& block = arena_->block(id);
  if (block.load().state() == BlockState::kFreed) return {};
  if (block.slab.load(std::memory_order_acquire) != nullptr) return slabs_.describe(id, at);
  if (at.address() - block.base.address() >= block.requested().count()) return {};
  return {block.base, block.requested(), block.tag.load(std::memory_order_relaxed)};
}

Use Runtime::note_uses(std::span<const BlockId> set, Stream* stream) noexcept {
  if (set.empty()) return {};
  const std::uint64_t now = StatsPage::instance().count(Metric::launches_total);
  const Use use = stream != nullptr ? stream->draw() : Use();
  const std::uint64_t none = use.raw() - use.ticket();  // what the stream's uses are counted from
  Block* const blocks = arena_->blocks();
  Bytes touched;
  for (const BlockId id : set) {
    Block& block = blocks[id];
    if (block.load().state() == BlockState::kFreed)
      continue;  // a stale word; the free has waited for all work
    block.last_use.store(now, std::memory_order_relaxed);
    if (!block.touched.load(std::memory_order_relaxed)) block.touched.store(true, std::memory_order_release);
    touched += block.span;
    // A block's first stream, as a rule its only one, finds its place at once: an older use of the same
    // stream.
    std::uint64_t first = block.uses[0].load(std::memory_order_acquire);
    const bool is_older = first - none < use.ticket();
    if (is_older && block.uses[0].compare_exchange_strong(first, use.raw(), std::memory_order_acq_rel))
      continue;
    note_other_use(block, use);
  }
  if (stream != nullptr) streams_.mark_sometimes(*stream, touched);
  return use;
}

Use Runtime::note_work(StreamHandle handle) noexcept {
  Stream* const stream = streams_.find(handle);
  if (stream == nullptr) return {};
  const Use use = stream->draw();
  streams_.mark_sometimes(*stream, Bytes());
  return use;
}

void Runtime::let_go(std::span<const Hold> holds, std::span<const Use> uses, bool is_used_widely) noexcept {
  for (const Hold& hold : holds) {
    Block& block = arena_->block(hold.id);
    // Another allocation is there by now; at worst it waits for what it need not.
    if (block.life.load(std::memory_order_acquire) != hold.life) continue;
    if (is_used_widely) note_other_use(block, Use());
    for (const Use use : uses) note_other_use(block, use);
    residency_.release(hold);
  }
  residency_.publish_kept();
}

// Keeps one ticket per stream, the newest; a stream whose ticket has passed gives up its place.
void Runtime::note_other_use(Block& block, Use use) noexcept {
  if (!use) {
    block.used_widely.store(true, std::memory_order_release);
    return;
  }
  for (int round = 0; round < 2; ++round) {
    for (auto& place : block.uses) {
      std::uint64_t seen = place.load(std::memory_order_acquire);
      for (;;) {
        const Use old = Use::from_raw(seen);
        const bool mine = old && old.stream() == use.stream();
        if (mine && old.ticket() >= use.ticket()) return;
        // First round: only a place of this stream or an empty one. Second: one whose work is done.
        const bool replaceable = mine || !old || (round == 1 && streams_.passed(old));
        if (!replaceable) break;
        if (place.compare_exchange_weak(seen, use.raw(), std::memory_order_acq_rel)) return;
      }
    }
  }
  block.used_widely.store(true, std::memory_order_release);
}

std::vector<BlockId> Runtime::live_blocks() const {
  std::vector<BlockId> live;
  arena_->for_each_allocated([&](BlockId id, const Block&) { live.push_back(id); });
  return live;
}

}  // namespace tidepool::runtime
