#include "allocator/support/units.h"

#include <ctime>
#include <limits>

#include "allocator/support/text_writer.h"

namespace tidepool {
namespace {

constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();

struct Unit {
  std::string_view name;
  unsigned shift;
};
constexpr Unit kUnits[] = {{"", 0},     {"B", 0},  {"K", 10},   {"KiB", 10}, {"M", 20},
                           {"MiB", 20}, {"G", 30}, {"GiB", 30}, {"T", 40},   {"TiB", 40}};

constexpr bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// A decimal number cut into its parts: digits before the point, after it, and the text behind them.
struct Decimal {
  std::string_view whole;
  std::string_view fraction;
  std::string_view rest;
};

Result<Decimal, ParseError> split_decimal(std::string_view text) noexcept {
  if (text.empty()) return Err{ParseError{"it has no number"}};
  if (text[0] == '-') return Err{ParseError{"it is negative"}};
  if (!is_digit(text[0])) return Err{ParseError{"it does not begin with a digit"}};
  Decimal parts;
  std::size_t end = 0;
  while (end < text.size() && is_digit(text[end])) ++end;
  parts.whole = text.substr(0, end);
  if (end < text.size() && text[end] == '.') {
    const std::size_t start = ++end;
    while (end < text.size() && is_digit(text[end])) ++end;
    parts.fraction = text.substr(start, end - start);
    if (parts.fraction.empty()) return Err{ParseError{"digits are missing after the point"}};
  }
  parts.rest = text.substr(end);
  return parts;
}

/// whole.fraction times 2^shift, rounded down. Exact: cutting after each digit of the fraction, from the last
/// to the first, gives the same as cutting once.
Result<std::uint64_t, ParseError> scale(const Decimal& number, unsigned shift) noexcept {
  constexpr ParseError kTooLarge{"it is too large"};
  std::uint64_t whole = 0;
  for (const char c : number.whole) {
    const auto digit = static_cast<std::uint64_t>(c - '0');
    if (whole > (kMax - digit) / 10) return Err{kTooLarge};
    whole = whole * 10 + digit;
  }
  std::uint64_t fraction = 0;
  for (std::size_t i = number.fraction.size(); i-- > 0;) {
    const auto digit = static_cast<std::uint64_t>(number.fraction[i] - '0');
    fraction = ((digit << shift) + fraction) / 10;
  }
  if (whole > (kMax - fraction) >> shift) return Err{kTooLarge};
  return (whole << shift) + fraction;
}

}  // namespace

Result<Bytes, ParseError> parse_bytes(std::string_view text) noexcept {
  const Result<Decimal, ParseError> number = split_decimal(text);
  if (!number) return Err{number.error()};
  std::string_view unit_name = number->rest;
  if (!unit_name.empty() && unit_name[0] == ' ') {
    unit_name.remove_prefix(1);
    if (unit_name.empty()) return Err{ParseError{"a unit is missing after the space"}};
  }
  for (const Unit& unit : kUnits) {
    if (unit.name != unit_name) continue;
    if (unit.shift == 0 && !number->fraction.empty()) return Err{ParseError{"bytes are whole numbers"}};
    const Result<std::uint64_t, ParseError> n = scale(*number, unit.shift);
    if (!n) return Err{n.error()};
    return Bytes(*n);
  }
  return Err{ParseError{"its unit is none of B, K, KiB, M, MiB, G, GiB, T, TiB"}};
}

Result<Amount, ParseError> parse_amount(std::string_view text) noexcept {
  if (!text.ends_with('%')) {
    const Result<Bytes, ParseError> n = parse_bytes(text);
    if (!n) return Err{n.error()};
    return Amount::bytes(*n);
  }
  const Result<Decimal, ParseError> number = split_decimal(text.substr(0, text.size() - 1));
  if (!number) return Err{number.error()};
  if (!number->rest.empty()) return Err{ParseError{"it is not a number before the %"}};
  if (number->fraction.size() > 4) return Err{ParseError{"a percentage has at most four decimals"}};
  if (number->whole.size() > 9) return Err{ParseError{"it is too large"}};
  std::uint64_t ppm = 0;
  for (const char c : number->whole) ppm = ppm * 10 + static_cast<std::uint64_t>(c - '0');
  for (std::size_t i = 0; i < 4; ++i) {
    const char c = i < number->fraction.size() ? number->fraction[i] : '0';
    ppm = ppm * 10 + static_cast<std::uint64_t>(c - '0');
  }
  return Amount::share(ppm);
}

const char* format_bytes(char* buffer, std::size_t size, Bytes n) noexcept {
  constexpr std::string_view kNames[] = {" B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"};
  TextWriter out(buffer, size);
  if (n.count() < 1024) {
    out.put_number(n.count()).put(kNames[0]);
    return buffer;
  }
  // Work in tenths of a unit; a value that would round to 1024.0 belongs to the next unit.
  for (std::size_t i = 1;; ++i) {
    const auto shift = static_cast<unsigned>(10 * i);
    const std::uint64_t whole = n.count() >> shift;
    const std::uint64_t rest = n.count() & ((std::uint64_t{1} << shift) - 1);
    const std::uint64_t tenths = whole * 10 + ((rest * 10 + (std::uint64_t{1} << (shift - 1))) >> shift);
    if (tenths >= 10240 && i + 1 < std::size(kNames)) continue;
    out.put_number(tenths / 10).put(".").put_number(tenths % 10).put(kNames[i]);
    return buffer;
  }
}

const char* format_duration(char* buffer, std::size_t size, Nanos span) noexcept {
  TextWriter out(buffer, size);
  if (span.count() < 0) out.put("-");
  const auto ns = span.count() < 0 ? 0 - static_cast<std::uint64_t>(span.count())
                                   : static_cast<std::uint64_t>(span.count());
  const std::uint64_t tenths = (ns + 50'000'000) / 100'000'000;
  const std::uint64_t secs = (ns + 500'000'000) / 1'000'000'000;
  if (ns < 1'000) {
    out.put_number(ns).put("ns");
  } else if (ns < 1'000'000) {
    out.put_number(ns / 1'000).put("us");
  } else if (ns < 1'000'000'000) {
    out.put_number(ns / 1'000'000).put("ms");
  } else if (tenths < 600) {
    out.put_number(tenths / 10).put(".").put_number(tenths % 10).put("s");
  } else if (secs < 3600) {
    out.put_number(secs / 60).put("m").put_number(secs % 60, 2).put("s");
  } else {
    out.put_number(secs / 3600).put("h").put_number(secs / 60 % 60, 2).put("m");
  }
  return buffer;
}

Nanos monotonic_now() noexcept {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return seconds(now.tv_sec) + Nanos(now.tv_nsec);
}

}  // namespace tidepool
