#pragma once

namespace tidepool::probe {

/// Where a kernel touches what it must not.
enum class FaultPlace {
  kUnmapped,     ///< inside a reservation in which nothing is mapped
  kPastMapping,  ///< the first byte behind a mapping, inside the same reservation
  kAfterUnmap,   ///< where memory was mapped, and used, until just now
};

struct FaultCase {
  const char* name;  ///< what its records' names begin with
  FaultPlace place;
  bool write;
  bool own_context;  ///< in a context that the process created, not in the primary one
};

/// What matters most comes first: a section that is cut off has told it.
inline constexpr FaultCase kFaultCases[] = {
    {"unmapped_write", FaultPlace::kUnmapped, true, false},
    {"created_context_write", FaultPlace::kUnmapped, true, true},
    {"after_unmap_read", FaultPlace::kAfterUnmap, false, false},
    {"unmapped_read", FaultPlace::kUnmapped, false, false},
    {"past_mapping_write", FaultPlace::kPastMapping, true, false},
    {"past_mapping_read", FaultPlace::kPastMapping, false, false},
    {"after_unmap_write", FaultPlace::kAfterUnmap, true, false},
};

}  // namespace tidepool::probe
