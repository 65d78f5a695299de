// What the tools need of it and the guest does not.

#include <sys/mman.h>

#include <cstdio>
#include <new>
#include <variant>

#include "planner/plan/iteration.h"

namespace tidepool::plan {
namespace {

constexpr std::uint32_t kLongest = 1 << 22;

// Pages that are not needed are not there: most periods are short.
void* map_memory() {
  void* const memory = mmap(nullptr, IterationDetector::memory_bytes(kLongest), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  return memory;
}

}  // namespace

IterationFinder::IterationFinder() : memory_(map_memory()), detector_(memory_, kLongest) {}

IterationFinder::~IterationFinder() {
  munmap(memory_, IterationDetector::memory_bytes(kLongest));
}

void IterationFinder::add(const AnyRecord& record) {
  std::visit(
      [&](const auto& typed) {
        if constexpr (requires { operation_of(typed); }) detector_.add(operation_of(typed));
      },
      record);
}

std::string describe(const IterationVerdict& verdict) {
  const auto counted = [](std::uint64_t n, const char* what) {
    return std::to_string(n) + " " + what + (n == 1 ? "" : "s");
  };
  const std::string of = " of " + counted(verdict.operations, "operation");
  switch (verdict.why_not) {
    case NoPeriod::kTooFew:
      return "no period: only " + counted(verdict.operations, "operation");
    case NoPeriod::kNoRepeat:
      return "no period: no sequence" + of + " came three times in a row";
    case NoPeriod::kGrows:
      return "no period: what repeats allocates more than it frees, or frees more";
    case NoPeriod::kTooRare:
      return "no period: what repeats is only " + std::to_string(verdict.explained) + of;
    case NoPeriod::kUniform:
      return "no period: " + std::to_string(verdict.explained) + of +
             " are one over and over, which does not show where an iteration begins";
    case NoPeriod::kNone:
      break;
  }
  char percent[16];
  std::snprintf(percent, sizeof percent, "%.1f", 100 * verdict.confidence());
  return "a period of " + std::to_string(verdict.period) + " operations, " +
         counted(verdict.iterations, "iteration") + " (" + std::to_string(verdict.exact) +
         " exact), which explain " + percent + " % of the operations since it began";
}

}  // namespace tidepool::plan
