"""Plans that make calls of the driver fail, and what must hold of a run under one."""

import random
import re
from pathlib import Path

import storm_run

ROOT = Path(__file__).resolve().parents[3]
TABLES = (ROOT / "allocator/cuda/driver.def", ROOT / "shim/hooks.def", ROOT / "shim/asked.def")
ROW = re.compile(r"^TP_(?:DRIVER|HOOK|HOOK_PTSZ|HOOK_PTDS|ASKED)\((\w+)")
# An error that passes, and one that programs do not expect.
ERRORS = {"CUDA_ERROR_OUT_OF_MEMORY": "cudaErrorMemoryAllocation", "CUDA_ERROR_UNKNOWN": "cudaErrorUnknown"}
# nvcc's code asks for a kernel's handle once: a second thread that launches the kernel is told so where that failed.
LOADS = {"cuLibraryLoadData", "cuLibraryGetKernel"}
NO_KERNEL = "cudaErrorInvalidResourceHandle"
# A call that fails in a capture ends the capture.
CAPTURE_BROKEN = "cudaErrorStreamCaptureInvalidated"
# What a plan cannot make fail (docs/reference/fault-plans.md).
IMMUNE = {"cuGetProcAddress", "cuGetProcAddress_v2"}
# Where a question fails again and again memory is only watched, and Tidepool says so: nothing holds the budget then.
UNMANAGED = "TP1011"


def functions(tables=TABLES):
    """Every name in the tables, once."""
    names = []
    for table in tables:
        for line in table.read_text().splitlines():
            match = ROW.match(line)
            if match and match[1] not in names:
                names.append(match[1])
    return names


def wrong(run, plain, budget, errors, only_ours, unmanaged):
    """What is wrong with a run in which calls failed; None: nothing. `errors`: what the program may be told besides out
    of memory; `only_ours`: it may be told nothing; `unmanaged`: Tidepool may not have come to manage all memory."""
    if run.code is None:
        return "hang"
    if run.code == 0:
        if run.out != plain.out:
            return "the output is another"
        if run.races:
            return f"{run.races} races"
        if max(run.peaks) > budget and not unmanaged:
            return f"the peak is {max(run.peaks)} of {budget}"
        if run.left:
            return f"{run.left} bytes are left"
        return storm_run.broken_checks(run)
    if only_ours:
        return f"exit {run.code}, though only Tidepool makes this call"
    if run.code not in (storm_run.OUT_OF_MEMORY, storm_run.OTHER_ERROR):
        return f"exit {run.code}"
    if not any(name in run.err for name in (*errors, "cudaErrorMemoryAllocation")):
        return f"exit {run.code} with another error"
    return None


def wrong_under_plan(run, plain, budget, plan):
    """The same for a plan that may make any calls fail, the program's own too."""
    errors = [*ERRORS.values(), CAPTURE_BROKEN] + [NO_KERNEL] * any(name in plan for name in LOADS)
    return wrong(run, plain, budget, errors, False, UNMANAGED in run.err)


def names_of(plain):
    """What is worth failing in this program: what Tidepool calls itself, and what the program does."""
    called = set(plain.calls)
    return [name for name in functions() if name not in IMMUNE and (name in called or name in functions(TABLES[:1]))]


def random_plan(seed, names):
    """Up to four rules; what they hit, they hit up to three times, or again and again."""
    dice = random.Random(seed)
    lines = []
    for _ in range(dice.randint(1, 4)):
        when = dice.choice(("after={0} count={1}", "every={2}", "nth={0}"))
        words = when.format(1 + int(2 ** dice.uniform(0, 9)), dice.randint(1, 3), dice.choice((3, 10, 40)))
        lines.append(f"{dice.choice(names)} {words} return={dice.choice(list(ERRORS))}\n")
    return "".join(lines)
