#pragma once

namespace tidepool::shim {

/// The ELF symbol of a kernel, as the driver keeps it (cuFuncGetName, cuda.h 12.3); "(unnamed)" where it
/// cannot be told. `function` is a CUfunction, or a CUkernel that was launched as one. Hook-safe; the text is
/// the driver's.
const char* kernel_symbol(const void* function) noexcept;

}  // namespace tidepool::shim
