#pragma once

#include <string>
#include <vector>

namespace tidepool::tools {

/// The folder that the processes of one run put their stats pages into.
class RunFolder {
 public:
  /// A private folder (0700) under XDG_RUNTIME_DIR, TMPDIR or /tmp; removed with this object. What a run that
  /// was killed left there is removed now.
  RunFolder();
  /// The user's folder, made if it is missing; stays.
  explicit RunFolder(const std::string& path);
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  /// Absolute; empty if there is none, then `problem` says why.
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const std::string& problem() const { return problem_; }

  /// Takes back what was made for the user's folder, as far as it is empty: for a look at whether it can be.
  void unmake();

 private:
  std::string path_;
  std::string problem_;
  std::vector<std::string> made_;  ///< folders that were not there, innermost first
  bool is_private_ = false;
  int owner_ = -1;  ///< its lock says that the folder is in use
};

}  // namespace tidepool::tools
