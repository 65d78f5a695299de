/// The fat binary of kernels.cu as bytes of the program. TP_PROBE_KERNEL_IMAGE is its path.
__asm__(
    ".section .rodata\n"
    ".balign 16\n"
    ".globl tp_probe_kernel_image\n"
    ".hidden tp_probe_kernel_image\n"
    ".type tp_probe_kernel_image, @object\n"
    "tp_probe_kernel_image:\n"
    ".incbin \"" TP_PROBE_KERNEL_IMAGE
    "\"\n"
    ".size tp_probe_kernel_image, . - tp_probe_kernel_image\n"
    ".previous\n");
