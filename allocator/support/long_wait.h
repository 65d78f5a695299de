#pragma once

#include "allocator/support/units.h"

namespace tidepool {

/// When a wait that has no end in sight is told of: after 10 s, and then each time it has become six times as
/// long (1 min, 6 min, ...), so that a log of days has a few lines of it and its last lines still have one.
/// Neither thread- nor signal-safe; hook-safe.
class LongWait {
 public:
  /// Is it to be told of now, after a wait of `waited`? Each of these moments is told of once.
  constexpr bool is_due(Nanos waited) noexcept {
    if (waited < next_) return false;
    while (next_ <= waited) next_ = Nanos(next_.count() * 6);
    return true;
  }

 private:
  Nanos next_ = seconds(10);
};

}  // namespace tidepool
