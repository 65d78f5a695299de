#include "tools/simgpu/fatbin/ptx_types.h"

#include <algorithm>
#include <array>
#include <bit>

#include "tools/simgpu/fatbin/module.h"

namespace simgpu::fatbin {
namespace {

struct Type {
  std::string_view name;
  std::uint64_t size;
};

/// PTX ISA, "Fundamental Types" and "Texture Sampler and Surface Types" (handles of 64 bits).
constexpr std::array<Type, 22> kTypes{{
    {".b8", 1},    {".u8", 1},     {".s8", 1},      {".b16", 2},        {".u16", 2}, {".s16", 2},
    {".f16", 2},   {".bf16", 2},   {".b32", 4},     {".u32", 4},        {".s32", 4}, {".f32", 4},
    {".f16x2", 4}, {".bf16x2", 4}, {".b64", 8},     {".u64", 8},        {".s64", 8}, {".f64", 8},
    {".b128", 16}, {".texref", 8}, {".surfref", 8}, {".samplerref", 8},
}};

bool starts_name(std::string_view token) {
  return !token.empty() && token[0] != '.' && token[0] != '"' &&
         (token.size() > 1 ||
          std::string_view("()[]{},;=+-:<>@!|&~*/").find(token[0]) == std::string_view::npos);
}

bool read_number(PtxTokens& tokens, std::uint64_t* out) {
  return ptx_integer(tokens.take(), out);
}

/// A type, or a directive that changes what follows. False for an unknown one.
bool read_directive(PtxTokens& tokens, bool* pointer, std::uint64_t* vector, PtxDeclaration* out) {
  const std::string_view token = tokens.take();
  if (const std::uint64_t size = ptx_type_size(token); size != 0) {
    out->type = token;
    out->element_size = size;
    return true;
  }
  if (token == ".align") {
    std::uint64_t align = 0;
    if (!read_number(tokens, &align) || !std::has_single_bit(align) || align > 4096) return false;
    if (!*pointer) out->align = align;  // behind .ptr it speaks of what the pointer points to
    return true;
  }
  if (token == ".ptr") *pointer = true;
  if (token == ".v2" || token == ".v4") *vector = token == ".v2" ? 2 : 4;
  if (token == ".attribute") {
    while (!tokens.done() && !tokens.take_if(")")) out->managed = tokens.take() == ".managed" || out->managed;
  }
  return true;
}

bool read_dimensions(PtxTokens& tokens, PtxDeclaration* out) {
  while (tokens.take_if("[")) {
    std::uint64_t count = 0;
    if (tokens.take_if("]")) {
      out->open_array = true;
      continue;
    }
    if (!read_number(tokens, &count) || !tokens.take_if("]")) return false;
    if (count != 0 && out->size > kLargestSegment / count) return false;
    out->size *= count;
  }
  return true;
}

}  // namespace

std::uint64_t ptx_type_size(std::string_view type) {
  const auto found =
      std::find_if(kTypes.begin(), kTypes.end(), [&](const Type& t) { return t.name == type; });
  return found == kTypes.end() ? 0 : found->size;
}

bool read_declaration(PtxTokens& tokens, PtxDeclaration* out) {
  *out = PtxDeclaration();
  bool pointer = false;
  std::uint64_t vector = 1;
  while (tokens.peek().starts_with('.')) {
    if (!read_directive(tokens, &pointer, &vector, out)) return false;
  }
  if (out->element_size == 0 || !starts_name(tokens.peek())) return false;
  out->name = tokens.take();
  out->element_size *= vector;
  out->size = out->element_size;
  if (out->align == 0) out->align = out->element_size;
  return read_dimensions(tokens, out);
}

}  // namespace simgpu::fatbin
