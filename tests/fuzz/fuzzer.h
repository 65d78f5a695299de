#pragma once

#include <cstddef>
#include <cstdint>

/// What every fuzzer defines: reads one input and returns 0, whatever the input is. The memory has exactly
/// `size` bytes, so that AddressSanitizer sees a read past its end. A promise that does not hold ends in
/// fuzz_require.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

/// Ends the process if a promise does not hold, in every kind of build.
inline void fuzz_require(bool holds) {
  if (!holds) __builtin_trap();
}
