// libraries: tp_support
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "allocator/support/fault_plan.h"
#include "tests/fuzz/fuzzer.h"

/// Fault plans. What is refused says where; what is taken keeps to docs/reference/fault-plans.md, survives
/// being written and read, and hits calls and copies no further than they go.
namespace {

using tidepool::Bytes;
using tidepool::CopyDirection;
using tidepool::CopyFault;
using tidepool::FaultKind;
using tidepool::FaultPlan;
using tidepool::FaultPoint;
using tidepool::FaultRule;
using tidepool::FaultWords;
using tidepool::parse_fault_rules;

constexpr FaultWords::Code kCodes[] = {{"CUDA_SUCCESS", 0}, {"CUDA_ERROR_OUT_OF_MEMORY", 2}};
constexpr std::string_view kFunctions[] = {"cuMemMap", "cuMemCreate", "cuMemcpyHtoDAsync_v2"};
constexpr FaultWords kWords = {kCodes, kFunctions};
constexpr std::string_view kDirections[] = {"h2d", "d2h", "d2d", "any"};
constexpr std::string_view kPieces[] = {"drop", "corrupt", "stale"};

void check_error(std::string_view text) {
  fuzz_require(text.find('\n') == std::string_view::npos);
  const bool has_line = text.starts_with("line ") && text.size() > 5 && text[5] >= '1' && text[5] <= '9';
  fuzz_require(has_line || text == "is no fault plan: larger than 64 KiB");
}

std::string written(const FaultPoint& point) {
  if (point.call == 0) return "ns:" + std::to_string(point.at_ns);
  return (point.function.empty() ? "call" : point.function) + ":" + std::to_string(point.call);
}

std::string counts(const FaultRule& rule) {
  const std::string count = rule.count == FaultRule::kAll ? "all" : std::to_string(rule.count);
  return " after=" + std::to_string(rule.after) + " every=" + std::to_string(rule.every) + " count=" + count;
}

std::string written(const FaultRule& rule) {
  const std::string direction(kDirections[static_cast<std::size_t>(rule.direction)]);
  switch (rule.kind) {
    case FaultKind::kCall:
      return rule.function + counts(rule) + " size>=" + std::to_string(rule.min_size.count()) +
             " return=" + std::to_string(rule.code);
    case FaultKind::kCopy:
      return "copy " + direction + " " + std::string(kPieces[static_cast<std::size_t>(rule.copy)]) +
             counts(rule) + " offset=" + std::to_string(rule.offset.count()) +
             " bytes=" + std::to_string(rule.bytes.count());
    case FaultKind::kLink: {
      char factor[40];
      std::snprintf(factor, sizeof factor, "%.17e", rule.factor);
      return "link " + direction + " factor=" + factor + " from=" + written(rule.from) +
             " until=" + written(rule.until);
    }
    case FaultKind::kLost: {
      const std::string code = rule.code == 0 ? "" : " return=" + std::to_string(rule.code);
      return "device lost at=" + written(rule.from) + code;
    }
    case FaultKind::kKill:
      return "process kill at=" + written(rule.from);
  }
  __builtin_trap();
}

std::string written(const std::vector<FaultRule>& rules) {
  std::string out;
  for (const FaultRule& rule : rules) out += written(rule) + "\n";
  return out;
}

void check_rule(const FaultRule& rule) {
  fuzz_require(rule.every >= 1 && rule.count >= 1 && rule.bytes > Bytes(0));
  fuzz_require(rule.kind != FaultKind::kCall || (rule.code != 0 && !rule.function.empty()));
  fuzz_require(rule.factor >= tidepool::kLeastLinkFactor && rule.factor <= 1);
}

/// Some calls and copies: whatever the plan says, they are answered, and by rules of their kind.
void run(const std::vector<FaultRule>& rules) {
  FaultPlan plan;
  plan.add(rules);
  bool lost = false;
  for (std::uint64_t i = 0; i < 8; ++i) {
    const std::uint64_t now = i * i * 1000;
    const auto call =
        plan.on_call(i % 2 == 0 ? "cuMemMap" : "cuMemcpyHtoDAsync_v2", "cuMemCreate", Bytes(i << 20), now);
    using Action = tidepool::CallFault::Action;
    fuzz_require(!lost || call.action >= Action::kLost);
    fuzz_require(call.action != Action::kFail || call.code != 0);
    lost = lost || call.action == Action::kLost;
    const auto copy = plan.on_copy(static_cast<CopyDirection>(i % 3), Bytes(4096));
    if (copy.rule != nullptr) {
      fuzz_require(copy.index < rules.size() && copy.rule->kind == FaultKind::kCopy);
      fuzz_require(rules[copy.index].copy == copy.rule->copy);
    }
    const double factor = plan.link_factor(static_cast<CopyDirection>(i % 3), now);
    fuzz_require(factor >= tidepool::kLeastLinkFactor && factor <= 1);
  }
  fuzz_require(plan.injected() <= 16);
}

void check(std::string_view text, const FaultWords& words) {
  const auto rules = parse_fault_rules(text, words);
  if (!rules) return check_error(rules.error().text);
  for (const FaultRule& rule : *rules) check_rule(rule);
  const std::string canonical = written(*rules);
  if (canonical.size() <= tidepool::kLargestFaultPlan) {
    const auto again = parse_fault_rules(canonical, words);
    fuzz_require(again.ok() && written(*again) == canonical);
  }
  run(*rules);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check(text, kWords);
  check(text, {kCodes, {}});  // any name is a function
  return 0;
}
