#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "tests/sim/storm/program.h"

namespace storm {

/// A kernel of a program with addresses.
struct Launch {
  Kind kind;
  std::uint32_t* to;
  std::size_t words;
  const std::uint32_t* from[kMostSources];
  std::size_t from_words[kMostSources];
  unsigned sources;
  std::uint32_t salt;
  unsigned stride;
  unsigned grid;
};

cudaError_t launch(const Launch& launch, cudaStream_t stream);

}  // namespace storm
