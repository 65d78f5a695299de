#include <algorithm>
#include <array>
#include <charconv>
#include <exception>
#include <stdexcept>
#include <utility>

#include "allocator/support/edit_distance.h"
#include "allocator/support/fault_plan.h"

namespace tidepool {
namespace {

constexpr std::size_t kMostRules = 1000;
constexpr std::size_t kShown = 60;  // of a word that is quoted in an error

/// Ends the reading; what() is the error without the line's number.
struct Refusal : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// What a line may have besides its first words, by kind of rule.
struct Form {
  FaultKind kind;
  const char* what;
  std::array<std::string_view, 6> keys;
};
constexpr Form kForms[] = {
    {FaultKind::kCall, "a call", {"after", "nth", "count", "every", "size>", "return"}},
    {FaultKind::kCopy, "a copy", {"after", "nth", "count", "every", "offset", "bytes"}},
    {FaultKind::kLink, "a link", {"factor", "from", "until"}},
    {FaultKind::kLost, "a lost device", {"at", "return"}},
    {FaultKind::kKill, "a kill", {"at"}},
};
constexpr std::string_view kHeads[] = {"copy", "link", "device", "process"};
constexpr std::pair<std::string_view, CopyDirection> kDirections[] = {{"h2d", CopyDirection::kH2d},
                                                                      {"d2h", CopyDirection::kD2h},
                                                                      {"d2d", CopyDirection::kD2d},
                                                                      {"any", CopyDirection::kAny}};
constexpr std::pair<std::string_view, CopyFault> kCopyFaults[] = {
    {"drop", CopyFault::kDrop}, {"corrupt", CopyFault::kCorrupt}, {"stale", CopyFault::kStale}};

std::string quoted(std::string_view word) {
  std::string out = "'" + std::string(word.substr(0, kShown)) + "'";
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return out;
}

template <class Items, class TextOf>
std::string suggestion(std::string_view word, const Items& items, TextOf text_of, const char* end = "") {
  const auto* const meant = nearest_item(word, items, text_of);
  return meant == nullptr ? "" : " (did you mean '" + std::string(text_of(*meant)) + end + "'?)";
}

std::string_view next_word(std::string_view& rest) {
  constexpr std::string_view kBlank = " \t\r";
  rest.remove_prefix(std::min(rest.find_first_not_of(kBlank), rest.size()));
  const std::string_view word = rest.substr(0, rest.find_first_of(kBlank));
  rest.remove_prefix(word.size());
  return word;
}

template <class T>
bool read_number(std::string_view text, T* out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc{} && end == text.data() + text.size();
}

/// The value of one of a few words.
template <class Row, std::size_t N>
auto one_of(const Row (&rows)[N], std::string_view word, const char* want) {
  for (const Row& row : rows) {
    if (row.first == word) return row.second;
  }
  throw Refusal((word.empty() ? "a word is missing" : quoted(word) + " is none") + std::string(": want ") +
                want + suggestion(word, rows, [](const Row& row) { return row.first; }));
}

/// Reads the words of one line.
class Line {
 public:
  Line(std::string_view rest, const FaultWords& words) : rest_(rest), words_(words) {}

  FaultRule read() {
    read_head();
    for (std::string_view word = next_word(rest_); !word.empty(); word = next_word(rest_)) read_pair(word);
    finish();
    return std::move(rule_);
  }

 private:
  void read_head() {
    const std::string_view first = next_word(rest_);
    if (first == "copy") {
      rule_.kind = FaultKind::kCopy;
      rule_.direction = one_of(kDirections, next_word(rest_), "h2d, d2h, d2d or any");
    } else if (first == "link") {
      rule_.kind = FaultKind::kLink;
      rule_.direction = one_of(kDirections, next_word(rest_), "h2d, d2h, d2d or any");
    } else if (first == "device" || first == "process") {
      rule_.kind = first == "device" ? FaultKind::kLost : FaultKind::kKill;
      const std::string_view want = first == "device" ? "lost" : "kill";
      if (next_word(rest_) != want)
        throw Refusal(quoted(first) + " goes on with '" + std::string(want) + "'");
    } else {
      read_function(first);
    }
    form_ = std::find_if(std::begin(kForms), std::end(kForms),
                         [&](const Form& form) { return form.kind == rule_.kind; });
  }

  void read_function(std::string_view name) {
    if (name.find('=') != std::string_view::npos)
      throw Refusal("starts with the name of a function, copy, link, device or process, not " + quoted(name));
    rule_.function = known_function(name);
  }

  std::string known_function(std::string_view name) const {
    const bool known = words_.functions.empty() || std::find(words_.functions.begin(), words_.functions.end(),
                                                             name) != words_.functions.end();
    if (!known) {
      for (const FaultWords::Excluded& excluded : words_.excluded) {
        if (excluded.name == name)
          throw Refusal(quoted(name) + " " + std::string(excluded.why) + "; no rule can be about it");
      }
    }
    if (!known || name.empty()) {
      const auto itself = [](std::string_view word) { return word; };
      std::string meant = suggestion(name, words_.functions, itself);
      if (meant.empty()) meant = suggestion(name, kHeads, itself);
      if (meant.empty() && !words_.hint.empty()) meant = "; " + std::string(words_.hint);
      throw Refusal("unknown function " + quoted(name) + meant);
    }
    return std::string(name);
  }

  /// "drop", or "key=value".
  void read_pair(std::string_view word) {
    const std::size_t equals = word.find('=');
    if (equals == std::string_view::npos && rule_.kind == FaultKind::kCopy) {
      if (copy_given_) throw Refusal("one of drop, corrupt and stale is enough");
      rule_.copy = one_of(kCopyFaults, word, "drop, corrupt or stale");
      copy_given_ = true;
      return;
    }
    const std::string_view key = word.substr(0, equals);
    const auto at = std::find(form_->keys.begin(), form_->keys.end(), key);
    if (equals == std::string_view::npos && at != form_->keys.end())
      throw Refusal(quoted(word) + " has no value: want " + std::string(key) + "=VALUE, without blanks");
    if (at == form_->keys.end() || key.empty())
      throw Refusal(quoted(word) + " is nothing that " + form_->what + " takes: " + key_list() +
                    suggestion(
                        key, form_->keys, [](std::string_view k) { return k; }, "="));
    const auto bit = std::size_t{1} << (at - form_->keys.begin());
    if ((given_ & bit) != 0) throw Refusal(std::string(key) + "= is given twice");
    given_ |= bit;
    set(key, word.substr(equals + 1), word);
  }

  std::string key_list() const {
    std::string out = rule_.kind == FaultKind::kCopy ? "drop, corrupt, stale" : "";
    for (const std::string_view key : form_->keys) {
      if (!key.empty()) out += (out.empty() ? "" : ", ") + std::string(key) + "=";
    }
    return out;
  }

  void set(std::string_view key, std::string_view value, std::string_view word) {
    if (key == "after") {
      rule_.after = number(value, word, 0);
    } else if (key == "nth") {
      rule_.after = number(value, word, 1) - 1;
    } else if (key == "count") {
      rule_.count = value == "all" ? FaultRule::kAll : number(value, word, 1);
    } else if (key == "every") {
      rule_.every = number(value, word, 1);
    } else if (key == "size>") {
      rule_.min_size = size(value, word);
    } else if (key == "offset") {
      rule_.offset = size(value, word);
    } else if (key == "bytes") {
      rule_.bytes = size(value, word);
      if (rule_.bytes == Bytes(0)) throw Refusal(quoted(word) + ": a piece has at least one byte");
    } else if (key == "return") {
      rule_.code = code(value, word);
    } else if (key == "factor") {
      const bool good =
          read_number(value, &rule_.factor) && rule_.factor >= kLeastLinkFactor && rule_.factor <= 1;
      if (!good) throw Refusal(quoted(word) + ": want a factor from 0.000001 to 1");
    } else {
      (key == "until" ? rule_.until : rule_.from) = point(value, word);
    }
  }

  static std::uint64_t number(std::string_view value, std::string_view word, std::uint64_t low) {
    std::uint64_t out = 0;
    if (!read_number(value, &out) || out < low)
      throw Refusal(quoted(word) + ": want a number from " + std::to_string(low) + " on");
    return out;
  }

  static Bytes size(std::string_view value, std::string_view word) {
    const auto out = parse_bytes(value);
    if (!out) throw Refusal(quoted(word) + ": want bytes, as in 4096 or 64MiB");
    return *out;
  }

  int code(std::string_view value, std::string_view word) const {
    for (const FaultWords::Code& known : words_.codes) {
      if (known.name == value && known.value != 0) return known.value;
    }
    int out = 0;
    if (!read_number(value, &out) || out == 0)
      throw Refusal(quoted(word) + ": want the number or the name of an error" + meant_code(value));
    return out;
  }

  /// A slip, or a name without what all of them start with.
  std::string meant_code(std::string_view value) const {
    for (const FaultWords::Code& known : words_.codes) {
      if (value.size() > 3 && known.value != 0 && known.name.ends_with(value))
        return " (did you mean '" + std::string(known.name) + "'?)";
    }
    return suggestion(value, words_.codes, [](const FaultWords::Code& known) { return known.name; });
  }

  /// "call:100", "ns:5000", "cuMemMap:3".
  FaultPoint point(std::string_view value, std::string_view word) const {
    const std::size_t colon = value.rfind(':');
    if (colon == std::string_view::npos || colon == 0)
      throw Refusal(quoted(word) + ": want call:N, ns:N or the name of a function and :N");
    const std::string_view name = value.substr(0, colon);
    FaultPoint out;
    const std::uint64_t n = number(value.substr(colon + 1), word, name == "ns" ? 0 : 1);
    if (name == "ns") {
      out.at_ns = n;
      return out;
    }
    if (name != "call") out.function = known_function(name);
    out.call = n;
    return out;
  }

  [[nodiscard]] bool given(std::string_view key) const {
    const auto at = std::find(form_->keys.begin(), form_->keys.end(), key);
    return at != form_->keys.end() && (given_ & std::size_t{1} << (at - form_->keys.begin())) != 0;
  }

  void finish() {
    if (given("nth") && (given("after") || given("count") || given("every")))
      throw Refusal("nth= stands for itself, without after=, count= and every=");
    if (given("every") && !given("count")) rule_.count = FaultRule::kAll;
    if (rule_.kind == FaultKind::kCall && !given("return")) throw Refusal("return=CODE is missing");
    if (rule_.kind == FaultKind::kCopy && !copy_given_) throw Refusal("drop, corrupt or stale is missing");
    if (rule_.kind == FaultKind::kLink && !given("factor")) throw Refusal("factor= is missing");
    if ((rule_.kind == FaultKind::kLost || rule_.kind == FaultKind::kKill) && !given("at"))
      throw Refusal("at= is missing");
  }

  std::string_view rest_;
  const FaultWords& words_;
  const Form* form_ = nullptr;
  FaultRule rule_;
  std::size_t given_ = 0;  ///< a bit for each key of the form
  bool copy_given_ = false;
};

bool is_blank(std::string_view line) {
  return next_word(line).empty();
}

Result<std::vector<FaultRule>, FaultError> parse(std::string_view text, const FaultWords& words) {
  if (text.size() > kLargestFaultPlan) return Err{FaultError{"is no fault plan: larger than 64 KiB"}};
  std::vector<FaultRule> rules;
  for (std::size_t number = 1; !text.empty(); ++number) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    line = line.substr(0, line.find('#'));
    if (is_blank(line)) continue;
    try {
      if (rules.size() == kMostRules) throw Refusal("more than 1000 rules");
      rules.push_back(Line(line, words).read());
      rules.back().line = number;
    } catch (const Refusal& refusal) {
      return Err{FaultError{"line " + std::to_string(number) + ": " + refusal.what()}};
    }
  }
  return rules;
}

}  // namespace

Result<std::vector<FaultRule>, FaultError> parse_fault_rules(std::string_view text,
                                                             const FaultWords& words) noexcept {
  try {
    return parse(text, words);
  } catch (const std::exception& error) {
    return Err{FaultError{error.what()}};  // memory ran out
  }
}

}  // namespace tidepool
