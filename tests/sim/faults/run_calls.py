#!/usr/bin/env python3
"""Each driver call that Tidepool makes or intercepts fails once, at the 1st, the 10th and the 100th time, in a program
that calls all of them in rounds (fault_rounds) and tries again what failed.

  run_calls.py BUILD                    all of them
  run_calls.py BUILD --only cuMemMap    some
  run_calls.py BUILD --every 20         of all faults each so-manieth

Right is: the same output, with no error or one that says what was put in, or out of memory; never other bytes, a signal
or a hang, and nothing is left on the device or in the folder for temporary files. A name that is failed nowhere must
stand in not_failed.txt, with the reason."""

import argparse
import re
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent / "storm"))

import fault_plans  # noqa: E402
import storm_run  # noqa: E402

UNSUPPORTED = FOLDER.parents[2] / "tools/simgpu/driver/unsupported.def"
TIMES = (1, 10, 100)
ROUNDS = 110
DEVICES = 2
# What the calls give, by number: errors that pass, and at the first time some that programs do not expect.
ERRORS = {2: TIMES, 999: TIMES, 1: (1,), 900: (1,)}
OUT_OF_MEMORY, CAPTURE_BROKEN = 2, 901
WRONG_BYTES = 5
TOLD = re.compile(r"^told (\w+) (\d+)$", re.MULTILINE)


def left_files(run):
    return [name for name in run.files if name != KEPT]


@dataclass
class Job:
    """One way to run the program."""

    part: str
    budget: int  # bytes
    options: tuple
    plain: storm_run.Run = None
    whole: storm_run.Run = None  # under Tidepool, without a fault

    def command(self, build, rounds):
        return [build / "tests/fault_rounds", self.part, rounds]

    def run(self, build, rounds, **rest):
        return storm_run.run_job(build, self.command(build, rounds), devices=DEVICES, **rest)

    def measure(self, build):
        """Runs it whole, with and without Tidepool."""
        self.plain = self.run(build, ROUNDS)
        self.whole = self.run(build, ROUNDS, budget=self.budget, options=self.options)
        for run in (self.plain, self.whole):
            if run.code != 0 or run.left or run.races or left_files(run):
                sys.exit(f"without a fault: exit {run.code}\n{' '.join(run.command)}\n{run.err}")

    def rounds_for(self, name, nth):
        """Rounds after which that call has been made, and a few more to see what came of it."""
        calls = self.whole.calls[name]
        return min(ROUNDS, nth * ROUNDS // calls + 4)


KEPT = "kept"  # the run folder of the job that records
RECORDING = ("--trace", "ops", "--profile-iterations", "10", "--run-dir", f"%q{{TMPDIR}}/{KEPT}")
JOBS = (Job("work", 28 << 20, ()), Job("contexts", 16 << 20, ()), Job("work", 28 << 20, RECORDING))


@dataclass
class Case:
    name: str
    nth: int
    error: int
    job: Job


@dataclass
class Outcome:
    case: Case
    what: str | None  # that is wrong
    told: int = 0  # errors that the program was told
    ended: bool = False


def cases(names):
    """Every fault, in the first job that makes the call so often."""
    for name in names:
        if name in fault_plans.IMMUNE:
            continue
        for nth in TIMES:
            job = next((job for job in JOBS if job.whole.calls.get(name, 0) >= nth), None)
            for error, times in ERRORS.items():
                if job and nth in times:
                    yield Case(name, nth, error, job)


def wrong(run, case, rounds):
    """What is wrong with a run in which one call failed; None: nothing."""
    if run.code is None:
        return "hang"
    if run.code not in (0, storm_run.OUT_OF_MEMORY, storm_run.OTHER_ERROR):
        return f"exit {run.code}"
    if not run.faults:
        return "the call was not made"
    allowed = {case.error, OUT_OF_MEMORY, CAPTURE_BROKEN}
    told = [(name, int(code)) for name, code in TOLD.findall(run.err)]
    if any(code not in allowed for _, code in told):
        return f"another error is told: {told}"
    if broken := storm_run.broken_checks(run):
        return broken
    if left_files(run):
        return f"files are left: {', '.join(left_files(run))}"
    if max(run.peaks) > case.job.budget and fault_plans.UNMANAGED not in run.err:
        return f"the peak is {max(run.peaks)}"
    if run.code != 0:
        return f"exit {run.code} after a second try: {told}"
    if run.out != f"{rounds} rounds of {case.job.part}\n":
        return "the output is another"
    if run.races:
        return f"{run.races} races"
    return f"{run.left} bytes are left" if run.left else None


def check(build, case):
    """Runs one fault."""
    rounds = case.job.rounds_for(case.name, case.nth)
    plan = f"{case.name} nth={case.nth} return={case.error}\n"
    run = case.job.run(build, rounds, budget=case.job.budget, options=case.job.options, faults=plan)
    what = wrong(run, case, rounds)
    text = what and f"{plan}{what}\n  {' '.join(run.command)}\n{run.err[-2500:]}\n"
    return Outcome(case, text, len(TOLD.findall(run.err)), run.code != 0)


def not_failed(text):
    """name -> (times at which it is not failed, reason), from not_failed.txt."""
    rows = {}
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            name, times, reason = line.split(" ", 2)
            rows[name] = (tuple(int(time) for time in times.split(",")), reason.strip())
    return rows


def table(names, failed, listed, unsupported):
    """(lines to print, problems): which names are failed at which times, and why the others are not."""
    problems = [f"not_failed.txt: {name} is in no table" for name in listed if name not in names]
    lines = []
    for nth in TIMES:
        lines.append(f"failed at call {nth}: {sum((name, nth) in failed for name in names)} of {len(names)} names")
    absent = ", ".join(name for name in names if name in unsupported)
    lines.append(f"not in simgpu (hooks among them fail over the recording driver, tests/shim/hooks): {absent}")
    for name in names:
        missing = tuple(nth for nth in TIMES if (name, nth) not in failed)
        times, reason = listed.get(name, ((), ""))
        if name in unsupported:
            times = TIMES
        elif name in listed:
            lines.append(f"not at call {', '.join(map(str, times))}: {name}: {reason}")
        if missing != times:
            problems.append(f"{name} is not failed at call {missing}; not_failed.txt says {times}")
    return lines, problems


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path, help="the build folder")
    parser.add_argument("--only", help="functions, with commas")
    parser.add_argument("--every", type=int, default=1, help="of all faults each so-manieth")
    parser.add_argument("--jobs", type=int, default=1)
    wanted = parser.parse_args()
    start = time.monotonic()
    for job in JOBS:
        job.measure(wanted.build)
    names = fault_plans.functions()
    every = list(cases(names))
    unsupported = set(re.findall(r"^SIMGPU_UNSUPPORTED\(\w+, (\w+),", UNSUPPORTED.read_text(), re.MULTILINE))
    lines, problems = table(names, {(case.name, case.nth) for case in every},
                            not_failed((FOLDER / "not_failed.txt").read_text()), unsupported)
    only = set(wanted.only.split(",")) if wanted.only else set(names)
    chosen = [case for case in every if case.name in only][:: wanted.every]
    print("\n".join([*lines, *problems]), flush=True)
    outcomes = []
    with ThreadPoolExecutor(wanted.jobs) as pool:
        for outcome in pool.map(lambda case: check(wanted.build, case), chosen):
            outcomes.append(outcome)
            if outcome.what:
                problems.append(outcome.what)
                print(outcome.what, flush=True)
    told = sum(outcome.told > 0 for outcome in outcomes)
    print(
        f"{len(outcomes)} of {len(every)} faults: {len(outcomes) - told} not seen by the program, {told} told and right "
        f"at a second try but for {sum(outcome.ended for outcome in outcomes)}; {len(problems)} problems, "
        f"{time.monotonic() - start:.0f} s"
    )
    return 1 if problems or not outcomes else 0


if __name__ == "__main__":
    sys.exit(main())
