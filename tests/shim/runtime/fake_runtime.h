#pragma once

#include <cstddef>

namespace tidepool::test {

/// What a fake runtime noted of the last call.
struct RuntimeCall {
  char name[40];
  char caller[400];  ///< file of the module that it returns to
  void* stream;
};

/// More than this a fake runtime refuses by itself.
inline constexpr std::size_t kTooMuch = std::size_t{1} << 40;

}  // namespace tidepool::test
