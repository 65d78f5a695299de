#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tidepool::tools {

/// What the parts of a path template stand for.
struct TemplateValues {
  std::int64_t pid = 0;    ///< %p
  std::string host;        ///< %h
  std::string program;     ///< %e
  std::string time;        ///< %t: 20261128-154501, local time
  std::string rank = "0";  ///< %r
  std::string job = "0";   ///< %j
  std::string run_folder;  ///< %R; empty: not allowed here
};

/// The values of this process, for a program of this name: rank and job from the variables that job starters
/// set (RANK, OMPI_COMM_WORLD_RANK, PMI_RANK, SLURM_PROCID; SLURM_JOB_ID, PBS_JOBID, LSB_JOBID), "0" without
/// them.
TemplateValues template_values(const std::string& program);

/// Fills in %p %h %e %t %r %j %R, %q{VARIABLE} and %%. On a mistake the result is empty and `why` continues
/// "<template> is not valid: ".
std::string fill_template(std::string_view text, const TemplateValues& values, std::string* why);

}  // namespace tidepool::tools
