// Reads operations from stdin, one a line: "launch KERNEL SIZE", "alloc BYTES", "free BYTES", "copy KIND
// BYTES". Prints what the detector, with the memory that it has in a guest, says of them.

#include <cstdint>
#include <iostream>
#include <string>
#include <vector>

#include "planner/plan/iteration.h"

int main() {
  using namespace tidepool::plan;
  std::vector<std::uint64_t> memory(IterationDetector::memory_bytes(IterationDetector::kGuestLongest) / 8);
  IterationDetector detector(memory.data(), IterationDetector::kGuestLongest);
  std::string kind;
  std::uint64_t a = 0;
  std::uint64_t b = 0;
  while (std::cin >> kind >> a) {
    if (kind == "launch" && std::cin >> b) {
      LaunchRecord launch;
      launch.kernel = static_cast<std::uint32_t>(a);
      launch.grid.blocks[0] = static_cast<std::uint32_t>(b);
      detector.add(operation_of(launch));
    } else if (kind == "alloc") {
      AllocationRecord allocation;
      allocation.bytes = a;
      detector.add(operation_of(allocation));
    } else if (kind == "free") {
      FreeRecord release;
      release.bytes = a;
      detector.add(operation_of(release));
    } else if (kind == "copy" && std::cin >> b) {
      CopyRecord copy;
      copy.kind = static_cast<CopyKind>(a);
      copy.bytes = b;
      detector.add(operation_of(copy));
    } else {
      std::cerr << "judge_operations: unknown line '" << kind << "'\n";
      return 2;
    }
  }
  const IterationVerdict verdict = detector.verdict();
  std::cout << "period=" << verdict.period << " iterations=" << verdict.iterations
            << " exact=" << verdict.exact << " confidence=" << verdict.confidence()
            << " first=" << verdict.first << " reason=" << static_cast<int>(verdict.why_not) << '\n'
            << describe(verdict) << '\n';
  return 0;
}
