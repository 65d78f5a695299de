"""A Triton kernel, and how to launch it. Importing this fails where Triton is missing. Triton reads a kernel's source
and looks its names up in the module, so it stands in one of its own."""

import triton
import triton.language as tl


@triton.jit
def double_values(values, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    here = at < count
    tl.store(values + at, 2.0 * tl.load(values + at, mask=here), mask=here)


def scale(tensor):
    """Doubles a float tensor in place, in one launch."""
    count = tensor.numel()
    double_values[(triton.cdiv(count, 256),)](tensor, count, BLOCK=256)
