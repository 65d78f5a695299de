#pragma once

#include <string>

#include "tools/simgpu/machine/report_page.h"

namespace simgpu {

/// The page that this process writes to: its slot's in the machine, and before cuInit one of its own. Leaked.
ReportPage& page() noexcept;

/// From now on page() is this one; what was counted before is added to it. Called by cuInit.
void use_page(ReportPage* shared);

/// Counts a lookup of a name that simgpu does not know.
void note_unknown_entry(const char* name) noexcept;
/// Counts a call of a function that answers CUDA_ERROR_NOT_SUPPORTED.
void note_unsupported(const char* name) noexcept;
/// Counts a request for a private table; `id` is the text of its UUID.
void note_export_table(const char* id) noexcept;

/// Where the roles of a digest's pointers came from.
enum class DigestRoles { kKnown, kInferred, kUnknown };
/// Counts a launch that ran as a digest.
void note_digest(DigestRoles roles, const char* kernel) noexcept;

/// Records an error and prints it as one line "simgpu: error: …" on stderr. Lines after the first 32 are
/// counted only.
void report_error(const std::string& text);

/// Records a race and prints it as one line "simgpu: …" on stderr. The same limit.
void report_race(const std::string& text);

/// Records something that is likely wrong and changes nothing, and prints it in the same way.
void report_warning(const std::string& text);

/// An address as messages show it.
std::string hex(std::uint64_t address);

inline void add(std::atomic<std::uint64_t>& counter, std::uint64_t n = 1) noexcept {
  counter.fetch_add(n, std::memory_order_relaxed);
}

}  // namespace simgpu
