// Streams that await values which other streams write later. What is enqueued first then ends last.

#include "tests/sim/storm/generator.h"

namespace storm {

unsigned Generator::loose_stream(unsigned other) {
  const auto fits = [&](unsigned stream) {
    if (stream == kNone || stream == other || program_.streams[stream].device != device_) return false;
    const StreamKind kind = program_.streams[stream].kind;
    return kind == StreamKind::kNonBlocking || kind == StreamKind::kUrgent;
  };
  std::vector<unsigned> found;
  if (chance(70)) {
    for (unsigned i = 0; i < streams_.size(); ++i) {
      const bool mine = i / options_.devices / options_.streams == thread_;
      if ((mine || has(Feature::k_share)) && fits(streams_[i])) found.push_back(streams_[i]);
    }
  }
  if (found.empty()) {
    for (const unsigned stream : loose_) {
      if (fits(stream)) found.push_back(stream);
    }
  }
  if (!found.empty()) return found[draw(static_cast<unsigned>(found.size()))];
  loose_.push_back(add_stream({chance(75) ? StreamKind::kNonBlocking : StreamKind::kUrgent, device_, 0}));
  emit(operation(Kind::kStreamCreate, loose_.back()));
  return loose_.back();
}

void Generator::work_of_section(unsigned stream, bool waits, Awaiting& awaiting) {
  Kind kind = std::array{Kind::kFill, Kind::kMap,    Kind::kUpdate, Kind::kUpdate,
                         Kind::kSum,  Kind::kGather, Kind::kMemset, Kind::kCopy}[draw(8)];
  if (kind == Kind::kGather && !has(Feature::k_nested)) kind = Kind::kMap;
  if (kind == Kind::kMemset && !has(Feature::k_memset)) kind = Kind::kFill;
  if (kind == Kind::kCopy && !has(Feature::k_copy)) kind = Kind::kMap;
  std::size_t room = options_.set_bytes - (waits ? awaiting.bytes : 0);
  const auto size = [&](const Slot& slot) {
    const bool counts =
        waits && (awaiting.read.count(slot.buffer) + awaiting.written.count(slot.buffer)) != 0;
    return on_host(buffer(slot)) || counts ? 0 : granules(buffer(slot).bytes);
  };
  const auto may_use = [&](const Slot& slot, bool writes) {
    const bool awaited =
        awaiting.written.count(slot.buffer) != 0 || (writes && awaiting.read.count(slot.buffer) != 0);
    return (waits || !awaited) && size(slot) <= room;
  };
  const auto find_for = [&](bool writes, bool defined, const Slot* but) {
    return find([&](const Slot& slot) {
      return slot.buffer != kNone && &slot != but && (slot.defined || !defined) &&
             buffer(slot).device == device_ && may_use(slot, writes);
    });
  };
  const auto use = [&](const Slot& slot, bool writes) {
    const std::size_t bytes = size(slot);
    room -= bytes;
    if (!waits) return;
    awaiting.bytes += bytes;
    (writes ? awaiting.written : awaiting.read).insert(slot.buffer);
  };

  const unsigned way = kind == Kind::kCopy ? draw(3) : 2;  // to the host, from it, inside the device
  Slot& host = host_[draw(kHostSlots)];
  // A copy of pageable memory may make the host wait for the stream.
  const bool may_use_host =
      buffer(host).home == Home::kPinned && may_use(host, way == 0) && (way == 0 || host.defined);
  if (way < 2 && !may_use_host) return;
  const bool keeps_old = kind == Kind::kUpdate || kind == Kind::kSum || kind == Kind::kCopy;
  Slot* const to = way == 0 ? &host : find_for(true, keeps_old, nullptr);
  if (to == nullptr) return;
  use(*to, true);
  Operation made = operation(kind, stream);
  made.salt = static_cast<std::uint32_t>(random_()) | 1;
  made.grid = 1 + draw(8);
  made.wide = kind == Kind::kMemset && chance(40);
  made.to = to->defined || way == 0 ? part(*to, 4) : whole(*to);
  unsigned sources = kind == Kind::kMap || kind == Kind::kSum || kind == Kind::kCopy ? 1 : 0;
  if (kind == Kind::kGather) sources = 1 + draw(kMostSources);
  for (unsigned i = 0; i < sources; ++i) {
    const Slot* from = way == 1 ? &host : find_for(false, true, to);
    if (from == nullptr) break;
    use(*from, false);
    made.from.push_back(part(*from, 4));
  }
  if (sources != 0 && made.from.empty()) return;
  if (kind == Kind::kSum) made.to.bytes = 4;
  if (kind == Kind::kCopy) made.to.bytes = made.from[0].bytes = std::min(made.to.bytes, made.from[0].bytes);
  if (way != 0) define(*to);
  emit(std::move(made));
}

void Generator::free_in_section(unsigned stream, bool waits, Awaiting& awaiting) {
  Slot* const slot = find([&](const Slot& one) {
    if (one.buffer == kNone || buffer(one).device != device_ || buffer(one).home == Home::kMalloc)
      return false;
    if (one.graph != kNone || is_of_table(one)) return false;
    const bool used = awaiting.read.count(one.buffer) + awaiting.written.count(one.buffer) != 0;
    const bool fits = used || awaiting.bytes + granules(buffer(one).bytes) <= options_.set_bytes;
    return waits ? fits : !used;
  });
  if (slot == nullptr) return;
  if (waits) {
    if (awaiting.read.count(slot->buffer) + awaiting.written.count(slot->buffer) == 0)
      awaiting.bytes += granules(buffer(*slot).bytes);
    awaiting.written.insert(slot->buffer);
  }
  Operation made = operation(Kind::kFree, stream);
  made.to = whole(*slot);
  emit(std::move(made));
  live_ -= weight(buffer(*slot).bytes);
  *slot = Slot{};
}

void Generator::await_value() {
  // Streams first: a program waits for nothing where it makes one, but a driver might.
  const unsigned awaits = loose_stream(kNone);
  const unsigned writes = loose_stream(awaits);
  section_ = static_cast<unsigned>(program_.sections.size());
  Section section;
  section.first = static_cast<unsigned>(program_.operations.size());
  section.device = device_;
  section.on_device = chance(30);
  Operation await = operation(Kind::kAwaitValue, awaits);
  await.salt = static_cast<std::uint32_t>(random_()) | 1;
  await.wide = chance(25);
  Operation write = operation(Kind::kWriteValue, writes);
  write.salt = await.salt;
  write.wide = chance(25);
  emit(std::move(await));
  Awaiting awaiting;
  for (unsigned i = 0, count = 1 + draw(3); i < count; ++i) work_of_section(awaits, true, awaiting);
  if (chance(40)) free_in_section(awaits, true, awaiting);
  for (unsigned i = 0, count = 2 + draw(12); i < count; ++i) {
    Slot& slot = any_slot();
    if (slot.buffer == kNone) {
      allocate(slot, writes);
    } else if (chance(15)) {
      free_in_section(writes, false, awaiting);
    } else {
      work_of_section(writes, false, awaiting);
    }
  }
  section.last = static_cast<unsigned>(program_.operations.size());
  emit(std::move(write));
  program_.sections.push_back(section);
  section_ = kNone;
}

}  // namespace storm
