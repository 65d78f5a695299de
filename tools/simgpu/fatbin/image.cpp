#include "tools/simgpu/fatbin/image.h"

#include <cstring>
#include <utility>

#include "tools/simgpu/fatbin/cubin.h"
#include "tools/simgpu/fatbin/memory.h"
#include "tools/simgpu/fatbin/ptx.h"

namespace simgpu::fatbin {

Problem ChosenImage::choose(const void* image, Capability device, bool preserved, ChosenImage* out) {
  Bytes bytes;
  if (const Problem problem = find_extent(image, &bytes); problem != Problem::kNone) return problem;
  return choose(bytes, device, preserved, out);
}

Problem ChosenImage::choose(Bytes image, Capability device, bool preserved, ChosenImage* out) {
  std::vector<Entry> entries;
  if (const Problem problem = list_entries(image, &entries); problem != Problem::kNone) return problem;
  ChosenImage chosen;
  chosen.usable_ = usable_entries(entries, device);
  if (chosen.usable_.empty()) return Problem::kNothingFits;
  if (!preserved) {
    for (Entry& entry : chosen.usable_) {
      const std::size_t size = entry.stored.size();
      std::unique_ptr<std::byte[]> copy(new std::byte[size]);
      std::memcpy(copy.get(), entry.stored.data(), size);
      entry.stored = Bytes(copy.get(), size);
      chosen.copies_.push_back(std::move(copy));
    }
  }
  *out = std::move(chosen);
  return Problem::kNone;
}

Problem ChosenImage::read(ModuleFacts* out) const {
  Problem last = Problem::kNothingFits;
  for (const Entry& entry : usable_) {
    last = read_entry_facts(entry, out);
    if (last != Problem::kRelocatable) return last;
  }
  return last;
}

Problem read_entry_facts(const Entry& entry, ModuleFacts* out, std::uint64_t largest) {
  if (entry.kind == Kind::kOther) return Problem::kNothingFits;
  if (entry.kind == Kind::kPtx && entry.inflated_size > kLargestPtx) return Problem::kTooLarge;
  Inflated inflated;
  if (const Problem problem = inflate(entry, &inflated, largest); problem != Problem::kNone) return problem;
  const Problem problem =
      entry.kind == Kind::kCubin ? read_cubin(inflated.bytes, out) : read_ptx(inflated.bytes.as_text(), out);
  // The entry knows the suffix of its architecture; a cubin of nvcc 13 does not know all.
  if (problem == Problem::kNone) out->arch = entry.arch;
  return problem;
}

}  // namespace simgpu::fatbin
