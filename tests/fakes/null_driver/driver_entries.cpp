// Every entry that the runtime calls itself, as a function that does nothing and succeeds (hook_entries.cpp).

#include "tests/fakes/null_driver/entry_table.h"

#define TP_DRIVER(name)                                                \
  extern "C" __attribute__((weak, visibility("default"))) int name() { \
    return 0;                                                          \
  }
#include "allocator/cuda/driver.def"
#undef TP_DRIVER

namespace tidepool::fakes {

std::span<const NullEntry> null_driver_entries() {
#define TP_DRIVER(name) {#name, reinterpret_cast<void*>(&name)},
  static const NullEntry entries[] = {
#include "allocator/cuda/driver.def"
  };
  return entries;
}

}  // namespace tidepool::fakes
