// Tables of addresses in the program's own memory. Kernels go on with a table as long as what it names is
// where it was, also when that, or the table's memory, was freed meanwhile and allocated again.

#include "tests/sim/storm/generator.h"

namespace storm {
namespace {

/// What a table names may have to stay on the device: few of them, so that not all does.
constexpr int kMostTables = 2;

}  // namespace

bool Generator::names(const Slot& holder, const Slot& named) const {
  if (holder.table == kNone || named.buffer == kNone) return false;
  const std::vector<Region>& from = program_.operations[holder.table].from;
  return std::any_of(from.begin(), from.end(), [&](const Region& r) { return r.buffer == named.buffer; });
}

bool Generator::is_of_table(const Slot& slot) const {
  return slot.table != kNone ||
         std::any_of(slots_.begin(), slots_.end(), [&](const Slot& holder) { return names(holder, slot); });
}

void Generator::table() {
  const auto tables =
      std::count_if(slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.table != kNone; });
  const Slot* holder =
      find([&](const Slot& slot) { return slot.table != kNone && buffer(slot).device == device_; });
  if (holder != nullptr && (tables >= kMostTables || chance(75))) return follow(*holder);
  if (tables >= kMostTables) return;
  Slot* to = find([&](const Slot& slot) {
    return slot.buffer != kNone && buffer(slot).device == device_ && buffer(slot).bytes >= kTableBytes &&
           slot.graph == kNone && !is_of_table(slot);
  });
  if (to == nullptr) return;
  Operation made = operation(Kind::kTable, stream(device_));
  std::size_t together = granules(buffer(*to).bytes);
  for (unsigned i = 0, count = 1 + draw(kMostSources); i < count; ++i) {
    const Slot* from = find_defined(device_, to);
    if (from == nullptr || together + granules(buffer(*from).bytes) > options_.set_bytes) break;
    together += granules(buffer(*from).bytes);
    made.from.push_back(part(*from, 4));
  }
  if (made.from.empty()) return;
  const std::size_t places = (buffer(*to).bytes - kTableBytes) / 8 + 1;
  made.to = {to->buffer, random_() % places * 8, kTableBytes};
  to->defined = false;
  to->table = static_cast<unsigned>(program_.operations.size());
  emit(std::move(made));
}

void Generator::follow(const Slot& holder) {
  const unsigned device = buffer(holder).device;
  Slot* to = find([&](const Slot& slot) {
    return slot.buffer != kNone && buffer(slot).device == device && !is_of_table(slot);
  });
  if (to == nullptr) return;
  std::size_t together = granules(buffer(*to).bytes) + granules(buffer(holder).bytes);
  for (const Region& from : program_.operations[holder.table].from)
    together += granules(program_.buffers[from.buffer].bytes);
  if (together > options_.set_bytes + options_.largest_bytes) return;
  Operation made = operation(Kind::kGather, stream(device));
  made.from = program_.operations[holder.table].from;  // where a stream is created, operations move
  made.through = program_.operations[holder.table].to;
  made.by_table = true;
  made.salt = static_cast<std::uint32_t>(random_()) | 1;
  made.grid = 1 + draw(8);
  made.to = to->defined ? part(*to, 4) : whole(*to);
  define(*to);
  emit(std::move(made));
}

void Generator::write_tables_again(const Slot& slot) {
  for (const Slot& holder : slots_) {
    if (holder.table == kNone || (&holder != &slot && !names(holder, slot))) continue;
    Operation made = operation(Kind::kTable, stream(buffer(holder).device));
    made.to = program_.operations[holder.table].to;
    made.from = program_.operations[holder.table].from;
    made.again = &holder != &slot;
    emit(std::move(made));
    if (chance(60)) follow(holder);
  }
}

void Generator::drop_tables_of(const Slot& slot) {
  for (Slot& holder : slots_) {
    if (names(holder, slot)) holder.table = kNone;
  }
}

}  // namespace storm
