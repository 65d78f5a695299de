#pragma once

/// What the fat binary of content_hash.cu holds, for those who load it.
namespace tidepool::runtime {

inline constexpr const char* kHashKernelName = "tidepool_content_hash";
/// Hashes that may be under way at one time; more wait for each other on the device.
inline constexpr unsigned kHashSlots = 63;

}  // namespace tidepool::runtime
