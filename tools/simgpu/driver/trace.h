#pragma once

#include <string>

#include "tools/simgpu/timing/timeline.h"

namespace simgpu {

/// Writes what the devices' engines did, in virtual time, into the file that the simgpu command made: events
/// of the Trace Event Format ("complete events"), one a line, which Perfetto and Chrome read. Several
/// processes write into one file; what a killed process had not handed over yet, the last few lines, is
/// missing.
///
/// Not thread-safe: the driver's lock protects it.
class Trace {
 public:
  /// An empty path, or a file that cannot be opened, is a trace that writes nothing.
  explicit Trace(const char* path);
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  [[nodiscard]] bool on() const { return fd_ >= 0; }
  void add(const timing::Slice& slice);
  /// Hands what was added to the file.
  void flush();

 private:
  int fd_ = -1;
  std::string lines_;
};

}  // namespace simgpu
