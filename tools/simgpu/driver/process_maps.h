#pragma once

#include <cstdint>

namespace simgpu {

/// The mappings that this process has now; 0 if the system does not say.
std::uint64_t count_process_maps();

/// How many mappings a process should stop at. The kernel refuses more than vm.max_map_count to the whole
/// process; without room below that, the program's own malloc is what fails.
std::uint64_t most_process_maps();

/// The bytes of addresses that this process has now, as RLIMIT_AS counts them; 0 if the system does not say.
std::uint64_t process_address_bytes();

/// True if something is mapped at every page of the range.
bool is_mapped(std::uint64_t base, std::uint64_t bytes);

}  // namespace simgpu
