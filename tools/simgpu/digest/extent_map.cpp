#include "tools/simgpu/digest/extent_map.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

namespace simgpu::digest {
namespace {

constexpr std::uint64_t kWord = 8;

std::uint64_t word_at(std::uint64_t address) {
  std::uint64_t word = 0;
  std::memcpy(&word, reinterpret_cast<const void*>(address), sizeof word);
  return word;
}

/// Where a word may start that holds the byte at this address.
std::uint64_t word_before(std::uint64_t address) {
  return address < kWord ? 0 : address - kWord + 1;
}

std::uint64_t next_word(std::uint64_t address) {
  return (address + kWord - 1) / kWord * kWord;
}

}  // namespace

void ExtentMap::add(std::uint64_t base, std::uint64_t bytes, std::uint32_t unit, Stamp now) {
  if (bytes == 0) return;
  auto it = live_.upper_bound(base);
  if (it != live_.begin() && std::prev(it)->second.covers(base)) --it;
  while (it != live_.end() && it->first < base + bytes) {
    const std::uint64_t old = it->first;
    ++it;
    remove(old, now);
  }
  Entry e;
  e.id = ++last_id_;
  e.base = base;
  e.bytes = bytes;
  e.unit = unit;
  e.born = now;
  live_.emplace(base, std::move(e));
}

void ExtentMap::remove(std::uint64_t base, Stamp now) {
  const auto it = live_.find(base);
  if (it == live_.end()) return;
  it->second.died = now;
  pointers_known_ -= it->second.pointers.size();
  dead_.push_back(std::move(it->second));
  live_.erase(it);
}

void ExtentMap::remove_all(const Span& span, Stamp now) {
  for (auto it = live_.lower_bound(span.begin); it != live_.end() && it->first < span.end;) {
    const std::uint64_t base = it->first;
    ++it;
    remove(base, now);
  }
}

void ExtentMap::forget(Stamp oldest) {
  dead_.erase(std::remove_if(dead_.begin(), dead_.end(), [&](const Entry& e) { return e.died <= oldest; }),
              dead_.end());
}

const ExtentMap::Entry* ExtentMap::entry(std::uint64_t address, Stamp call) const {
  const auto it = live_.upper_bound(address);
  if (it != live_.begin()) {
    const Entry& e = std::prev(it)->second;
    if (e.covers(address) && e.born <= call) return &e;
  }
  for (const Entry& e : dead_) {
    if (e.covers(address) && e.born <= call && call < e.died) return &e;
  }
  return nullptr;
}

std::optional<Extent> ExtentMap::find(std::uint64_t address, Stamp call) const {
  const Entry* e = entry(address, call);
  if (e == nullptr) return std::nullopt;
  if (e->unit == 0) return Extent{e->base, e->bytes};
  const std::uint64_t base = std::max(address / e->unit * e->unit, e->base);
  return Extent{base, std::min(address / e->unit * e->unit + e->unit, e->base + e->bytes) - base};
}

void ExtentMap::written_parts(const Span& span, Stamp call, std::vector<Span>* parts) const {
  const Entry* e = entry(span.begin, call);
  if (e != nullptr) e->written.parts(span, parts);
}

void ExtentMap::pointer_words(const Span& span, Stamp call, std::vector<PointerWord>* words) const {
  const Entry* e = entry(span.begin, call);
  if (e == nullptr || e->pointers.empty()) return;
  const auto end = e->pointers.lower_bound(span.end);
  for (auto it = e->pointers.lower_bound(word_before(span.begin)); it != end; ++it) {
    const Target& target = it->second;
    const Entry* now = entry(target.value, call);
    words->push_back({it->first, target.value, now != nullptr && now->id == target.entry});
  }
}

ExtentMap::Target ExtentMap::target_of(std::uint64_t value, Stamp call) const {
  const Entry* e = entry(value, call);
  return {value, e == nullptr ? 0 : e->id};
}

template <class F>
void ExtentMap::each_part(const Span& span, Stamp call, F&& f) {
  for (std::uint64_t at = span.begin; at < span.end;) {
    Entry* e = entry(at, call);
    if (e == nullptr) {
      const auto next = live_.upper_bound(at);
      if (next == live_.end() || next->first >= span.end) return;
      at = next->first;
      if (next->second.born > call) at += next->second.bytes;
      continue;
    }
    const Span part{at, std::min(span.end, e->base + e->bytes)};
    f(e, part);
    at = part.end;
  }
}

void ExtentMap::drop_pointers(Entry* e, const Span& span) {
  const auto from = e->pointers.lower_bound(word_before(span.begin));
  const auto to = e->pointers.lower_bound(span.end);
  for (auto it = from; it != to; ++it) {
    // A part of a pointer is neither a pointer nor a number that is the same in two runs.
    e->written.remove({it->first, std::max(it->first, span.begin)});
    if (it->first + kWord > span.end) e->written.remove({span.end, it->first + kWord});
    if (e->died == kNever) --pointers_known_;
  }
  e->pointers.erase(from, to);
}

void ExtentMap::add_pointer(Entry* e, std::uint64_t address, const Target& target) {
  if (e->pointers.insert_or_assign(address, target).second && e->died == kNever) ++pointers_known_;
}

void ExtentMap::wrote(const Span& span, Stamp call) {
  each_part(span, call, [&](Entry* e, const Span& part) {
    e->written.add(part);
    drop_pointers(e, part);
  });
}

void ExtentMap::wrote_pointers(std::uint64_t address, std::uint64_t words, Stamp call) {
  const Span span{address, address + words * kWord};
  wrote(span, call);
  each_part(span, call, [&](Entry* e, const Span& part) {
    for (std::uint64_t at = next_word(part.begin); at + kWord <= part.end; at += kWord) {
      add_pointer(e, at, target_of(word_at(at), call));
    }
  });
}

void ExtentMap::wrote_payload(const Span& to, Stamp call) {
  wrote(to, call);
  each_part(to, call, [&](Entry* e, const Span& part) {
    for (std::uint64_t at = next_word(part.begin); at + kWord <= part.end; at += kWord) {
      const Target target = target_of(word_at(at), call);
      if (target.entry != 0) add_pointer(e, at, target);
    }
  });
}

void ExtentMap::copied(std::uint64_t to, const Span& from, Stamp call) {
  std::vector<Span> parts;
  std::vector<std::pair<std::uint64_t, Target>> pointers;
  each_part(from, call, [&](Entry* e, const Span& part) {
    e->written.parts(part, &parts);
    pointers.insert(pointers.end(), e->pointers.lower_bound(word_before(part.begin)),
                    e->pointers.lower_bound(part.end));
  });
  const Span all{to, to + from.bytes()};
  each_part(all, call, [&](Entry* e, const Span& part) {
    drop_pointers(e, part);
    e->written.remove(part);
  });
  for (const Span& part : parts) {
    const std::uint64_t begin = part.begin - from.begin + to;
    each_part({begin, begin + part.bytes()}, call, [](Entry* e, const Span& p) { e->written.add(p); });
  }
  for (const auto& [word, meant] : pointers) {
    const std::uint64_t address = word - from.begin + to;
    Entry* e = entry(std::max(address, to), call);
    if (e == nullptr) continue;
    if (address % kWord == 0 && word >= from.begin && word + kWord <= from.end) {
      add_pointer(e, address, meant);
    } else {
      e->written.remove({std::max(address, to), std::min(address + kWord, all.end)});
    }
  }
}

}  // namespace simgpu::digest
