#include "tests/fakes/fault_plan.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace tidepool::fakes {
namespace {

std::string_view next_word(std::string_view& rest) {
  const std::size_t start = rest.find_first_not_of(" \t\r");
  if (start == std::string_view::npos) {
    rest = {};
    return {};
  }
  rest.remove_prefix(start);
  const std::string_view word = rest.substr(0, rest.find_first_of(" \t\r"));
  rest.remove_prefix(word.size());
  return word;
}

template <class T>
bool parse_number(std::string_view text, T& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc{} && end == text.data() + text.size() && !text.empty();
}

/// The rule in a line, nothing for an empty line; `problem` says what is wrong with it.
std::optional<FaultPlan::Rule> parse_rule(std::string_view line, std::string& problem) {
  line = line.substr(0, line.find('#'));
  FaultPlan::Rule rule;
  rule.function = std::string(next_word(line));
  if (rule.function.empty()) return std::nullopt;
  if (rule.function.find('=') != std::string::npos) {
    problem = "starts with the name of a function, not '" + rule.function + "'";
    return std::nullopt;
  }
  bool has_code = false;
  for (std::string_view word = next_word(line); !word.empty(); word = next_word(line)) {
    const std::string_view key = word.substr(0, word.find('='));
    const std::string_view value =
        key.size() < word.size() ? word.substr(key.size() + 1) : std::string_view{};
    bool good = false;
    if (key == "after") good = parse_number(value, rule.after);
    if (key == "times" && value == "all") {
      rule.times = FaultPlan::kAll;
      good = true;
    } else if (key == "times") {
      good = parse_number(value, rule.times) && rule.times > 0;
    }
    if (key == "return") good = has_code = parse_number(value, rule.code) && rule.code != 0;
    if (!good) {
      problem = "'" + std::string(word) + "' is none of after=N, times=N|all, return=CODE";
      return std::nullopt;
    }
  }
  if (!has_code) {
    problem = "return=CODE is missing";
    return std::nullopt;
  }
  return rule;
}

}  // namespace

void FaultPlan::add(Rule rule) {
  const std::lock_guard lock(mutex_);
  rules_.push_back(std::move(rule));
}

std::string FaultPlan::add_text(std::string_view text) {
  std::vector<Rule> parsed;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    std::string problem;
    std::optional<Rule> rule = parse_rule(line, problem);
    if (!problem.empty()) return "line " + std::to_string(number) + ": " + problem;
    if (rule) parsed.push_back(std::move(*rule));
  }
  const std::lock_guard lock(mutex_);
  rules_.insert(rules_.end(), parsed.begin(), parsed.end());
  return {};
}

void FaultPlan::clear() {
  const std::lock_guard lock(mutex_);
  rules_.clear();
  counters_.clear();
  injected_ = 0;
}

int FaultPlan::on_call(std::string_view function) {
  const std::lock_guard lock(mutex_);
  auto counter = std::find_if(counters_.begin(), counters_.end(),
                              [&](const Counter& entry) { return entry.function == function; });
  if (counter == counters_.end()) {
    counters_.push_back({std::string(function), 0});
    counter = counters_.end() - 1;
  }
  const std::uint64_t index = counter->calls++;
  for (const Rule& rule : rules_) {
    if (rule.function == function && index >= rule.after && index - rule.after < rule.times) {
      ++injected_;
      return rule.code;
    }
  }
  return 0;
}

std::uint64_t FaultPlan::calls(std::string_view function) const {
  const std::lock_guard lock(mutex_);
  for (const Counter& counter : counters_) {
    if (counter.function == function) return counter.calls;
  }
  return 0;
}

std::uint64_t FaultPlan::injected() const {
  const std::lock_guard lock(mutex_);
  return injected_;
}

}  // namespace tidepool::fakes
