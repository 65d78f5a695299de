#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace simgpu::digest {

/// What the type of a parameter says about the memory it points to.
enum class ParamType : std::uint8_t {
  kConstPointer,       ///< const T*
  kPointer,            ///< T*
  kConstPointerTable,  ///< an array of const T*
  kPointerTable,       ///< an array of T*
  kScalar,             ///< a number: no pointer, whatever its value
  kOther,              ///< a class: it may hold pointers
};

/// A kernel's name as its source has it. The parameter list is part of a mangled C++ name, so the types are
/// known there; for extern "C" kernels (and those of other languages) `types_known` is false.
struct KernelName {
  std::string mangled;
  std::string plain;
  bool types_known = false;
  std::vector<ParamType> types;
};

KernelName parse_kernel_name(const std::string& mangled);

/// The kind of a type as the demangler writes it ("float const*").
ParamType classify(std::string_view type);

}  // namespace simgpu::digest
