#include "allocator/support/options.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "allocator/support/edit_distance.h"
#include "allocator/support/host_memory.h"
#include "allocator/support/text_writer.h"

namespace tidepool {
namespace {

static_assert(std::is_trivially_copyable_v<Options>);

constexpr std::string_view kPrefix = "TIDEPOOL_";
constexpr std::string_view kTestPrefix = "TIDEPOOL_TEST_";
constexpr std::size_t kShownName = 64;

constexpr OptionVerdict kTaken{};
constexpr OptionVerdict kOutOfRange{"it is out of range", true};

OptionVerdict read_value(const OptionRow&, std::string_view text, bool* out) noexcept {
  for (const std::string_view word : {"1", "on", "yes", "true"}) {
    if (text == word) return *out = true, kTaken;
  }
  for (const std::string_view word : {"0", "off", "no", "false"}) {
    if (text == word) return *out = false, kTaken;
  }
  return {"it is none of 1, 0, on, off, yes, no, true, false"};
}

OptionVerdict read_value(const OptionRow& row, std::string_view text, Bytes* out) noexcept {
  const Result<Bytes, ParseError> value = parse_bytes(text);
  if (!value) return {value.error().why};
  const Result<Bytes, ParseError> low = parse_bytes(row.low);
  const Result<Bytes, ParseError> high = parse_bytes(row.high);
  if ((low && *value < *low) || (high && *value > *high)) return kOutOfRange;
  *out = *value;
  return kTaken;
}

/// Decimal digits of at most nine places; false if it is anything else.
bool parse_number(std::string_view text, std::uint32_t* out) noexcept {
  *out = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return false;
    *out = *out * 10 + static_cast<std::uint32_t>(c - '0');
  }
  return !text.empty() && text.size() <= 9;
}

OptionVerdict read_value(const OptionRow& row, std::string_view text, std::uint32_t* out) noexcept {
  std::uint32_t value = 0;
  std::uint32_t low = 0;
  std::uint32_t high = 0;
  if (!parse_number(text, &value)) return {"it is not a number"};
  if (!parse_number(row.low, &low) || !parse_number(row.high, &high) || value < low || value > high)
    return kOutOfRange;
  *out = value;
  return kTaken;
}

/// Bytes are compared with bytes and shares with shares; across them only where the whole is known now, which
/// it is for the host but not for a device. No share at all is less than any number of bytes.
bool beyond(const Amount& a, const Amount& b, Bytes whole) noexcept {
  if (a.is_share() == b.is_share()) return a.count() > b.count();
  if (b.is_share() && b.count() == 0) return a.count() > 0;
  return whole != Bytes(0) && a.resolve(whole) > b.resolve(whole);
}

OptionVerdict read_value(const OptionRow& row, std::string_view text, Amount* out) noexcept {
  const Result<Amount, ParseError> value = parse_amount(text);
  if (!value) return {value.error().why};
  const Bytes whole = row.kind == OptionKind::kHostAmount ? host_memory() : Bytes(0);
  const Result<Amount, ParseError> low = parse_amount(row.low);
  const Result<Amount, ParseError> high = parse_amount(row.high);
  if ((low && beyond(*low, *value, whole)) || (high && beyond(*value, *high, whole))) return kOutOfRange;
  *out = *value;
  return kTaken;
}

OptionVerdict read_value(const OptionRow& row, std::string_view text, AutoAmount* out) noexcept {
  if (text == "auto") return *out = {true, {}}, kTaken;
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') return {"it is neither auto nor an amount"};
  Amount amount;
  const OptionVerdict verdict = read_value(row, text, &amount);
  if (verdict.ok()) *out = {false, amount};
  return verdict;
}

OptionVerdict read_value(const OptionRow&, std::string_view text, LogLevels* out) noexcept {
  return {parse_log_levels(text, out)};
}

template <class Word>
requires std::is_enum_v<Word> OptionVerdict read_value(const OptionRow& row, std::string_view text, Word* out)
noexcept {
  std::string_view words = row.low;
  for (int index = 0; !words.empty(); ++index) {
    const std::size_t end = std::min(words.find('|'), words.size());
    if (words.substr(0, end) == text) return *out = static_cast<Word>(index), kTaken;
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return {"it is not one of its words"};
}

OptionVerdict read_value(const OptionRow&, std::string_view text, PathText* out) noexcept {
  if (text.size() >= sizeof out->text) return {"it is longer than a path may be"};
  std::memset(out->text, 0, sizeof out->text);
  std::memcpy(out->text, text.data(), text.size());
  return kTaken;
}

constexpr OptionRow kRows[] = {
#define TP_OPT(member, kind, suffix, default_text, low, high, scope, group, help) \
  {#member,                                                                       \
   "TIDEPOOL_" suffix,                                                            \
   OptionKind::kind,                                                              \
   default_text,                                                                  \
   low,                                                                           \
   high,                                                                          \
   OptionScope::scope,                                                            \
   group,                                                                         \
   help,                                                                          \
   [](Options& options, const OptionRow& row, std::string_view text) noexcept {   \
     return read_value(row, text, &options.member);                               \
   }},
#include "allocator/support/options.def"
#undef TP_OPT
};

}  // namespace

std::span<const OptionRow> option_rows() noexcept {
  return kRows;
}

const OptionRow* find_option(std::string_view variable) noexcept {
  for (const OptionRow& row : kRows) {
    if (variable == row.variable) return &row;
  }
  return nullptr;
}

const OptionRow* nearest_option(std::string_view variable) noexcept {
  // Without what all have in common, which would make a short name near to everything.
  if (variable.starts_with(kPrefix)) variable.remove_prefix(kPrefix.size());
  const auto name_of = [](const OptionRow& row) {
    return std::string_view(row.variable).substr(kPrefix.size());
  };
  // BUDGET is a part of what was meant rather than some slips of the pen away from it.
  constexpr std::size_t kTelling = 4;
  for (const OptionRow& row : kRows) {
    if (variable.size() >= kTelling && name_of(row).find(variable) != std::string_view::npos) return &row;
  }
  return nearest_item(variable, kRows, name_of);
}

OptionVerdict set_option(Options& options, const OptionRow& row, std::string_view text) noexcept {
  return row.set(options, row, text);
}

void describe_refusal(char* buffer, std::size_t size, const OptionRow& row, const char* shown,
                      OptionVerdict verdict) noexcept {
  TextWriter out(buffer, size);
  out.put(shown);
  if (verdict.out_of_range) {
    out.put(" is out of range ").put(row.low).put("..").put(row.high);
    const std::string_view text(shown);
    const bool is_amount =
        row.kind != OptionKind::kBool && row.kind != OptionKind::kNumber && row.kind != OptionKind::kPath;
    if (is_amount && text.back() >= '0' && text.back() <= '9') out.put(" (without a unit it means bytes)");
  } else if (is_word(row.kind)) {
    out.put(" is none of ");
    for (const char c : std::string_view(row.low)) out.put(c == '|' ? ", " : std::string_view(&c, 1));
  } else {
    out.put(" is not valid: ").put(verdict.why);
  }
}

OptionIssue* OptionIssues::add(bool is_unknown) noexcept {
  if (!is_unknown) any_error_ = true;
  OptionIssue* const issue = count_ < kRoom ? &issues_[count_] : nullptr;
  ++count_;
  if (issue != nullptr) issue->is_unknown = is_unknown;
  return issue;
}

Options default_options() noexcept {
  Options options{};
  for (const OptionRow& row : kRows) set_option(options, row, row.default_text);
  return options;
}

Options load_options(const char* const* environment, OptionIssues* issues) noexcept {
  Options options = default_options();
  bool seen[std::size(kRows)] = {};
  for (const char* const* entry = environment; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    const std::string_view name = text.substr(0, equals);
    if (!name.starts_with(kPrefix) || name.starts_with(kTestPrefix) || name == kRunIdVariable ||
        equals == text.npos)
      continue;
    const OptionRow* const row = find_option(name);
    if (row == nullptr) {
      if (OptionIssue* const issue = issues->add(true)) {
        TextWriter out(issue->text, sizeof issue->text);
        out.put("unknown variable ").put(name.substr(0, kShownName));
        if (const OptionRow* const meant = nearest_option(name)) {
          out.put(" (did you mean ").put(meant->variable).put("?)");
        }
      }
      continue;
    }
    bool& was_seen = seen[row - kRows];
    if (was_seen) continue;
    was_seen = true;
    const OptionVerdict verdict = set_option(options, *row, text.substr(equals + 1));
    if (verdict.ok()) continue;
    if (OptionIssue* const issue = issues->add(false)) {
      describe_refusal(issue->text, sizeof issue->text, *row, *entry, verdict);
    }
  }
  return options;
}

Bytes device_reserve_of(const Options& options, Bytes device_total) noexcept {
  if (!options.device_reserve.is_auto) {
    return std::min(options.device_reserve.amount.resolve(device_total), most_device_reserve(device_total));
  }
  return device_total < GiB(4) ? Bytes(0) : MiB(512);
}

Bytes most_device_reserve(Bytes device_total) noexcept {
  return Bytes(device_total.count() / 2);
}

bool is_reserve_too_large(const Options& options, Bytes device_total) noexcept {
  const AutoAmount& reserve = options.device_reserve;
  return !reserve.is_auto && reserve.amount.resolve(device_total) > most_device_reserve(device_total);
}

bool is_budget_too_small(const Options& options, Bytes device_total) noexcept {
  return options.device_budget.resolve(device_total) < kLeastDeviceBudget;
}

bool is_budget_too_large(const Options& options, Bytes device_total) noexcept {
  return options.device_budget.resolve(device_total) > device_total;
}

Bytes device_capacity_of(const Options& options, Bytes device_total) noexcept {
  return std::min(std::max(options.device_budget.resolve(device_total), kLeastDeviceBudget),
                  device_total - device_reserve_of(options, device_total));
}

Bytes host_budget_of(const Options& options, Bytes host_total) noexcept {
  return std::min(options.host_budget.resolve(host_total), host_total);
}

}  // namespace tidepool
