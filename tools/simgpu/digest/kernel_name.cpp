#include "tools/simgpu/digest/kernel_name.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>

namespace simgpu::digest {
namespace {

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

bool drop_suffix(std::string_view* text, std::string_view suffix) {
  if (!text->ends_with(suffix)) return false;
  text->remove_suffix(suffix.size());
  *text = trimmed(*text);
  return true;
}

/// Removes qualifiers of the outermost level from the end; true if const was among them.
bool drop_qualifiers(std::string_view* type) {
  bool is_const = false;
  for (bool found = true; found;) {
    found = drop_suffix(type, " volatile") || drop_suffix(type, " __restrict__") ||
            drop_suffix(type, " __restrict");
    if (drop_suffix(type, " const")) is_const = found = true;
  }
  return is_const;
}

/// The text between the last opening parenthesis of the outermost level and the one that ends the name.
std::optional<std::string_view> parameter_list(std::string_view name) {
  if (name.empty() || name.back() != ')') return std::nullopt;
  int depth = 0;
  for (std::size_t i = name.size(); i-- > 0;) {
    const char c = name[i];
    if (c == ')' || c == ']' || c == '}') ++depth;
    if ((c == '(' || c == '[' || c == '{') && --depth == 0) return name.substr(i + 1, name.size() - i - 2);
  }
  return std::nullopt;
}

/// Splits at commas that no bracket encloses; nullopt where brackets do not match.
std::optional<std::vector<std::string_view>> split_types(std::string_view list) {
  std::vector<std::string_view> types;
  if (trimmed(list).empty()) return types;
  int depth = 0;
  std::size_t start = 0;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const char c = list[i];
    if (c == '<' || c == '(' || c == '[' || c == '{') ++depth;
    const bool arrow = c == '>' && i > 0 && list[i - 1] == '-';
    if ((c == '>' && !arrow) || c == ')' || c == ']' || c == '}') --depth;
    if (depth < 0) return std::nullopt;
    if (c == ',' && depth == 0) {
      types.push_back(trimmed(list.substr(start, i - start)));
      start = i + 1;
    }
  }
  if (depth != 0) return std::nullopt;
  types.push_back(trimmed(list.substr(start)));
  return types;
}

bool is_number(std::string_view type) {
  constexpr std::string_view kNumbers[] = {
      "bool",  "char",         "signed char", "unsigned char", "short",     "unsigned short",
      "int",   "unsigned int", "long",        "unsigned long", "long long", "unsigned long long",
      "float", "double",       "__half",      "__nv_bfloat16", "c10::Half", "c10::BFloat16"};
  return std::find(std::begin(kNumbers), std::end(kNumbers), type) != std::end(kNumbers);
}

}  // namespace

ParamType classify(std::string_view type) {
  type = trimmed(type);
  drop_qualifiers(&type);
  if (is_number(type)) return ParamType::kScalar;
  if (!drop_suffix(&type, "*")) return ParamType::kOther;
  const bool to_const = drop_qualifiers(&type);
  if (!drop_suffix(&type, "*")) return to_const ? ParamType::kConstPointer : ParamType::kPointer;
  return drop_qualifiers(&type) ? ParamType::kConstPointerTable : ParamType::kPointerTable;
}

KernelName parse_kernel_name(const std::string& mangled) {
  KernelName name;
  name.mangled = mangled;
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> plain(
      abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status), &std::free);
  name.plain = status == 0 ? plain.get() : mangled.c_str();
  if (status != 0) return name;
  const auto list = parameter_list(name.plain);
  if (!list.has_value()) return name;
  const auto types = split_types(*list);
  if (!types.has_value()) return name;
  name.types_known = true;
  for (const std::string_view type : *types) name.types.push_back(classify(type));
  return name;
}

}  // namespace simgpu::digest
