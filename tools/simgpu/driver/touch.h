#pragma once

#include <cstdint>
#include <string>

namespace simgpu {

/// Whether device memory can be touched now.
enum class TouchResult : std::uint8_t {
  kReady,
  kIllegal,     ///< nothing is there, or it has no such access
  kNoMappings,  ///< the system refuses this process a further mapping
  kNoMemory,    ///< the system has no memory for it
};

/// True where the touch was legal and the system could not let it happen.
constexpr bool refused(TouchResult touch) {
  return touch == TouchResult::kNoMappings || touch == TouchResult::kNoMemory;
}

/// "What: effect; remedy" for a touch that the system refused.
inline std::string refusal(TouchResult touch, const std::string& effect) {
  return touch == TouchResult::kNoMappings ? "the system refuses this process a further mapping: " + effect +
                                                 "; raise the sysctl vm.max_map_count"
                                           : "the system has no memory for device memory: " + effect +
                                                 "; free some of it, or let the program touch less";
}

}  // namespace simgpu
