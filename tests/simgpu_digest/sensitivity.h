#pragma once

#include <cstdint>

#include "tests/simgpu_digest/device.h"

namespace digest_test {

/// What may happen to 4 KiB of one copy.
enum class Damage { kNone, kDropped, kStale };

/// Runs a job of about two hundred launches over buffers of 64 KiB to `largest` bytes, in less memory than
/// they need: what a launch reads comes back from the host before it, and goes out again when it was written.
/// One 4 KiB piece of one copy is dropped (its place keeps what was there) or stale (it is what the buffer
/// held before); the seed chooses which. The piece begins anywhere in the copy. Returns a digest of all that
/// the job leaves.
dg::Mix run_job(std::uint64_t seed, Damage damage, const dg::Stride& stride, std::size_t largest);

}  // namespace digest_test
