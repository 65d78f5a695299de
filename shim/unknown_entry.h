#pragma once

namespace tidepool::shim {

/// A guarded stand-in for a driver entry whose name we hook but whose version we do not know. It keeps all
/// arguments as they are; before its first call goes on, everything managed is brought to the device and
/// stays there, since we cannot tell what the call names. Programs ask for many entries that they never call,
/// so asking alone changes nothing.
///
/// When all stand-ins are taken (one message): a function that answers CUDA_ERROR_NOT_SUPPORTED. `symbol` is
/// copied. Guards the calls of an active process only: a forked child's go straight through.
void* guard_unknown(const char* symbol, void* function) noexcept;

}  // namespace tidepool::shim
