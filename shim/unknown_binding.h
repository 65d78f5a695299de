#pragma once

#include <array>

namespace tidepool::shim {

/// The name of a function of the driver that we intercept, in a version that hooks.def does not have, and to
/// which some module of the process is linked: its calls go past us. Empty: there is none among the modules
/// that were loaded when this was first asked.
///
/// Asks the loader the first time: no lock may be held that is taken in a hook.
struct UnknownBinding {
  UnknownBinding() noexcept;
  [[nodiscard]] explicit operator bool() const noexcept { return name[0] != '\0'; }

  std::array<char, 64> name{};
};

}  // namespace tidepool::shim
