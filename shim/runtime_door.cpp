// The runtime door: exported functions of the CUDA runtime and of NCCL that take note and go on.

#include "shim/runtime_door.h"

#include <iterator>

#include "shim/argument_registers.h"
#include "shim/next_runtime.h"
#include "shim/process.h"
#include "shim/real_driver.h"

#if !defined(__x86_64__)
#error "the entry stubs below are written for x86-64"
#endif

// As in hook_table.cpp an exported symbol is a jump through its slot. The slot's address is for
// tp_runtime_jump.
extern "C" {
#define TP_STUB(name)                                                                         \
  void tp_runtime_entry_##name() __attribute__((visibility("hidden")));                       \
  asm(".pushsection .text\n"                                                                  \
      ".globl " #name "\n.type " #name ", @function\n.globl tp_runtime_entry_" #name          \
      "\n.hidden tp_runtime_entry_" #name "\n.p2align 4\n" #name ":\ntp_runtime_entry_" #name \
      ":\n  endbr64\n  leaq tp_runtime_slot_" #name                                           \
      "(%rip), %rax\n  jmp *(%rax)\n"                                                         \
      ".size " #name ", .-" #name "\n.popsection\n");
#define TP_RUNTIME(name, ...) TP_STUB(name)
#define TP_RUNTIME_PTSZ(name, ...) TP_STUB(name) TP_STUB(name##_ptsz)
#define TP_NCCL(name, ...) TP_STUB(name)
#include "shim/runtime_hooks.def"
#undef TP_NCCL
#undef TP_RUNTIME
#undef TP_RUNTIME_PTSZ
#undef TP_STUB
}

namespace tidepool::shim {
namespace {

constexpr int kSymbolNotFound = 302;  // cudaErrorSharedObjectSymbolNotFound
constexpr int kNcclCudaError = 1;     // ncclUnhandledCudaError
// cudaErrorInsufficientDriver: also where there is none. A runtime that finds no driver calls nothing of ours
// that could tell.
constexpr int kNoDriver = 35;

struct ThreadMark {
  RuntimeMark mark;
  std::uintptr_t frame;  // of the door's function that set it
};
thread_local ThreadMark t_mark __attribute__((tls_model("initial-exec"))) = {};

/// Sets the thread's mark, unless a call further out has one. A mark whose frame is not further out is of a
/// call that was left by longjmp; it counts for nothing.
class MarkGuard {
 public:
  MarkGuard(RuntimeMark mark, std::uintptr_t frame) noexcept
      : is_ours_(t_mark.mark.caller == nullptr || t_mark.frame <= frame) {
    if (is_ours_) t_mark = {mark, frame};
  }
  ~MarkGuard() {
    if (is_ours_) t_mark.mark.caller = nullptr;
  }
  MarkGuard(const MarkGuard&) = delete;
  MarkGuard& operator=(const MarkGuard&) = delete;

 private:
  const bool is_ours_;
};

const void* pointer_in(const void* pointer) noexcept {
  return pointer;
}
const void* pointer_in(std::size_t) noexcept {
  return nullptr;
}
const void* pointer_in(int) noexcept {
  return nullptr;
}

template <RuntimeHook H, class F = typename RuntimeHookType<H>::Function>
struct Door;
template <RuntimeHook H, class... A>
struct Door<H, int(A...)> {
  static int call(A... args) noexcept {
    const void* const caller = __builtin_return_address(0);
    start_process();
    const auto next = reinterpret_cast<int (*)(A...)>(next_runtime(H, caller));
    if (next == nullptr) return kSymbolNotFound;
    if constexpr (RuntimeHookType<H>::kNamesMemory) {
      const void* const pointers[] = {pointer_in(args)...};
      return keep_named(H, pointers) ? next(args...) : kNcclCudaError;
    }
    const MarkGuard guard({caller, H}, reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)));
    const int result = next(args...);
    if (result == kNoDriver) [[unlikely]]
      (void)real_driver();  // says so, once
    return result;
  }
};

// For a function that is nowhere: without this library the loader would have ended the process.
int symbol_not_found() noexcept {
  return kSymbolNotFound;
}

}  // namespace
}  // namespace tidepool::shim

extern "C" {
#define TP_SLOT(name)                                                                     \
  extern tidepool::shim::RuntimeHookType<tidepool::shim::RuntimeHook::name>::Function*    \
      tp_runtime_slot_##name __attribute__((visibility("hidden")));                       \
  constinit tidepool::shim::RuntimeHookType<tidepool::shim::RuntimeHook::name>::Function* \
      tp_runtime_slot_##name = &tidepool::shim::Door<tidepool::shim::RuntimeHook::name>::call;
#define TP_RUNTIME(name, ...) TP_SLOT(name)
#define TP_RUNTIME_PTSZ(name, ...) TP_SLOT(name) TP_SLOT(name##_ptsz)
#define TP_NCCL(name, ...) TP_SLOT(name)
#include "shim/runtime_hooks.def"
#undef TP_NCCL
#undef TP_RUNTIME
#undef TP_RUNTIME_PTSZ
#undef TP_SLOT

void tp_runtime_jump() __attribute__((visibility("hidden")));
}

// Keeps the registers that hold arguments (none of these functions takes a floating-point number), asks where
// to go, and jumps there.
asm(R"(
.pushsection .text
.p2align 4
.globl tp_runtime_jump
.hidden tp_runtime_jump
.type tp_runtime_jump, @function
tp_runtime_jump:
  .cfi_startproc
)" TP_KEEP_ARGUMENTS R"(
  subq $8, %rsp
  .cfi_adjust_cfa_offset 8
  movq %rax, %rdi
  movq 56(%rsp), %rsi
  call tp_runtime_target
  addq $8, %rsp
  .cfi_adjust_cfa_offset -8
)" TP_RESTORE_ARGUMENTS R"(
  jmp *%rax
  .cfi_endproc
.size tp_runtime_jump, .-tp_runtime_jump
.popsection
)");

namespace tidepool::shim {
namespace {

const struct Row {
  const char* name;
  void* slot;
  void* entry;
} kRows[] = {
#define TP_RUNTIME(name, ...) \
  {#name, &tp_runtime_slot_##name, reinterpret_cast<void*>(&tp_runtime_entry_##name)},
#define TP_RUNTIME_PTSZ(name, ...) TP_RUNTIME(name) TP_RUNTIME(name##_ptsz)
#define TP_NCCL(name, ...) TP_RUNTIME(name)
#include "shim/runtime_hooks.def"
#undef TP_NCCL
#undef TP_RUNTIME
#undef TP_RUNTIME_PTSZ
};
static_assert(std::size(kRows) == kRuntimeHookCount);

}  // namespace

const char* runtime_hook_name(RuntimeHook hook) noexcept {
  return kRows[static_cast<std::size_t>(hook)].name;
}

void* runtime_hook_entry(RuntimeHook hook) noexcept {
  return kRows[static_cast<std::size_t>(hook)].entry;
}

RuntimeHook find_runtime_hook(std::string_view symbol) noexcept {
  if (!symbol.starts_with("cuda") && !symbol.starts_with("nccl")) return RuntimeHook::kCount;
  for (std::size_t i = 0; i < kRuntimeHookCount; ++i) {
    if (symbol == kRows[i].name) return static_cast<RuntimeHook>(i);
  }
  return RuntimeHook::kCount;
}

RuntimeMark runtime_mark() noexcept {
  return t_mark.mark;
}

void disable_runtime_door() noexcept {
  for (const Row& row : kRows) *static_cast<void**>(row.slot) = reinterpret_cast<void*>(&tp_runtime_jump);
}

/// Where a call that returns to `caller` jumps when Tidepool is off.
extern "C" __attribute__((visibility("hidden"), used)) void* tp_runtime_target(const void* slot,
                                                                               const void* caller) {
  std::size_t index = 0;
  while (kRows[index].slot != slot) ++index;
  void* const next = next_runtime(static_cast<RuntimeHook>(index), caller);
  return next != nullptr ? next : reinterpret_cast<void*>(&symbol_not_found);
}

}  // namespace tidepool::shim
