#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <vector>

#include "tools/simgpu/digest/access.h"

namespace simgpu::digest {

/// A set of addresses, kept as spans that neither touch nor overlap.
class SpanSet {
 public:
  void add(Span span) {
    if (span.empty()) return;
    auto it = spans_.upper_bound(span.begin);
    if (it != spans_.begin() && std::prev(it)->second >= span.begin) --it;
    while (it != spans_.end() && it->first <= span.end) {
      span.begin = std::min(span.begin, it->first);
      span.end = std::max(span.end, it->second);
      it = spans_.erase(it);
    }
    spans_.emplace(span.begin, span.end);
  }

  void remove(const Span& span) {
    if (span.empty()) return;
    auto it = spans_.upper_bound(span.begin);
    if (it != spans_.begin() && std::prev(it)->second > span.begin) --it;
    while (it != spans_.end() && it->first < span.end) {
      const Span old{it->first, it->second};
      it = spans_.erase(it);
      if (old.begin < span.begin) spans_.emplace(old.begin, span.begin);
      if (old.end > span.end) spans_.emplace(span.end, old.end);
    }
  }

  /// Appends the parts of the set that lie in the span.
  void parts(const Span& span, std::vector<Span>* out) const {
    auto it = spans_.upper_bound(span.begin);
    if (it != spans_.begin() && std::prev(it)->second > span.begin) --it;
    for (; it != spans_.end() && it->first < span.end; ++it) {
      out->push_back({std::max(it->first, span.begin), std::min(it->second, span.end)});
    }
  }

 private:
  std::map<std::uint64_t, std::uint64_t> spans_;  ///< end by begin
};

}  // namespace simgpu::digest
