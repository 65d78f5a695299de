#!/usr/bin/env python3
"""Each driver call that Tidepool makes or intercepts fails once, at the 1st, the 10th and the 100th time.

  run_faults.py BUILD                   all of them
  run_faults.py BUILD --only cuMemMap   some
  run_faults.py BUILD --random 1-200    instead of that, random programs under random plans of several faults

A call that only Tidepool makes must be survived with the same output. One that the program makes as well may end it, with
the error that was put in or out of memory; never with other bytes, a signal or a hang."""

import argparse
import random
import re
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import run_storm
import storm_run

ROOT = Path(__file__).resolve().parents[3]
TABLES = (ROOT / "allocator/cuda/driver.def", ROOT / "shim/hooks.def", ROOT / "shim/asked.def")
ROW = re.compile(r"^TP_(?:DRIVER|HOOK|HOOK_PTSZ|HOOK_PTDS|ASKED)\((\w+)")
TIMES = (1, 10, 100)
# An error that passes, and one that programs do not expect.
ERRORS = {"CUDA_ERROR_OUT_OF_MEMORY": "cudaErrorMemoryAllocation", "CUDA_ERROR_UNKNOWN": "cudaErrorUnknown"}
# nvcc's code asks for a kernel's handle once: a second thread that launches the kernel is told so where that failed.
LOADS = {"cuLibraryLoadData", "cuLibraryGetKernel"}
NO_KERNEL = "cudaErrorInvalidResourceHandle"
# What a plan cannot make fail (docs/reference/fault-plans.md).
IMMUNE = {"cuGetProcAddress", "cuGetProcAddress_v2"}
# Where a question fails again and again memory is only watched, and Tidepool says so: nothing holds the budget then.
UNMANAGED = "TP1011"
LEAST_BUDGET = 16 << 20
PROGRAM = {
    "seed": 3, "steps": 160, "threads": 2, "streams": 2, "features": run_storm.chosen_features("default,-legacy"),
    "dropped": [],
}


def program_on(devices):
    """The program; on several devices its copies go between them as well."""
    return {**PROGRAM, "devices": devices, "features": PROGRAM["features"] + ["peer"] * (devices > 1)}


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
        return "an invariant is broken: TP3002" if "TP3002" in run.err else None
    if only_ours:
        return f"exit {run.code}, though only Tidepool makes this call"
    if run.code not in (storm_run.OUT_OF_MEMORY, storm_run.OTHER_ERROR):
        return f"exit {run.code}"
    if not any(name in run.err for name in (*errors, "cudaErrorMemoryAllocation")):
        return f"exit {run.code} with another error"
    return None


class Single:
    """Runs one program with one fault after the other."""

    def __init__(self, build, options, devices):
        self.build = build
        self.options = options
        self.program = program_on(devices)
        self.plain = storm_run.run(build, self.program)
        # Each device has half of the program, and small memory of its own that does not move.
        self.budget = max(self.plain.peaks) * (35 if devices == 1 else 50) // 100
        self.whole = storm_run.run(build, self.program, budget=self.budget, options=options)
        for run in (self.plain, self.whole):
            if run.code != 0:
                sys.exit(f"without a fault: {run.code}\n{run_storm.command_of(run)}\n{run.err}")

    def cases(self, names):
        """(function, nth, error) of every fault that this program meets, though its threads make each run another."""
        for name in names:
            for nth in TIMES:
                if 2 * nth <= self.whole.calls.get(name, 0) + (nth == 1) and name not in IMMUNE:
                    for error in ERRORS:
                        yield name, nth, error

    def check(self, case):
        """What is wrong under this fault, or None."""
        name, nth, error = case
        plan = f"{name} nth={nth} return={error}\n"
        run = storm_run.run(self.build, self.program, budget=self.budget, faults=plan, options=self.options)
        only_ours = name not in self.plain.calls
        errors = [ERRORS[error]] + [NO_KERNEL] * (name in LOADS)
        what = wrong(run, self.plain, self.budget, errors, only_ours, False)
        return told(plan, what if run.faults else "the call was not made", run)


def told(plan, what, run):
    """A failure to print; None if nothing is wrong."""
    return what and f"{plan}{what}\n{run_storm.command_of(run)}\n{run.err[-2500:]}\n"


def random_plan(seed, names):
    """Up to four rules; what they hit, they hit up to three times, or again and again."""
    dice = random.Random(seed)
    lines = []
    for _ in range(dice.randint(1, 4)):
        when = dice.choice(("after={0} count={1}", "every={2}", "nth={0}"))
        words = when.format(1 + int(2 ** dice.uniform(0, 9)), dice.randint(1, 3), dice.choice((3, 10, 40)))
        lines.append(f"{dice.choice(names)} {words} return={dice.choice(list(ERRORS))}\n")
    return "".join(lines)


def check_random(build, seed, names, options, devices):
    """What is wrong with the program and the plan of this seed, or None."""
    program = {**program_on(devices), "seed": seed, "steps": (60, 120, 200)[seed % 3], "threads": 1 + seed % 3}
    plain = storm_run.run(build, program, schedule=seed)
    by_itself = storm_run.wrong_by_itself(plain)
    if by_itself:
        return told("", by_itself, plain)
    budget = max(LEAST_BUDGET, max(plain.peaks) * (75, 50, 35)[seed % 3] // 100)
    plan = random_plan(seed, names)
    run = storm_run.run(build, program, schedule=seed, budget=budget, faults=plan, options=options)
    errors = [*ERRORS.values()] + [NO_KERNEL] * any(name in plan for name in LOADS)
    return told(plan, wrong(run, plain, budget, errors, False, UNMANAGED in run.err), run)


def check_all(wanted, names):
    """(number of faults, failures, a line about what was not tested)"""
    options = ("--check", wanted.check)
    with ThreadPoolExecutor(wanted.jobs) as pool:
        if wanted.random:
            check = lambda seed: check_random(wanted.build, seed, names, options, wanted.devices)
            failures = list(pool.map(check, wanted.random))
            return len(failures), failures, ""
        single = Single(wanted.build, options, wanted.devices)
        cases = list(single.cases(names))[:: wanted.every]
        never = [name for name in names if name not in single.whole.calls]
        return len(cases), list(pool.map(single.check, cases)), f"not called by this program: {', '.join(never)}\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path, help="the build folder")
    parser.add_argument("--only", help="functions, with commas")
    parser.add_argument("--random", type=run_storm.numbers, help="seeds: 1-200")
    parser.add_argument("--every", type=int, default=1, help="of all faults each so-manieth")
    parser.add_argument("--devices", type=int, default=1)
    parser.add_argument("--check", default="full", help="TIDEPOOL_CHECK of the runs: full or unmap")
    parser.add_argument("--jobs", type=int, default=1)
    wanted = parser.parse_args()
    start = time.monotonic()
    names = wanted.only.split(",") if wanted.only else functions()
    if wanted.random and not wanted.only:
        names = functions(TABLES[:1])
    count, failures, note = check_all(wanted, names)
    failures = [failure for failure in failures if failure]
    print("\n".join(failures) + note, end="")
    print(f"{count} plans, {len(failures)} failures, {time.monotonic() - start:.0f} s")
    return 1 if failures or not count else 0


if __name__ == "__main__":
    sys.exit(main())
