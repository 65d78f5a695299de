#pragma once

namespace tidepool::shim {

/// A guarded stand-in for a driver entry whose name we hook but whose version we do not know. It keeps all
/// arguments as they are; before its first call goes on, everything managed is brought to the device and
/// stays there, since we cannot tell what the call names. Programs ask for many entries that they never call,
/// so asking alone changes nothing.
///
/// Returns `function` itself when all stand-ins are taken (one message). `symbol` is copied.
void* guard_unknown(const char* symbol, void* function) noexcept;

}  // namespace tidepool::shim
