#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "allocator/support/result.h"

namespace tidepool {

/// What a device and its link can do and cost, as a profile file (TOML) says it;
/// docs/reference/device-profiles.md describes every number. Rates are per second, costs in nanoseconds.
struct DeviceProfile {
  using Whole = std::int64_t;
  using Real = double;

  std::string name;    ///< what programs are told the device is called
  std::string source;  ///< where the numbers come from, for readers; may be empty
  int compute_major = 0, compute_minor = 0;
#define TP_PROFILE_FIELD(table, key, type, low, high, want) type table##_##key = 0;
#include "allocator/support/device_profile.def"
#undef TP_PROFILE_FIELD
};

/// Why a profile was refused: one line that names the file, the line where there is one, and what would be
/// taken.
struct ProfileError {
  std::string text;
};

/// Reads the text of a profile. Refused are: what is no TOML, a key that is missing (all of them are named),
/// unknown (with a suggestion) or of the wrong type, a number outside its range, characters outside of ASCII,
/// and more than 64 KiB. `file` names the text in errors.
Result<DeviceProfile, ProfileError> parse_device_profile(std::string_view text,
                                                         std::string_view file) noexcept;

/// Reads a profile from a file if the word has a '/' or ends in ".toml", else the one of this name in
/// `folder`. An unknown name is refused with a suggestion and the list of names.
Result<DeviceProfile, ProfileError> load_device_profile(std::string_view name_or_file,
                                                        std::string_view folder) noexcept;

/// What stands behind a number of a profile as its comment: where it comes from. Empty: nothing.
using ProfileRemark = std::string_view (*)(std::string_view table, std::string_view key);

/// The profile as the text of a file, which parse_device_profile() reads as the same again. What is not ASCII
/// in name and source becomes '?'.
std::string device_profile_text(const DeviceProfile& profile, ProfileRemark remark = nullptr);

/// The names that load_device_profile() finds in the folder, sorted.
std::vector<std::string> device_profile_names(std::string_view folder);

}  // namespace tidepool
