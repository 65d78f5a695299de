#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace simgpu::fatbin {

/// Splits PTX into words, numbers and single characters; comments and white space are left out. A word starts
/// with a letter, a digit, '.', '$', '%' or '_' and goes on with letters, digits, '$', '_' and, in directives
/// and numbers, '.'. Text in quotes is one token, with its quotes. The empty token is the end.
class PtxTokens {
 public:
  explicit PtxTokens(std::string_view text) : text_(text) { advance(); }

  /// The token under way.
  [[nodiscard]] std::string_view peek() const { return token_; }
  [[nodiscard]] bool done() const { return token_.empty(); }
  std::string_view take() {
    const std::string_view token = token_;
    advance();
    return token;
  }
  /// Takes the token if it is this one.
  bool take_if(std::string_view expected) {
    if (token_ != expected) return false;
    advance();
    return true;
  }
  /// Passes over everything up to and including the next of these characters outside braces.
  void skip_past(char end);
  /// With the token under way "{": passes over it and what belongs to it.
  void skip_block();

 private:
  void advance();
  void skip_space();

  std::string_view text_;
  std::size_t at_ = 0;
  std::string_view token_;
};

/// A whole number of PTX: decimal, 0x, 0b or octal, with an optional U at its end. False for anything else,
/// or above 64 bits.
bool ptx_integer(std::string_view token, std::uint64_t* out);

}  // namespace simgpu::fatbin
