#include "tools/simgpu/fatbin/ptx_values.h"

#include <charconv>
#include <cstring>

namespace simgpu::fatbin {
namespace {

void append(std::vector<std::byte>* bytes, std::uint64_t value, std::uint64_t size) {
  const std::size_t at = bytes->size();
  bytes->resize(at + size);
  std::memcpy(bytes->data() + at, &value, size < sizeof value ? size : sizeof value);
}

bool hex(std::string_view digits, std::size_t expected, std::uint64_t* out) {
  const char* end = digits.data() + digits.size();
  const auto result = std::from_chars(digits.data(), end, *out, 16);
  return digits.size() == expected && result.ec == std::errc() && result.ptr == end;
}

/// 0f3F800000, 0d3FF0000000000000 or a decimal fraction, as the bits of the type.
bool floating(std::string_view token, std::string_view type, bool negative, std::uint64_t* out) {
  const bool wide = type == ".f64";
  if (token.size() < 2) return false;
  const char mark = token[1];
  if (token[0] == '0' && (mark == 'f' || mark == 'F')) return !wide && hex(token.substr(2), 8, out);
  if (token[0] == '0' && (mark == 'd' || mark == 'D')) return wide && hex(token.substr(2), 16, out);
  double value = 0;
  const char* end = token.data() + token.size();
  const auto result = std::from_chars(token.data(), end, value);
  if (result.ec != std::errc() || result.ptr != end || token.find('.') == std::string_view::npos)
    return false;
  if (negative) value = -value;
  const auto narrow = static_cast<float>(value);
  *out = 0;
  std::memcpy(out, wide ? static_cast<const void*>(&value) : &narrow, wide ? sizeof value : sizeof narrow);
  return true;
}

bool starts_number(char c) {
  return c >= '0' && c <= '9';
}

bool read_address(PtxTokens& tokens, const PtxDeclaration& declaration, PtxValue* out) {
  if (declaration.type != ".u64" && declaration.type != ".b64") return false;
  std::string_view name = tokens.take();
  if (name == "generic") {
    if (!tokens.take_if("(")) return false;
    name = tokens.take();
    if (!tokens.take_if(")")) return false;
  }
  std::uint64_t added = 0;
  if (tokens.take_if("+") && !ptx_integer(tokens.take(), &added)) return false;
  out->addresses.push_back({out->bytes.size(), name});
  append(&out->bytes, added, sizeof added);
  return true;
}

bool read_item(PtxTokens& tokens, const PtxDeclaration& declaration, PtxValue* out) {
  const bool negative = tokens.take_if("-");
  const std::string_view token = tokens.peek();
  if (token.empty()) return false;
  if (!starts_number(token[0])) return !negative && read_address(tokens, declaration, out);
  tokens.take();
  const std::uint64_t size = ptx_type_size(declaration.type);
  std::uint64_t value = 0;
  const bool is_float = declaration.type == ".f32" || declaration.type == ".f64";
  if (is_float ? !floating(token, declaration.type, negative, &value) : !ptx_integer(token, &value))
    return false;
  if (!is_float && negative) value = 0 - value;
  append(&out->bytes, value, size);
  // 0xFF(name) is one byte of an address.
  return tokens.peek() != "(";
}

}  // namespace

bool read_value(PtxTokens& tokens, const PtxDeclaration& declaration, PtxValue* out) {
  if (!tokens.take_if("{")) return read_item(tokens, declaration, out);
  if (tokens.take_if("}")) return true;
  do {
    if (!read_item(tokens, declaration, out)) return false;
  } while (tokens.take_if(","));
  return tokens.take_if("}");
}

}  // namespace simgpu::fatbin
