// libraries: simgpu_fatbin
#include <vector>

#include "tests/fuzz/fuzzer.h"
#include "tools/simgpu/fatbin/entries.h"
#include "tools/simgpu/fatbin/image.h"

/// Images that a program hands to cuModuleLoadData, as bytes whose length is known.
namespace {

using namespace simgpu::fatbin;

/// Small enough for thousands of runs a second; what it cuts off differs in size alone.
constexpr std::uint64_t kLargest = 1 << 20;

void check(const ModuleFacts& facts) {
  for (const KernelFacts& kernel : facts.kernels) {
    std::uint64_t end = 0;
    fuzz_require(kernel.params_known || kernel.params.empty());
    for (const Param& param : kernel.params) {
      fuzz_require(param.offset >= end);
      end = std::uint64_t{param.offset} + param.size;
    }
    fuzz_require(end <= 0xffff && kernel.static_shared_bytes >= 0 && kernel.max_threads >= 0);
  }
  for (const Segment& segment : facts.segments) {
    fuzz_require(segment.size <= kLargestSegment && segment.initial.size() <= segment.size);
    fuzz_require(segment.align > 0 && (segment.align & (segment.align - 1)) == 0);
  }
  for (const VariableFacts& variable : facts.variables) {
    const Segment& segment = facts.segments.at(variable.segment);
    fuzz_require(variable.offset <= segment.size && variable.size <= segment.size - variable.offset);
  }
  for (const Relocation& relocation : facts.relocations) {
    const Segment& segment = facts.segments.at(relocation.segment);
    fuzz_require(relocation.offset <= segment.initial.size() &&
                 segment.initial.size() - relocation.offset >= 8);
    fuzz_require(relocation.target_segment < facts.segments.size());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Bytes image(data, size);
  std::vector<Entry> entries;
  static_cast<void>(list_entries(image, &entries));
  for (const Entry& entry : entries) {
    ModuleFacts facts;
    if (read_entry_facts(entry, &facts, kLargest) == Problem::kNone) check(facts);
  }
  ChosenImage chosen;
  if (ChosenImage::choose(image, {9, 0}, false, &chosen) == Problem::kNone) {
    fuzz_require(chosen.best().kind != Kind::kOther);
  }
  return 0;
}
