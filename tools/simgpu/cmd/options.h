#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace simgpu::cmd {

/// Something the user typed cannot be used; what() is one line that says what and what to do.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The command line.
struct Options {
  bool help = false;
  bool version = false;
  std::string device = "h100";  ///< profile name or file
  std::optional<std::uint64_t> memory_bytes;
  std::uint64_t seed = 1;
  std::string schedule = "adversarial";
  std::string report;  ///< file of the JSON report; empty: none
  std::vector<std::string> command;
};

/// Everything after the first "--" is the command. Throws UsageError.
Options parse_options(const std::vector<std::string>& words);

/// The text of --help.
const char* help_text();

}  // namespace simgpu::cmd
