#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "tools/simgpu/fatbin/ptx_tokens.h"
#include "tools/simgpu/fatbin/ptx_types.h"

namespace simgpu::fatbin {

/// An address in an initial value, by the name of what it points to.
struct PtxAddress {
  std::uint64_t offset = 0;  ///< of the 8 bytes in the value; they hold what is added to the address
  std::string_view name;
};

/// The bytes that stand behind the = of a variable.
struct PtxValue {
  std::vector<std::byte> bytes;
  std::vector<PtxAddress> addresses;
};

/// Reads a number, an address, or a list of them in braces, up to the , or ; behind it. False, with the
/// tokens at an unspecified place before that , or ;, for what is not understood: nested lists, bytes of an
/// address, labels of functions in types other than .u64 and .b64.
bool read_value(PtxTokens& tokens, const PtxDeclaration& declaration, PtxValue* out);

}  // namespace simgpu::fatbin
