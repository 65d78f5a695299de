#include "shim/unknown_entry.h"

#include <cuda.h>

#include <cstdio>
#include <mutex>

#include "allocator/support/message.h"
#include "shim/argument_registers.h"

namespace {

constexpr int kRoom = 256;  // as the table in the assembly below

struct Unknown {
  void* function;
  char symbol[64];
};

constinit Unknown g_unknown[kRoom] = {};
constinit std::mutex g_lock;
int g_count = 0;  // g_lock

// For a caller with any arguments (x86-64: the caller cleans up).
int not_supported() noexcept {
  return CUDA_ERROR_NOT_SUPPORTED;
}
int out_of_memory() noexcept {
  return CUDA_ERROR_OUT_OF_MEMORY;
}

}  // namespace

/// What a stand-in calls before it jumps: returns where to.
extern "C" __attribute__((visibility("hidden"), used)) void* tp_unknown_called(int index) {
  const Unknown& entry = g_unknown[index];
  if (!tidepool::shim::handle_unknown(entry.symbol)) return reinterpret_cast<void*>(&out_of_memory);
  return entry.function;
}

// Stand-in number i: saves every register that can hold an argument, asks where to go, restores, jumps.
asm(R"(
.pushsection .text
.p2align 4
.globl tp_unknown_table
.hidden tp_unknown_table
.type tp_unknown_table, @function
tp_unknown_table:
  .cfi_startproc
.set tp_index, 0
.rept 256
  .p2align 4
  endbr64
  movl $tp_index, %eax
  jmp tp_unknown_common
  .set tp_index, tp_index + 1
.endr
  .cfi_endproc
.size tp_unknown_table, .-tp_unknown_table
.type tp_unknown_common, @function
tp_unknown_common:
  .cfi_startproc
)" TP_KEEP_ARGUMENTS R"(
  subq $136, %rsp
  .cfi_adjust_cfa_offset 136
  movups %xmm0, (%rsp)
  movups %xmm1, 16(%rsp)
  movups %xmm2, 32(%rsp)
  movups %xmm3, 48(%rsp)
  movups %xmm4, 64(%rsp)
  movups %xmm5, 80(%rsp)
  movups %xmm6, 96(%rsp)
  movups %xmm7, 112(%rsp)
  movl %eax, %edi
  call tp_unknown_called
  movups (%rsp), %xmm0
  movups 16(%rsp), %xmm1
  movups 32(%rsp), %xmm2
  movups 48(%rsp), %xmm3
  movups 64(%rsp), %xmm4
  movups 80(%rsp), %xmm5
  movups 96(%rsp), %xmm6
  movups 112(%rsp), %xmm7
  addq $136, %rsp
  .cfi_adjust_cfa_offset -136
)" TP_RESTORE_ARGUMENTS R"(
  jmp *%rax
  .cfi_endproc
.size tp_unknown_common, .-tp_unknown_common
.popsection
)");

extern "C" __attribute__((visibility("hidden"))) unsigned char tp_unknown_table[];

namespace tidepool::shim {

void* guard_unknown(const char* symbol, void* function) noexcept {
  constexpr std::size_t kStandInSize = 16;
  const std::lock_guard guard(g_lock);
  int index = 0;
  while (index < g_count && g_unknown[index].function != function) ++index;
  if (index == kRoom) {
    report<Msg::TP1014>(symbol);
    return reinterpret_cast<void*>(&not_supported);
  }
  if (index == g_count) {
    g_unknown[index].function = function;
    std::snprintf(g_unknown[index].symbol, sizeof g_unknown[index].symbol, "%s", symbol);
    ++g_count;
  }
  return tp_unknown_table + kStandInSize * static_cast<std::size_t>(index);
}

void lock_unknown_for_fork() noexcept {
  g_lock.lock();
}
void unlock_unknown_after_fork() noexcept {
  g_lock.unlock();
}

}  // namespace tidepool::shim
