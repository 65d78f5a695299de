#include "allocator/support/fault_plan.h"

#include <algorithm>
#include <utility>

namespace tidepool {

void FaultPlan::add(FaultRule rule) {
  const std::scoped_lock lock(mutex_);
  rules_.push_back(Counted{std::move(rule)});
}

void FaultPlan::add(std::vector<FaultRule> rules) {
  for (FaultRule& rule : rules) add(std::move(rule));
}

std::string FaultPlan::add_text(std::string_view text, const FaultWords& words) {
  auto rules = parse_fault_rules(text, words);
  if (!rules) return rules.error().text;
  add(std::move(rules.value()));
  return {};
}

void FaultPlan::clear() {
  const std::scoped_lock lock(mutex_);
  rules_.clear();
  injected_ = 0;
}

bool FaultPlan::empty() const {
  const std::scoped_lock lock(mutex_);
  return rules_.empty();
}

bool FaultPlan::hits(Counted& counted) {
  const FaultRule& rule = counted.rule;
  const std::uint64_t index = ++counted.seen;
  if (index <= rule.after || (index - rule.after) % rule.every != 0 || counted.hit >= rule.count)
    return false;
  ++counted.hit;
  return true;
}

bool FaultPlan::slows(const Counted& counted, CopyDirection direction, std::uint64_t now_ns) {
  const FaultRule& rule = counted.rule;
  if (rule.kind != FaultKind::kLink) return false;
  if (rule.direction != CopyDirection::kAny && rule.direction != direction) return false;
  return reached(rule.from, counted.from, now_ns) && !reached(rule.until, counted.until, now_ns);
}

bool FaultPlan::reached(const FaultPoint& point, std::uint64_t calls, std::uint64_t now_ns) {
  return point.call != 0 ? calls >= point.call : now_ns >= point.at_ns;
}

CallFault FaultPlan::verdict(Counted& counted, std::string_view function, std::string_view alias, Bytes size,
                             std::uint64_t now_ns) {
  const FaultRule& rule = counted.rule;
  const auto named = [&](const std::string& name) {
    return name == function || (!alias.empty() && name == alias);
  };
  if (rule.kind == FaultKind::kCall) {
    if (!named(rule.function) || size < rule.min_size || !hits(counted)) return {};
    return {CallFault::Action::kFail, rule.code, 0};
  }
  if (rule.kind == FaultKind::kCopy) return {};
  if (rule.from.function.empty() || named(rule.from.function)) ++counted.from;
  if (rule.until.function.empty() || named(rule.until.function)) ++counted.until;
  if (rule.kind == FaultKind::kLink || !reached(rule.from, counted.from, now_ns)) return {};
  if (rule.kind == FaultKind::kKill) return {CallFault::Action::kKill, 0, 0};
  return {CallFault::Action::kLost, rule.code, 0};
}

CallFault FaultPlan::on_call(std::string_view function, std::string_view alias, Bytes size,
                             std::uint64_t now_ns) {
  const std::scoped_lock lock(mutex_);
  CallFault worst;
  // Every rule sees the call, whatever the others make of it.
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    CallFault fault = verdict(rules_[i], function, alias, size, now_ns);
    fault.rule = i;
    if (fault.action > worst.action) worst = fault;
  }
  if (worst.action != CallFault::Action::kGoOn) ++injected_;
  return worst;
}

CopyHit FaultPlan::on_copy(CopyDirection direction, Bytes size) {
  const std::scoped_lock lock(mutex_);
  CopyHit hit;
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    const FaultRule& rule = rules_[i].rule;
    const bool matches = rule.kind == FaultKind::kCopy && size >= rule.min_size &&
                         (rule.direction == CopyDirection::kAny || rule.direction == direction);
    if (matches && hits(rules_[i]) && hit.rule == nullptr) hit = {&rule, i};
  }
  if (hit.rule != nullptr) ++injected_;
  return hit;
}

double FaultPlan::link_factor(CopyDirection direction, std::uint64_t now_ns) const {
  const std::scoped_lock lock(mutex_);
  double factor = 1;
  for (const Counted& counted : rules_) {
    if (slows(counted, direction, now_ns)) factor *= counted.rule.factor;
  }
  return std::max(factor, kLeastLinkFactor);
}

bool FaultPlan::slows(std::size_t index, CopyDirection direction, std::uint64_t now_ns) const {
  const std::scoped_lock lock(mutex_);
  return slows(rules_[index], direction, now_ns);
}

std::uint64_t FaultPlan::injected() const {
  const std::scoped_lock lock(mutex_);
  return injected_;
}

}  // namespace tidepool
