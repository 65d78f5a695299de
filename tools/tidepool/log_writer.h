#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "allocator/support/units.h"
#include "tools/tidepool/event_reader.h"
#include "tools/tidepool/supervise.h"

namespace tidepool::tools {

/// Writes the events of a run's processes into logs, one line each. The processes only fill their rings; all
/// files are this process' own, so nothing that the program does (fork, kill, a full disk) can tear a line of
/// them.
class LogWriter {
 public:
  /// `name` is the template of the logs (TIDEPOOL_LOG_FILE), `folder` where the rings are. Only those with
  /// this run's id are read: a folder may be shared with other runs, before, beside and inside this one.
  LogWriter(std::string name, Bytes most, std::string folder, std::string run_id);
  ~LogWriter();
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  /// Writes what is new; the span after which to call again.
  Nanos drain();
  /// The program has ended: writes the rest, and how it ended into the log of `pid`, if that has one.
  void finish(std::int64_t pid, const Ending& ending, Nanos took);
  /// Is this the name of the command's own stderr? Then the logs of all processes go there, line by line.
  static bool is_stderr(std::string_view name);
  /// What kept a log from being written, once; empty: nothing did.
  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  struct Log;
  void note_problem(const std::string& problem);
  void open(Log& log);
  void write(Log& log, const std::string& line);
  std::string path_of(const std::string& ring, const EventSource& source);
  void find_rings();
  std::uint64_t drain_all(bool is_last);
  std::uint64_t drain_one(Log& log, bool is_last);
  void let_go_of_ended();

  std::string name_;
  Bytes most_;
  std::string folder_;
  std::string run_id_;
  std::set<std::string> not_ours_;  ///< rings of other runs, and those that were read to their end
  Nanos next_look_{};               ///< for rings of processes that have ended
  std::string options_;
  std::string problem_;
  std::set<std::string> paths_;                       ///< of the logs: no two processes share one
  std::map<std::string, std::unique_ptr<Log>> logs_;  ///< by name of the ring
  std::deque<std::unique_ptr<Log>> ended_;            ///< the last ones; finish() may have a line to add
};

}  // namespace tidepool::tools
