#include "tools/simgpu/fatbin/ptx_tokens.h"

#include <charconv>

namespace simgpu::fatbin {
namespace {

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool continues_word(char c) {
  return is_letter(c) || is_digit(c) || c == '_' || c == '$';
}
bool starts_word(char c) {
  return continues_word(c) || c == '.' || c == '%';
}
bool is_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

}  // namespace

void PtxTokens::skip_space() {
  while (at_ < text_.size()) {
    if (is_space(text_[at_])) {
      ++at_;
    } else if (text_.substr(at_, 2) == "//") {
      at_ = text_.find('\n', at_);
    } else if (text_.substr(at_, 2) == "/*") {
      const std::size_t end = text_.find("*/", at_ + 2);
      at_ = end == std::string_view::npos ? end : end + 2;
    } else {
      return;
    }
    if (at_ == std::string_view::npos) at_ = text_.size();
  }
}

void PtxTokens::advance() {
  skip_space();
  token_ = {};
  if (at_ == text_.size()) return;
  const std::size_t start = at_++;
  const char first = text_[start];
  if (first == '"') {
    const std::size_t end = text_.find('"', at_);
    at_ = end == std::string_view::npos ? text_.size() : end + 1;
  } else if (starts_word(first)) {
    while (at_ < text_.size() && (continues_word(text_[at_]) || (is_digit(first) && text_[at_] == '.')))
      ++at_;
  }
  token_ = text_.substr(start, at_ - start);
}

void PtxTokens::skip_past(char end) {
  while (!done()) {
    if (peek() == "{") {
      skip_block();
      continue;
    }
    if (take() == std::string_view(&end, 1)) return;
  }
}

void PtxTokens::skip_block() {
  std::size_t depth = 0;
  do {
    const std::string_view token = take();
    if (token == "{") ++depth;
    if (token == "}") --depth;
  } while (depth > 0 && !done());
}

bool ptx_integer(std::string_view token, std::uint64_t* out) {
  if (!token.empty() && token.back() == 'U') token.remove_suffix(1);
  int base = 10;
  if (token.size() > 1 && token[0] == '0') {
    const char mark = token[1];
    base = mark == 'x' || mark == 'X' ? 16 : mark == 'b' || mark == 'B' ? 2 : 8;
    token.remove_prefix(base == 8 ? 1 : 2);
  }
  const char* end = token.data() + token.size();
  const auto result = std::from_chars(token.data(), end, *out, base);
  return result.ec == std::errc() && result.ptr == end;
}

}  // namespace simgpu::fatbin
