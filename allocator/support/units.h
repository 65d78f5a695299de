#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "allocator/support/result.h"

namespace tidepool {

/// A number of bytes. A type of its own so that sizes, addresses and times cannot be mixed up.
class Bytes {
 public:
  constexpr Bytes() = default;
  constexpr explicit Bytes(std::uint64_t n) : n_(n) {}

  [[nodiscard]] constexpr std::uint64_t count() const noexcept { return n_; }
  constexpr auto operator<=>(const Bytes&) const = default;

  constexpr Bytes operator+(Bytes other) const noexcept { return Bytes(n_ + other.n_); }
  /// Saturates at zero: an accounting error must not turn into 16 EiB.
  constexpr Bytes operator-(Bytes other) const noexcept { return Bytes(n_ < other.n_ ? 0 : n_ - other.n_); }
  constexpr Bytes operator*(std::uint64_t k) const noexcept { return Bytes(n_ * k); }
  constexpr std::uint64_t operator/(Bytes other) const noexcept { return n_ / other.n_; }
  constexpr Bytes& operator+=(Bytes other) noexcept { return *this = *this + other; }
  constexpr Bytes& operator-=(Bytes other) noexcept { return *this = *this - other; }

  /// The smallest multiple of `unit` (a power of two) that is not below this; saturates at the largest one.
  [[nodiscard]] constexpr Bytes round_up(Bytes unit) const noexcept {
    const std::uint64_t mask = unit.n_ - 1;
    return n_ > ~mask ? Bytes(~mask) : Bytes((n_ + mask) & ~mask);
  }
  /// The largest multiple of `unit` (a power of two) that is not above this.
  [[nodiscard]] constexpr Bytes round_down(Bytes unit) const noexcept { return Bytes(n_ & ~(unit.n_ - 1)); }
  [[nodiscard]] constexpr bool is_multiple_of(Bytes unit) const noexcept { return n_ % unit.n_ == 0; }

 private:
  std::uint64_t n_ = 0;
};

constexpr Bytes KiB(std::uint64_t n) {
  return Bytes(n << 10);
}  // NOLINT(readability-identifier-naming)
constexpr Bytes MiB(std::uint64_t n) {
  return Bytes(n << 20);
}  // NOLINT(readability-identifier-naming)
constexpr Bytes GiB(std::uint64_t n) {
  return Bytes(n << 30);
}  // NOLINT(readability-identifier-naming)

/// A span of time in nanoseconds.
class Nanos {
 public:
  constexpr Nanos() = default;
  constexpr explicit Nanos(std::int64_t n) : n_(n) {}
  [[nodiscard]] constexpr std::int64_t count() const noexcept { return n_; }
  constexpr auto operator<=>(const Nanos&) const = default;
  constexpr Nanos operator+(Nanos other) const noexcept { return Nanos(n_ + other.n_); }
  constexpr Nanos operator-(Nanos other) const noexcept { return Nanos(n_ - other.n_); }
  constexpr Nanos& operator+=(Nanos other) noexcept { return *this = *this + other; }

 private:
  std::int64_t n_ = 0;
};

/// As a moment: later than any other.
inline constexpr Nanos kNever{INT64_MAX};

constexpr Nanos millis(std::int64_t n) {
  return Nanos(n * 1'000'000);
}
constexpr Nanos seconds(std::int64_t n) {
  return Nanos(n * 1'000'000'000);
}

/// Why a text was refused: a static phrase that continues "... is not valid: ".
struct ParseError {
  const char* why;
};

/// Either a number of bytes or a share of some whole that is not known yet ("16GiB", "50%").
class Amount {
 public:
  constexpr Amount() = default;
  [[nodiscard]] static constexpr Amount bytes(Bytes n) noexcept { return {false, n.count()}; }
  /// `ppm` millionths of the whole; 1'000'000 is all of it.
  [[nodiscard]] static constexpr Amount share(std::uint64_t ppm) noexcept { return {true, ppm}; }

  [[nodiscard]] constexpr bool is_share() const noexcept { return is_share_; }
  /// Bytes, or millionths if is_share().
  [[nodiscard]] constexpr std::uint64_t count() const noexcept { return count_; }
  constexpr bool operator==(const Amount&) const = default;

  /// The bytes meant, given the whole that a share is a share of. Rounds down; a share above all saturates
  /// at the whole.
  [[nodiscard]] constexpr Bytes resolve(Bytes whole) const noexcept {
    if (!is_share_) return Bytes(count_);
    if (count_ >= kAll) return whole;
    return Bytes(whole.count() / kAll * count_ + whole.count() % kAll * count_ / kAll);
  }

 private:
  static constexpr std::uint64_t kAll = 1'000'000;
  constexpr Amount(bool is_share, std::uint64_t count) : is_share_(is_share), count_(count) {}

  bool is_share_ = false;
  std::uint64_t count_ = 0;
};

/// Reads "1.5GiB": a decimal number, at most one space, and one of B, K, KiB, M, MiB, G, GiB, T, TiB in this
/// spelling (all are powers of 1024); no unit means bytes. What format_bytes() writes can be read back. A
/// fraction of a byte is cut off; a sign, an exponent, an empty text, and more than 64 bits are refused.
/// Hook-safe.
Result<Bytes, ParseError> parse_bytes(std::string_view text) noexcept;

/// Reads what parse_bytes() reads, or a percentage such as "50%" or "12.5%" of up to four decimals.
/// Hook-safe.
Result<Amount, ParseError> parse_amount(std::string_view text) noexcept;

/// Room for every text that the format functions write.
inline constexpr std::size_t kUnitTextBytes = 32;

/// Writes "512 B", "47.9 MiB", "1.2 GiB": one decimal, rounded to nearest. Always ends in a zero byte if
/// `size` is not 0; returns `buffer`. Hook-safe.
const char* format_bytes(char* buffer, std::size_t size, Bytes n) noexcept;

/// Writes "350ns", "41us", "41ms", "1.2s", "12m31s", "2h05m": see format_bytes(). Hook-safe.
const char* format_duration(char* buffer, std::size_t size, Nanos span) noexcept;

/// Bytes as text for a printf argument: `report<Msg::TP2002>(BytesText(asked).c_str())`.
class BytesText {
 public:
  explicit BytesText(Bytes n) noexcept { format_bytes(text_, sizeof text_, n); }
  [[nodiscard]] const char* c_str() const noexcept { return text_; }

 private:
  char text_[kUnitTextBytes];
};

/// CLOCK_MONOTONIC now. Hook-safe.
Nanos monotonic_now() noexcept;

}  // namespace tidepool
