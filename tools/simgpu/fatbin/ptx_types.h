#pragma once

#include <cstdint>
#include <string_view>

#include "tools/simgpu/fatbin/ptx_tokens.h"

namespace simgpu::fatbin {

/// What stands between .param, .global, … and the semicolon: type, alignment, name and dimensions.
struct PtxDeclaration {
  std::string_view type;  ///< ".u32"
  std::string_view name;
  std::uint64_t element_size = 0;  ///< of one element (of a vector: all its parts)
  std::uint64_t size = 0;
  std::uint64_t align = 0;
  bool managed = false;
  bool open_array = false;  ///< name[]: the size comes from the initial value
};

/// Bytes of a fundamental or opaque type; 0 for what is none.
std::uint64_t ptx_type_size(std::string_view type);

/// Reads a declaration up to, not including, the first of `,` `)` `=` `;`. False if it is none, or larger
/// than kLargestSegment.
bool read_declaration(PtxTokens& tokens, PtxDeclaration* out);

}  // namespace simgpu::fatbin
