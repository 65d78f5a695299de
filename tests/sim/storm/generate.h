#pragma once

#include "tests/sim/storm/options.h"
#include "tests/sim/storm/program.h"

namespace storm {

/// A random program. The same options give the same program; the first N steps of a longer one are those of a
/// program of N steps; and a step draws its numbers from the seed and its own number alone, so that leaving
/// one out changes the others no more than what they find does. At the end everything that is left is checked
/// and freed.
Program generate(const Options& options);

}  // namespace storm
