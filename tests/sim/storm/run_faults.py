#!/usr/bin/env python3
"""Each driver call that Tidepool makes or intercepts fails once, at the 1st, the 10th and the 100th time.

  run_faults.py BUILD                   all of them
  run_faults.py BUILD --only cuMemMap   some
  run_faults.py BUILD --random 1-200    instead of that, random programs under random plans of several faults

A call that only Tidepool makes must be survived with the same output. One that the program makes as well may end it, with
the error that was put in or out of memory; never with other bytes, a signal or a hang."""

import argparse
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import fault_plans
import run_storm
import storm_run
from fault_plans import ERRORS, IMMUNE, LOADS, NO_KERNEL, functions, wrong

TIMES = (1, 10, 100)
LEAST_BUDGET = 16 << 20
PROGRAM = {
    "seed": 3, "steps": 160, "threads": 2, "streams": 2, "features": run_storm.chosen_features("default,-legacy"),
    "dropped": [],
}


def program_on(devices):
    """The program; on several devices its copies go between them as well."""
    return {**PROGRAM, "devices": devices, "features": PROGRAM["features"] + ["peer"] * (devices > 1)}


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


def check_random(build, seed, names, options, devices):
    """What is wrong with the program and the plan of this seed, or None."""
    program = {**program_on(devices), "seed": seed, "steps": (60, 120, 200)[seed % 3], "threads": 1 + seed % 3}
    plain = storm_run.run(build, program, schedule=seed)
    by_itself = storm_run.wrong_by_itself(plain)
    if by_itself:
        return told("", by_itself, plain)
    budget = max(LEAST_BUDGET, max(plain.peaks) * (75, 50, 35)[seed % 3] // 100)
    plan = fault_plans.random_plan(seed, names)
    run = storm_run.run(build, program, schedule=seed, budget=budget, faults=plan, options=options)
    return told(plan, fault_plans.wrong_under_plan(run, plain, budget, plan), run)


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
        names = functions(fault_plans.TABLES[:1])
    count, failures, note = check_all(wanted, names)
    failures = [failure for failure in failures if failure]
    print("\n".join(failures) + note, end="")
    print(f"{count} plans, {len(failures)} failures, {time.monotonic() - start:.0f} s")
    return 1 if failures or not count else 0


if __name__ == "__main__":
    sys.exit(main())
