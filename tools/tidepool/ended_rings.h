#pragma once

#include <optional>
#include <set>
#include <string>

namespace tidepool::tools {

/// Has any process the file open, or mapped, for writing? If none has, the one that made it has ended, or has
/// become another program. Empty where the system cannot tell (a network's file system).
std::optional<bool> is_written(const std::string& path);
/// Is that known not to be so?
bool is_written_by_nobody(const std::string& path);

/// Gives back the room that a ring of events has for more than are in it; the file keeps its size, and
/// readers find the same events. For rings that nobody writes any more.
void give_back_unused_room(const std::string& path);

/// Sees to the rings of processes that have ended where no log is written from them, so that a run of many
/// short processes does not fill the file system, which as a rule is memory.
class EndedRings {
 public:
  /// `is_read`: somebody may read them later (`tidepool report`), so only unused room goes; else all of it.
  EndedRings(std::string folder, std::string run_id, bool is_read);

  /// Looks at all rings of this run in the folder.
  void sweep();

 private:
  std::string folder_;
  std::string run_id_;
  bool is_read_;
  std::set<std::string> done_;  ///< rings that nothing is left to do about
};

}  // namespace tidepool::tools
