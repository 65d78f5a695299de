// The dlsym door: `dlsym(libcuda, "cuX")` hands out our hook. Built without sanitizers: it runs before they
// are ready.

#include <dlfcn.h>
#include <link.h>

#include <cstring>

#include "shim/lookup.h"
#include "shim/process.h"
#include "shim/real_driver.h"

// A jump, not a call, for everything that is not ours: dlsym finds out who called it from the return address,
// and RTLD_NEXT means "after that object". Two versions, since both kinds of program are about: the symbol
// moved into libc.so.6 with glibc 2.34.
asm(R"(
.pushsection .text
.globl tp_dlsym
.type tp_dlsym, @function
.p2align 4
tp_dlsym:
  .cfi_startproc
  endbr64
  pushq %rdi
  .cfi_adjust_cfa_offset 8
  pushq %rsi
  .cfi_adjust_cfa_offset 8
  subq $8, %rsp
  .cfi_adjust_cfa_offset 8
  movq 24(%rsp), %rdx
  call tp_route_dlsym
  addq $8, %rsp
  .cfi_adjust_cfa_offset -8
  popq %rsi
  .cfi_adjust_cfa_offset -8
  popq %rdi
  .cfi_adjust_cfa_offset -8
  testq %rax, %rax
  jne 1f
  jmp *tp_real_dlsym(%rip)
1:
  cmpq $-1, %rax
  jne 2f
  xorl %eax, %eax
2:
  ret
  .cfi_endproc
.size tp_dlsym, .-tp_dlsym
.symver tp_dlsym, dlsym@@GLIBC_2.34, remove
.globl tp_dlsym_2_2_5
.type tp_dlsym_2_2_5, @function
.set tp_dlsym_2_2_5, tp_dlsym
.symver tp_dlsym_2_2_5, dlsym@GLIBC_2.2.5, remove
.popsection
)");

void tidepool::shim::find_real_dlsym() noexcept {
  if (__atomic_load_n(&tp_real_dlsym, __ATOMIC_ACQUIRE) != nullptr) return;
  void* found = nullptr;
  // Newest version first: the compatibility symbol walks RTLD_NEXT differently.
  for (const char* version : {"GLIBC_2.34", "GLIBC_2.2.5"}) {
    if ((found = ::dlvsym(RTLD_NEXT, "dlsym", version)) != nullptr) break;
  }
  __atomic_store_n(&tp_real_dlsym, found, __ATOMIC_RELEASE);
}

/// What dlsym(handle, name), called by the code that `caller` is in, shall return instead of the C library's
/// answer; null: nothing of ours; all ones: null.
extern "C" __attribute__((visibility("hidden"), used)) void* tp_route_dlsym(void* handle, const char* name,
                                                                            const void* caller) {
  using namespace tidepool::shim;
  find_real_dlsym();
  if (name != nullptr && (std::strncmp(name, "cuda", 4) == 0 || std::strncmp(name, "nccl", 4) == 0)) {
    void* const found = handle_library_dlsym(handle, name, caller);
    if (found == kNoSymbol) (void)real_dlsym(RTLD_NEXT, name);  // for dlerror
    return found;
  }
  // Only names of the driver, exactly. "cuMemFree_v2" but not "cudaMalloc", "cublasCreate" or
  // "curl_easy_init".
  if (name == nullptr || name[0] != 'c' || name[1] != 'u' || name[2] < 'A' || name[2] > 'Z') return nullptr;
  if (t_depth != 0) return nullptr;
  if (handle == RTLD_NEXT || handle == RTLD_DEFAULT || handle == _r_debug.r_map) {
    void* const found = handle_global_dlsym(handle, name, caller);
    if (found == kNoSymbol) (void)real_dlsym(RTLD_NEXT, name);  // for dlerror
    return found;
  }
  start_process();
  if (g_mode.load(std::memory_order_acquire) == Mode::kDisabled) return nullptr;
  return handle_dlsym(handle, name);
}
