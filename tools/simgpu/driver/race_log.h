#pragma once

#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "tools/simgpu/ordering/access_history.h"

namespace simgpu {

/// Tells of races: each pair of names once, as one line "simgpu: race: …" on stderr and in the report, every
/// further one as a number. Called under the device lock.
class RaceLog {
 public:
  void unordered(const std::vector<ordering::Race>& races);
  /// The call took away memory that these operations may still use.
  void taken_away(const std::vector<ordering::Race>& users, const char* call);

 private:
  using Key = std::tuple<const void*, const void*, bool, bool>;

  bool count(const ordering::Race& race, const Key& key);

  std::set<Key> told_;
};

}  // namespace simgpu
