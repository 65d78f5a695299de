// The exported symbols: each one puts its entry into a register and goes on to one place, which notes the
// call with its arguments and jumps to what answers.

#include "tests/fakes/recording_driver/recorded_entry.h"

#include <algorithm>

#if !defined(__x86_64__)
#error "the stubs below are written for x86-64"
#endif

#define TP_STUB(name, scope)                                                                         \
  asm(".pushsection .text\n" scope " " #name "\n.type " #name ", @function\n.p2align 4\n" #name      \
      ":\n  endbr64\n  leaq tp_recorded_" #name "(%rip), %r11\n  jmp tp_record_common\n.size " #name \
      ", .-" #name "\n.popsection\n");

extern "C" {
#define TP_RECORDED(name)                                               \
  __attribute__((visibility("hidden")))                                 \
  tidepool::fakes::RecordedEntry tp_recorded_##name{#name, 0, nullptr}; \
  TP_STUB(name, ".globl")
#include <recorded_entries.inc>
#undef TP_RECORDED
__attribute__((visibility("hidden")))
tidepool::fakes::RecordedEntry tp_recorded_tp_newer_entry{"", 0, nullptr};
TP_STUB(tp_newer_entry, ".local")
}

asm(R"(
.pushsection .text
.p2align 4
.type tp_record_common, @function
tp_record_common:
  .cfi_startproc
  pushq %r9
  .cfi_adjust_cfa_offset 8
  pushq %r8
  .cfi_adjust_cfa_offset 8
  pushq %rcx
  .cfi_adjust_cfa_offset 8
  pushq %rdx
  .cfi_adjust_cfa_offset 8
  pushq %rsi
  .cfi_adjust_cfa_offset 8
  pushq %rdi
  .cfi_adjust_cfa_offset 8
  movq %r11, %rdi
  movq %rsp, %rsi
  subq $8, %rsp
  .cfi_adjust_cfa_offset 8
  call tp_record_called
  addq $8, %rsp
  .cfi_adjust_cfa_offset -8
  popq %rdi
  .cfi_adjust_cfa_offset -8
  popq %rsi
  .cfi_adjust_cfa_offset -8
  popq %rdx
  .cfi_adjust_cfa_offset -8
  popq %rcx
  .cfi_adjust_cfa_offset -8
  popq %r8
  .cfi_adjust_cfa_offset -8
  popq %r9
  .cfi_adjust_cfa_offset -8
  jmp *%rax
  .cfi_endproc
.size tp_record_common, .-tp_record_common
.popsection
)");

// The stubs again, as addresses: their C++ declarations would need everyone's types.
extern "C" {
#define TP_RECORDED(name) extern unsigned char tp_symbol_##name[] asm(#name);
#include <recorded_entries.inc>
#undef TP_RECORDED
extern unsigned char tp_symbol_newer_entry[] asm("tp_newer_entry");
}

namespace tidepool::fakes {

std::span<const EntryRow> recorded_entries() {
  static const EntryRow rows[] = {
#define TP_RECORDED(name) {&tp_recorded_##name, static_cast<void*>(tp_symbol_##name)},
#include <recorded_entries.inc>
#undef TP_RECORDED
  };
  return rows;
}

EntryRow newer_entry() {
  return {&tp_recorded_tp_newer_entry, static_cast<void*>(tp_symbol_newer_entry)};
}

EntryRow find_entry(std::string_view name) {
  const auto rows = recorded_entries();
  const auto at =
      std::lower_bound(rows.begin(), rows.end(), name,
                       [](const EntryRow& row, std::string_view n) { return row.entry->name < n; });
  return at != rows.end() && at->entry->name == name ? *at : EntryRow{nullptr, nullptr};
}

}  // namespace tidepool::fakes
