#pragma once

#include "tests/sim/storm/options.h"
#include "tests/sim/storm/program.h"

namespace storm {

/// Makes a program correctly synchronised: adds the waits that CUDA demands and none that it does not.
/// Whatever streams, the legacy stream's rules and earlier waits order already is left to them. With
/// Feature::k_hostsync some waits are the host's instead of a stream's.
void add_order(const Options& options, Program& program);

}  // namespace storm
