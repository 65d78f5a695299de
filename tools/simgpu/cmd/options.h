#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace simgpu::cmd {

/// Something the user typed cannot be used, and nothing is run; what() is one line that says what and what to
/// do.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The command line.
struct Options {
  bool help = false;
  bool version = false;
  std::vector<std::string>
      devices;  ///< of each device the name or file of its profile; h100 if none is given
  std::vector<std::uint64_t> memory_bytes;  ///< none: the profiles'; one: of each device; else one for each
  std::uint64_t seed = 1;
  std::string schedule = "adversarial";
  std::uint32_t processes = 0;  ///< that start at the same virtual time; 0: nobody is waited for
  std::string digest = "4k";    ///< how much digests look at, a name of digest/sample.h
  std::string roles;            ///< file of kernels' roles; empty: SIMGPU_ROLES or the shipped one
  std::string faults;           ///< file of the fault plan; empty: none
  std::string clock = "virtual";
  std::string host_time = "fixed";
  std::string trace;       ///< file of the trace of the engines; empty: none
  std::string report;      ///< file of the JSON report; empty: none
  int error_exitcode = 0;  ///< how to end where the command ended well and the report has findings; 0: well
  bool summary = false;    ///< a readable report on stderr
  std::vector<std::string> command;
};

/// Everything after the first "--" is the command. Throws UsageError.
Options parse_options(const std::vector<std::string>& words);

/// The text of --help.
const char* help_text();

}  // namespace simgpu::cmd
