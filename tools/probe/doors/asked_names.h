#pragma once

#include "tools/probe/doors/record_file.h"

namespace tidepool::doors {

/// A driver function that a program asked for by name.
struct AskedName {
  const char* door;    ///< "cuGetProcAddress", "cuGetProcAddress_v2" or "dlsym"
  const char* symbol;  ///< as it was asked for
  int version;         ///< CUDA version of the request; 0 for dlsym
  unsigned long long flags;
  bool had;            ///< the driver has it
  const void* caller;  ///< an address in who asked; null if that cannot be told
};

/// Notes a name that hooks.def lacks, whole or in this version. Thread-safe; copies what it keeps. Does
/// nothing when its room is used up, except to count that.
void note_asked(const AskedName& asked, bool is_version_only) noexcept;

/// A line for each such name, with how often it was asked.
void write_asked(RecordFile& file) noexcept;

/// For a forked child, where no other thread is: as at the start.
void forget_asked() noexcept;

}  // namespace tidepool::doors
