#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace tidepool::shim {

// What the rows of runtime_hooks.def need of the CUDA runtime's types: the guest includes none of its
// headers.
using RuntimeStream = struct RuntimeStreamObject*;
using RuntimePool = struct RuntimePoolObject*;
using NcclComm = struct NcclCommObject*;
struct RuntimePitchedPtr {
  void* at;
  std::size_t pitch;
  std::size_t width;
  std::size_t height;
};
struct RuntimeExtent {
  std::size_t width;
  std::size_t height;
  std::size_t depth;
};

/// One enumerator per exported function of the runtime.
enum class RuntimeHook : std::uint8_t {
#define TP_RUNTIME(name, ...) name,
#define TP_RUNTIME_PTSZ(name, ...) name, name##_ptsz,
#define TP_NCCL(name, ...) name,
#include "shim/runtime_hooks.def"
#undef TP_NCCL
#undef TP_RUNTIME
#undef TP_RUNTIME_PTSZ
  kCount
};
inline constexpr std::size_t kRuntimeHookCount = static_cast<std::size_t>(RuntimeHook::kCount);

/// The C type of a hook's function; twins share it.
template <RuntimeHook H>
struct RuntimeHookType;
#define TP_TYPE(name, is_nccl, ...)               \
  template <>                                     \
  struct RuntimeHookType<RuntimeHook::name> {     \
    using Function = __VA_ARGS__;                 \
    static constexpr bool kNamesMemory = is_nccl; \
  };
#define TP_RUNTIME(name, ...) TP_TYPE(name, false, __VA_ARGS__)
#define TP_RUNTIME_PTSZ(name, ...) TP_TYPE(name, false, __VA_ARGS__) TP_TYPE(name##_ptsz, false, __VA_ARGS__)
#define TP_NCCL(name, ...) TP_TYPE(name, true, __VA_ARGS__)
#include "shim/runtime_hooks.def"
#undef TP_NCCL
#undef TP_RUNTIME
#undef TP_RUNTIME_PTSZ
#undef TP_TYPE

/// The symbol's name.
const char* runtime_hook_name(RuntimeHook hook) noexcept;
/// The exported symbol itself.
void* runtime_hook_entry(RuntimeHook hook) noexcept;
/// The hook with exactly this name, or kCount. Hook-safe.
RuntimeHook find_runtime_hook(std::string_view symbol) noexcept;

/// A call of the runtime that this thread is in.
struct RuntimeMark {
  const void* caller;  ///< where it returns to; null: in none
  RuntimeHook hook;
};

/// The outermost call of the runtime that went through the door and has not returned: whatever the runtime
/// asks of the driver meanwhile it asks for that caller. Hook-safe.
RuntimeMark runtime_mark() noexcept;

/// What the runtime door asks for: every block that one of the pointers lies in stays on the device until it
/// is freed. False: one cannot.
bool keep_named(RuntimeHook hook, std::span<const void* const> pointers) noexcept;

/// Start only, with TIDEPOOL_DISABLE=1: every call jumps on to its caller's own runtime and leaves no frame
/// behind.
void disable_runtime_door() noexcept;

}  // namespace tidepool::shim
