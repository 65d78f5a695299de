#pragma once

#include <string>

#include "tools/simgpu/cmd/child.h"
#include "tools/simgpu/cmd/options.h"
#include "tools/simgpu/cmd/profile.h"
#include "tools/simgpu/report/page.h"

namespace simgpu::cmd {

/// The report as JSON, schema "simgpu.report/1". Sizes end in _bytes. Calls and unknown entry points are
/// objects from name to count; calls that were never made are left out.
std::string report_json(const ReportPage& page, const Options& options, const Profile& profile,
                        const Ending& ending);

}  // namespace simgpu::cmd
