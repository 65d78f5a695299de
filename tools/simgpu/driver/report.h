#pragma once

#include <string>

#include "tools/simgpu/report/page.h"

namespace simgpu {

/// The page that this process writes to: the shared one if it owns it, otherwise a private one that nobody
/// reads. Never null; leaked.
ReportPage& page() noexcept;

/// Maps the shared page and claims it for this process if it is the first. Called once, by cuInit.
void open_page(const std::string& path);

/// Counts a lookup of a name that simgpu does not know.
void note_unknown_entry(const char* name) noexcept;
/// Counts a call of a function that answers CUDA_ERROR_NOT_SUPPORTED.
void note_unsupported(const char* name) noexcept;
/// Counts a request for a private table; `id` is the text of its UUID.
void note_export_table(const char* id) noexcept;

/// Records an error and prints it as one line "simgpu: error: …" on stderr. Lines after the first 32 are
/// counted only.
void report_error(const std::string& text);

inline void add(std::atomic<std::uint64_t>& counter, std::uint64_t n = 1) noexcept {
  counter.fetch_add(n, std::memory_order_relaxed);
}

}  // namespace simgpu
