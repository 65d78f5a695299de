#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tools/simgpu/digest/kernel_name.h"
#include "tools/simgpu/digest/memory.h"
#include "tools/simgpu/digest/role_file.h"

namespace simgpu::digest {

/// Where the roles of a launch come from; the weakest source of all its pointers counts.
enum class Knowledge : std::uint8_t {
  kKnown,     ///< the role file
  kInferred,  ///< const or not, in the types of the parameters
  kUnknown,   ///< nothing is known: read and written
};

/// All that is known of one kernel before it is launched.
struct KernelRoles {
  KernelName name;
  std::vector<Slot> layout;
  const Rule* rule = nullptr;  ///< belongs to the role file, which must live as long
};

/// Looks a kernel up. Costs a demangling and a search: keep the result.
KernelRoles bind(const RoleFile& file, const std::string& mangled_name, std::vector<Slot> layout);

/// Where the rule names a parameter that the kernel does not have, by the line of the file: "3 names
/// parameter 2"; of several lines the first, and how many more. Empty if it names none.
std::string beyond_parameters(const KernelRoles& roles);

/// One launch of it.
struct LaunchInput {
  std::array<std::uint32_t, 3> grid{1, 1, 1};
  std::span<const unsigned char> params;  ///< the parameter buffer, by the layout
};

/// One pointer that the kernel uses.
struct Reference {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;  ///< what is touched from there on; 0: as much as the extent has
  Access access = Access::kNone;
  std::uint32_t param = 0;  ///< where the pointer was found
  std::uint32_t offset = 0;
  std::uint32_t index = 0;  ///< 1 + its number in a table that the parameter points to, else 0
  bool table = false;       ///< the memory is such a table: what its pointers mean counts, not their bytes
};

/// Memory that the launch fills with addresses.
struct AddressFill {
  std::uint64_t address = 0;
  std::uint64_t from = 0;
  std::uint64_t step = 0;
};

/// The pointers of a launch, in an order that does not depend on addresses.
struct References {
  std::vector<Reference> list;
  std::vector<AddressFill> fills;
  std::vector<StrayPointer> strays;
  std::vector<unsigned char> values;  ///< parameters that decide what is computed
  Knowledge knowledge = Knowledge::kKnown;
  bool faulted = false;  ///< a table could not be read
};

/// Finds the pointers of a launch: words of the parameters that point into live memory, and words of tables.
References find_references(const KernelRoles& roles, const LaunchInput& launch, Memory& memory);

}  // namespace simgpu::digest
