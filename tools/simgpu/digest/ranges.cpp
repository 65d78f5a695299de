#include "tools/simgpu/digest/ranges.h"

#include <algorithm>
#include <unordered_map>

namespace simgpu::digest {
namespace {

struct Pointer {
  std::uint32_t extent;
  std::uint64_t address;
  std::uint64_t bytes;
  Access access;
  bool table;
};

/// One entry for each address: roles add up, and the one that reaches furthest decides.
std::vector<Pointer> merged(std::vector<Pointer> pointers) {
  std::stable_sort(pointers.begin(), pointers.end(), [](const Pointer& a, const Pointer& b) {
    return a.extent != b.extent ? a.extent < b.extent : a.address < b.address;
  });
  std::vector<Pointer> out;
  for (const Pointer& p : pointers) {
    if (out.empty() || out.back().extent != p.extent || out.back().address != p.address) {
      out.push_back(p);
      continue;
    }
    Pointer& same = out.back();
    same.bytes = same.bytes == 0 || p.bytes == 0 ? 0 : std::max(same.bytes, p.bytes);
    same.access = same.access | p.access;
    same.table = same.table && p.table;
  }
  return out;
}

}  // namespace

Ranges find_ranges(const References& references, const Memory& memory) {
  Ranges out;
  std::unordered_map<std::uint64_t, std::uint32_t> known;
  std::vector<Pointer> pointers;
  for (const Reference& r : references.list) {
    const Extent extent = memory.find(r.address).value();
    const auto [it, added] = known.emplace(extent.base, static_cast<std::uint32_t>(out.extents.size()));
    if (added) out.extents.push_back(extent);
    out.extent_of.push_back(it->second);
    pointers.push_back({it->second, r.address, r.bytes, r.access, r.table});
  }
  pointers = merged(std::move(pointers));
  for (std::size_t i = 0; i < pointers.size(); ++i) {
    const Pointer& p = pointers[i];
    std::uint64_t end = out.extents[p.extent].end();
    if (i + 1 < pointers.size() && pointers[i + 1].extent == p.extent) end = pointers[i + 1].address;
    const bool exact = p.bytes != 0 && p.bytes <= end - p.address;
    if (exact) end = p.address + p.bytes;
    out.list.push_back({{p.address, end}, p.access, p.extent, exact, p.table});
  }
  return out;
}

}  // namespace simgpu::digest
