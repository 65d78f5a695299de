// What the random program does with its memory.

#include "tests/sim/storm/generator.h"

namespace storm {

void Generator::memset(Slot& slot) {
  const bool wide = chance(40);
  const bool asynchronous = !has(Feature::k_pageable) || !chance(15);
  const unsigned device = buffer(slot).device;
  Operation made = operation(Kind::kMemset, asynchronous ? stream(device) : default_stream(device));
  made.asynchronous = asynchronous;
  made.wide = wide && asynchronous;
  made.to = slot.defined ? part(slot, wide ? 4 : 1) : whole(slot);
  made.salt = static_cast<std::uint32_t>(random_());
  define(slot);
  emit(std::move(made));
}

void Generator::launch() {
  constexpr Kind kKinds[] = {Kind::kFill,   Kind::kMap,    Kind::kMap, Kind::kUpdate,
                             Kind::kUpdate, Kind::kGather, Kind::kSum};
  const Kind kind = kKinds[draw(7)];
  const unsigned stride = std::array{1u, 1u, 3u, 16u, 64u}[draw(5)];
  if (has(Feature::k_retable) && chance(20)) return table();
  if (kind == Kind::kGather && !has(Feature::k_nested)) return;
  Slot* to = kind == Kind::kMap || kind == Kind::kGather || kind == Kind::kFill ? find_any(device_)
                                                                                : find_defined(device_);
  if (to == nullptr) return;
  Operation made = operation(kind, stream(device_));
  made.salt = static_cast<std::uint32_t>(random_()) | 1;
  made.grid = 1 + draw(8);
  made.to = to->defined ? part(*to, 4) : whole(*to);
  made.stride = to->defined ? stride : 1;
  if (kind == Kind::kSum) made.to.bytes = 4;
  if (kind == Kind::kMap || kind == Kind::kSum || kind == Kind::kGather) {
    std::size_t together = granules(buffer(*to).bytes);
    const unsigned count = kind == Kind::kGather ? 1 + draw(kMostSources) : 1;
    for (unsigned i = 0; i < count; ++i) {
      const Slot* from = find_defined(device_, to);
      if (from == nullptr || together + granules(buffer(*from).bytes) > options_.set_bytes) break;
      together += granules(buffer(*from).bytes);
      made.from.push_back(part(*from, 4));
    }
    if (made.from.empty()) return;
  }
  // What a table names stays: few of them, so that not all does.
  made.by_table = kind == Kind::kGather && has(Feature::k_table) && chance(20);
  define(*to);
  emit(std::move(made));
}

void Generator::copy() {
  const unsigned way = draw(5);  // 0, 1: to the device; 2: from it; 3, 4: inside, or between devices
  Slot& host = host_[draw(kHostSlots)];
  const bool pageable = buffer(host).home == Home::kPageable;
  if (way <= 2 && pageable && !has(Feature::k_pageable)) return;
  const bool asynchronous = !has(Feature::k_pageable) || !chance(20);
  const bool between = has(Feature::k_peer) && options_.devices > 1 && chance(40);
  const unsigned unit = chance(50) ? 4 : 1;
  Slot* a = way <= 1 ? find_any(device_) : find_defined(device_);
  if (a == nullptr) return;
  Region there = a->defined ? part(*a, unit) : whole(*a);
  Operation made = operation(Kind::kCopy);
  made.asynchronous = asynchronous;
  if (way <= 2) {
    const Region here{host.buffer, random_() % (buffer(host).bytes - there.bytes + 1), there.bytes};
    if (way <= 1 && !host.defined) return;
    made.to = way <= 1 ? there : here;
    made.from = {way <= 1 ? here : there};
    if (way <= 1) define(*a);
  } else {
    const unsigned other = between ? (device_ + 1) % options_.devices : device_;
    Slot* b = find([&](const Slot& slot) {
      return &slot != a && slot.buffer != kNone && slot.defined && buffer(slot).device == other;
    });
    if (b == nullptr || granules(buffer(*a).bytes) + granules(buffer(*b).bytes) > options_.set_bytes) return;
    Region to = part(*b, unit);
    there.bytes = to.bytes = std::min(there.bytes, to.bytes);
    made.to = to;
    made.from = {there};
  }
  made.stream = asynchronous ? stream(device_) : default_stream(device_);
  emit(std::move(made));
}

void Generator::copy_rows() {
  const unsigned way = draw(3);  // to the device, from it, inside
  Slot& host = host_[draw(kHostSlots)];
  if (way != 2 && buffer(host).home == Home::kPageable && !has(Feature::k_pageable)) return;
  Slot* a = find_defined(device_);
  Slot* b = way == 2 ? find_defined(device_, a) : &host;
  if (a == nullptr || b == nullptr || (way == 0 && !host.defined)) return;
  Region to = whole(way == 1 ? *b : *a);
  Region from = whole(way == 1 ? *a : *b);
  if (way == 2 && granules(to.bytes) + granules(from.bytes) > options_.set_bytes) return;
  Operation made = operation(Kind::kCopyRows, stream(device_));
  made.row_bytes = 1 + random_() % std::min<std::size_t>({to.bytes, from.bytes, 65536});
  made.to_pitch = made.row_bytes + draw(3) * draw(4096);
  made.from_pitch = made.row_bytes + draw(3) * draw(4096);
  const auto fits = [&](std::size_t bytes, std::size_t pitch) {
    return (bytes - made.row_bytes) / pitch + 1;
  };
  made.rows = std::min({fits(to.bytes, made.to_pitch), fits(from.bytes, made.from_pitch), std::size_t{200}});
  made.to = to;
  made.from = {from};
  emit(std::move(made));
}

void Generator::fill_host() {
  Slot& host = host_[draw(kHostSlots)];
  const bool function = has(Feature::k_callback) && chance(50);
  Operation made =
      operation(function ? Kind::kHostFunction : Kind::kHostFill, function ? stream(device_) : kNone);
  made.to = host.defined ? part(host, 4) : whole(host);
  made.salt = static_cast<std::uint32_t>(random_()) | 1;
  made.stride = host.defined ? 16 : 1;
  host.defined = true;
  emit(std::move(made));
}

void Generator::check(const Region& region, unsigned device) {
  const bool asynchronous = !has(Feature::k_pageable) || !chance(20);
  Operation made = operation(Kind::kCheck, asynchronous ? stream(device) : default_stream(device));
  made.asynchronous = asynchronous;
  made.from = {region};
  emit(std::move(made));
}

void Generator::graph() {
  if (!graphs_.empty() && chance(75)) {
    const unsigned graph = graphs_[draw(static_cast<unsigned>(graphs_.size()))];
    const unsigned device =
        program_.streams[program_.operations[program_.captures[graph]].nodes.front().stream].device;
    Operation made = operation(Kind::kGraphLaunch, stream(device));
    made.graph = graph;
    return emit(std::move(made));
  }
  Operation made = operation(Kind::kCapture);
  std::size_t together = 0;
  std::vector<Slot*> used;
  for (unsigned i = 0, count = 1 + draw(5); i < count; ++i) {
    Slot* to = find_defined(device_);
    Slot* from = find_defined(device_, to);
    const unsigned kind = draw(4);
    if (to == nullptr || from == nullptr || to->graph != kNone || from->graph != kNone) continue;
    together += granules(buffer(*to).bytes) + granules(buffer(*from).bytes);
    if (together > options_.set_bytes) break;
    Operation node =
        operation(std::array{Kind::kMap, Kind::kUpdate, Kind::kMemset, Kind::kCopy}[kind], legacy_[device_]);
    node.salt = static_cast<std::uint32_t>(random_()) | 1;
    node.grid = 1 + draw(4);
    node.to = part(*to, 4);
    if (kind == 0 || kind == 3) node.from = {part(*from, 4)};
    if (kind == 3) node.to.bytes = node.from[0].bytes = std::min(node.to.bytes, node.from[0].bytes);
    made.nodes.push_back(std::move(node));
    used.push_back(to);
    used.push_back(from);
  }
  if (made.nodes.empty()) return;
  made.graph = static_cast<unsigned>(program_.captures.size());
  for (Slot* slot : used) slot->graph = made.graph;
  graphs_.push_back(made.graph);
  program_.captures.push_back(static_cast<unsigned>(program_.operations.size()));
  emit(std::move(made));
}

void Generator::drop_graph(unsigned graph) {
  Operation made = operation(Kind::kGraphDestroy);
  made.graph = graph;
  emit(std::move(made));
  graphs_.erase(std::find(graphs_.begin(), graphs_.end(), graph));
  for (Slot& slot : slots_) {
    if (slot.graph == graph) slot.graph = kNone;
  }
}

}  // namespace storm
