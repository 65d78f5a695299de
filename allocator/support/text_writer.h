#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tidepool {

/// Writes text into a buffer of fixed size; what does not fit is cut off, and the text always ends in a zero
/// byte (unless the size is 0). Async-signal-safe: no allocation, no locale, no stdio.
class TextWriter {
 public:
  constexpr TextWriter(char* buffer, std::size_t size) noexcept : at_(buffer), room_(size) {
    if (room_ > 0) *at_ = '\0';
  }
  constexpr TextWriter& put(std::string_view text) noexcept {
    for (const char c : text) {
      if (room_ < 2) break;
      *at_++ = c;
      --room_;
    }
    if (room_ > 0) *at_ = '\0';
    return *this;
  }
  /// A decimal number, with leading zeros up to `digits`.
  constexpr TextWriter& put_number(std::uint64_t n, std::size_t digits = 1) noexcept {
    char text[20];
    std::size_t first = sizeof text;
    do {
      text[--first] = static_cast<char>('0' + n % 10);
      n /= 10;
    } while (n > 0);
    while (first > 0 && sizeof text - first < digits) text[--first] = '0';
    return put({text + first, sizeof text - first});
  }

 private:
  char* at_;
  std::size_t room_;
};

}  // namespace tidepool
