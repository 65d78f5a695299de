#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "tests/sim/storm/calls.h"
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

cudaError_t launch(const Launch& launch, cudaStream_t stream, const Calls& calls);

/// What a gather reads. A list of tensors as a library packs it: small numbers first, pointers deep inside.
struct Sources {
  unsigned char count;
  struct {
    unsigned flags;
    struct {
      const std::uint32_t* at;
      std::size_t words;
    } in[kMostSources];
  } list;
};
Sources sources_of(const Launch& launch);

/// launch() of a gather whose sources are on the device.
cudaError_t launch_by_table(const Launch& launch, const Sources* table, cudaStream_t stream,
                            const Calls& calls);

}  // namespace storm
