#include "tests/process/pattern.h"

#include <algorithm>
#include <cctype>

namespace tidepool::test {
namespace {

bool is_digit(char c) {
  return std::isdigit(static_cast<unsigned char>(c)) != 0;
}

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

std::size_t digits_at(std::string_view text) {
  return static_cast<std::size_t>(std::find_if_not(text.begin(), text.end(), is_digit) - text.begin());
}

/// Length of the span of time that `text` begins with; 0 if it begins with none.
std::size_t span_at(std::string_view text) {
  const std::size_t whole = digits_at(text);
  if (whole == 0) return 0;
  const std::string_view rest = text.substr(whole);
  if (rest.substr(0, 2) == "us" || rest.substr(0, 2) == "ms") return whole + 2;
  const bool seconds = rest.size() >= 3 && rest[0] == '.' && is_digit(rest[1]) && rest[2] == 's';
  return seconds ? whole + 3 : 0;
}

}  // namespace

bool matches(std::string_view text, std::string_view pattern) {
  for (; !pattern.empty(); pattern.remove_prefix(1)) {
    std::size_t taken = 0;
    switch (pattern[0]) {
      case '*':
        for (;; text.remove_prefix(1)) {
          if (matches(text, pattern.substr(1))) return true;
          if (text.empty() || text[0] == '\n') return false;
        }
      case '#':
        taken = digits_at(text);
        break;
      case '@':
        taken = span_at(text);
        break;
      case '%':
        taken = !text.empty() && is_digit(text[0]) ? 1 : 0;
        break;
      case '?':
        taken = !text.empty() && is_word(text[0]) ? 1 : 0;
        break;
      default:
        taken = !text.empty() && text[0] == pattern[0] ? 1 : 0;
    }
    if (taken == 0) return false;
    text.remove_prefix(taken);
  }
  return text.empty();
}

}  // namespace tidepool::test
