#pragma once

/// Assembler text for functions that look at a call and pass it on: keeps the six registers that hold whole
/// numbers and addresses among the arguments (System V x86-64 ABI, 3.2.3), with the unwinder told. 48 bytes
/// of stack: a call after TP_KEEP_ARGUMENTS needs 8 more, or 8 and a multiple of 16, to find it aligned.
#define TP_KEEP_ARGUMENTS                      \
  "  pushq %rdi\n  .cfi_adjust_cfa_offset 8\n" \
  "  pushq %rsi\n  .cfi_adjust_cfa_offset 8\n" \
  "  pushq %rdx\n  .cfi_adjust_cfa_offset 8\n" \
  "  pushq %rcx\n  .cfi_adjust_cfa_offset 8\n" \
  "  pushq %r8\n  .cfi_adjust_cfa_offset 8\n"  \
  "  pushq %r9\n  .cfi_adjust_cfa_offset 8\n"

/// Gives them back.
#define TP_RESTORE_ARGUMENTS                   \
  "  popq %r9\n  .cfi_adjust_cfa_offset -8\n"  \
  "  popq %r8\n  .cfi_adjust_cfa_offset -8\n"  \
  "  popq %rcx\n  .cfi_adjust_cfa_offset -8\n" \
  "  popq %rdx\n  .cfi_adjust_cfa_offset -8\n" \
  "  popq %rsi\n  .cfi_adjust_cfa_offset -8\n" \
  "  popq %rdi\n  .cfi_adjust_cfa_offset -8\n"
