#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "tools/simgpu/cmd/child.h"
#include "tools/simgpu/machine/machine.h"

namespace simgpu::cmd {

/// The report as JSON, schema "simgpu.report/2" (docs/reference/simgpu-report.md).
std::string report_json(const Machine& machine, const Ending& ending);

/// The report for people: some lines, each ending in a newline.
std::string report_text(const Machine& machine);

/// One line for a run without report_text() in which kernels ran as digests; empty if none did.
std::string digest_note(const Machine& machine);

/// Races that are certain and errors, as "1 race and 2 errors"; empty if there are none.
std::string findings(const Machine& machine);

/// The numbers of all processes together.
std::unique_ptr<ReportPage> all_processes(const Machine& machine);

/// How often each driver function was called; only those that were.
std::map<std::string, std::uint64_t> calls_made(const ReportPage& page);

/// A list of names with how often each came.
std::map<std::string, std::uint64_t> names_of(const ReportPage::NameList& list);

/// Kernels that ran as digests, by name, with the number of launches, as far as they are listed.
std::map<std::string, std::uint64_t> digests_run(const ReportPage& page);

/// Launches that ran as digests and whose kernel found no place in the lists.
std::uint64_t digests_not_listed(const ReportPage& page);

/// Errors that have a text.
std::size_t error_texts(const ReportPage& page);

}  // namespace simgpu::cmd
