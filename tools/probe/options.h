#pragma once

#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

namespace tidepool::probe {

/// What the words of the command line ask for.
struct Options {
  std::string section;
  int device = 0;       ///< ordinal, as the driver counts
  double seconds = 20;  ///< at most what a section takes
  bool quick = false;   ///< as few repetitions as show that everything works
  std::string output;   ///< of the section link: where the device profile goes; empty: the usual place
  bool table = false;   ///< of the section link: a table to read instead of JSON
  bool help = false;
  bool list = false;
};

/// Words that make no sense. what() is one line, without the program's name.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Reads the words after the program's name; `sections` are the names that exist. Throws UsageError.
Options parse_options(std::span<char* const> words, std::span<const std::string_view> sections);

}  // namespace tidepool::probe
