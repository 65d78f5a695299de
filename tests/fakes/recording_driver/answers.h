#pragma once

#include <span>
#include <string_view>

#include "tests/fakes/null_driver/entry_table.h"

namespace tidepool::fakes {

/// What answers in the recording driver, before the null driver's functions do: kernels and their parameters,
/// lookups and the start, and plain objects. Everything that none of them has succeeds and does nothing.
std::span<const NullEntry> kernel_answers();
std::span<const NullEntry> lookup_answers();
std::span<const NullEntry> object_answers();

/// The function that answers for an entry.
void* answer_of(std::string_view name);

/// Name of the kernel that a CUfunction or CUkernel handle stands for; "" if it is none of ours.
std::string_view kernel_name(const void* handle);

}  // namespace tidepool::fakes
