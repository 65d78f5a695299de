#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tools/simgpu/fatbin/arch.h"
#include "tools/simgpu/fatbin/bytes.h"
#include "tools/simgpu/fatbin/problem.h"

namespace simgpu::fatbin {

enum class Kind {
  kPtx,
  kCubin,
  kOther,  ///< intermediate code for the linker, for instance
};

enum class Compression { kNone, kLz4, kZstd };

/// One image of a fat binary. A bare cubin or PTX text counts as a fat binary with one.
struct Entry {
  Kind kind = Kind::kOther;
  Arch arch;
  Compression compression = Compression::kNone;
  std::uint64_t flags = 0;  ///< as written; 0 for bare images
  int ptx_major = 0;        ///< of PTX: its language version, 0 if unknown
  int ptx_minor = 0;
  Bytes stored;                     ///< the payload as it lies in the container
  std::uint64_t inflated_size = 0;  ///< as claimed; the stored size if it is not compressed
};

/// Lists what an image holds, without inflating anything. On an error *out is what came before it.
Problem list_entries(Bytes image, std::vector<Entry>* out);

/// Those that run on a device, best first: binary code before PTX, then as suits_better says, then as listed.
/// The driver takes the first; the others are for entries that turn out to be relocatable.
std::vector<Entry> usable_entries(std::span<const Entry> entries, Capability device);

}  // namespace simgpu::fatbin
