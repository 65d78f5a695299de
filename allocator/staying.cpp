// The part of Runtime about blocks that stay on the device.

#include "allocator/runtime.h"
#include "allocator/support/message.h"

namespace tidepool::runtime {

Status Runtime::keep(DevicePtr at, WorkName what) noexcept {
  const BlockId id = arena_->find(at.address());
  if (id == kNoBlock) return kInvalidValue;
  return keep({&id, 1}, what);
}

Status Runtime::keep_new(BlockId id, Bytes size) noexcept {
  Block& block = arena_->block(id);
  const Bytes span = block.span;
  residency_.uncount(block);
  Residency::Promise room(residency_, span);
  const bool has_room = residency_.freezing() || room.holds();
  const Status status =
      has_room ? residency_.keep({&id, 1}, "allocation", &room) : residency_.refuse_to_keep(size);
  if (status.ok()) return kOk;
  (void)residency_.free(id, Use());
  unreserve(span);
  return status;
}

// An address that something names belongs to a program that may go on using the name: what comes there stays.
// Where that does not fit, another address serves as well.
bool Runtime::may_serve(BlockId id) noexcept {
  const Block& block = arena_->block(id);
  return !named_.is_named(block) || residency_.may_keep(block.span);
}

Status Runtime::hold_new(BlockId id, Bytes size) noexcept {
  Block& block = arena_->block(id);
  if (!named_.is_named(block)) return kOk;
  const Bytes span = block.span;
  residency_.uncount(block);
  Residency::Promise room(residency_, span);
  const Status status = room.holds() ? named_.hold({&id, 1}, "allocation") : residency_.refuse_to_keep(size);
  if (status.ok()) return kOk;
  (void)residency_.free(id, block.left_use());
  unreserve(span);
  return status;
}

// Before it is freed: another thread may be given the memory then, and copy other words there.
void Runtime::forget_words(DevicePtr at) noexcept {
  const Allocation whole = describe(at);
  if (whole.base == at) tables_.erase(at.address(), whole.size.count());
}

Status Runtime::freeze(WorkName what) noexcept {
  if (frozen()) return kOk;
  // Before the look: a block that is not in the table yet is kept by who allocates it.
  residency_.begin_freeze();
  const Status status = keep_all(what);
  residency_.end_freeze(status.ok());
  return status;
}

Status Runtime::keep_all(WorkName what) noexcept {
  std::vector<BlockId> live;
  Bytes total;
  arena_->for_each_allocated([&](BlockId id, const Block& block) {
    live.push_back(id);
    total += block.span;
  });
  if (!residency_.fits(total)) {
    report_on<Msg::TP2102>(device_.number(), BytesText(total).c_str(), WorkName::Text(what).c_str(),
                           BytesText(pool_.limit()).c_str());
    return Residency::count_refusal();
  }
  return residency_.keep(live, what);
}

}  // namespace tidepool::runtime
