#!/usr/bin/env python3
"""Random programs (storm) in less memory than they ask for: the same output, never above the budget, nothing left.

  run_storm.py BUILD --seeds 1-40            each program with and without Tidepool
  run_storm.py BUILD --seeds 17 --threads 2  one of them, with two threads
  run_storm.py BUILD --faults                and each under a plan of its own that makes calls of the driver fail:
                                             the same output, or an end with the error that was put in

A program that fails is made smaller, and the smallest command is printed."""

import argparse
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import fault_plans
import shrink
import storm_run

FEATURES_FILE = Path(__file__).resolve().parent / "features.def"
# Tidepool keeps on the device what these make, so a small budget can be too little: then it says so.
KEPT = {"graph", "table", "retable"}


def features():
    """Names in features.def, and whether they are in the default set."""
    rows = {}
    for line in FEATURES_FILE.read_text().splitlines():
        if line.startswith("STORM_FEATURE("):
            name, default = line[len("STORM_FEATURE("):].split(",")[:2]
            rows[name.strip()] = default.strip() == "true"
    return rows


def chosen_features(text):
    """The features that --features names, as storm itself reads it."""
    rows, chosen = features(), []
    for word in text.split(","):
        if word in ("default", "all"):
            chosen = [name for name, default in rows.items() if default or word == "all"]
        elif word.startswith("-"):
            chosen = [name for name in chosen if name != word[1:]]
        elif word:
            chosen.append(word)
    unknown = [name for name in chosen if name not in rows]
    if unknown:
        sys.exit(f"run_storm.py: no feature '{unknown[0]}'")
    return chosen


def numbers(text):
    """1,4-6 as a list."""
    result = []
    for part in text.split(","):
        low, _, high = part.partition("-")
        result += range(int(low), int(high or low) + 1)
    return result


def program_of(seed, wanted):
    """The program of a seed: its length and its threads follow from the seed, unless they are given."""
    return {
        "seed": seed,
        "steps": wanted.steps or (60, 100, 150, 220)[seed % 4],
        "threads": wanted.threads or (1, 2, 1, 4, 3)[seed % 5],
        "streams": (3, 1, 2)[seed % 3],
        "devices": wanted.devices,
        "features": chosen_features(wanted.features),
        "dropped": [],
    }


class Storm:
    """Runs programs and collects what is wrong."""

    def __init__(self, wanted):
        self.wanted = wanted
        self.runs = self.refused = self.faults = 0
        self.failures = []

    def budgets(self, plain):
        """Bytes, from the peak that the device reported."""
        for percent in self.wanted.percents:
            budget = max(plain.peaks) * percent // 100
            if budget >= storm_run.LEAST_BUDGET:
                yield percent, budget

    def judge(self, program, plain, budget, schedule):
        """What is wrong with this run; None: nothing."""
        plan = fault_plans.random_plan(schedule, fault_plans.names_of(plain)) if self.wanted.faults else None
        small = storm_run.run(
            self.wanted.build, program, schedule=schedule, budget=budget, options=self.wanted.option,
            limit_s=self.wanted.limit_s, faults=plan,
        )
        self.runs += 1
        self.faults += small.faults
        self.refused += small.code == storm_run.OUT_OF_MEMORY
        may_refuse = self.wanted.may_refuse or bool(KEPT & set(program["features"]))
        if plan is not None:
            wrong = fault_plans.wrong_under_plan(small, plain, budget, plan)
            return wrong and f"{wrong}, under the plan\n{plan}", small
        # A launch may take back a block whose copy out another thread has begun; that copy is thrown away.
        may_race = self.wanted.races_of_threads and program["threads"] > 1
        wrong = storm_run.wrong_under_tidepool(small, plain, budget, may_refuse=may_refuse, may_race=may_race)
        return wrong, small

    def check(self, seed):
        """All runs of one program."""
        program = program_of(seed, self.wanted)
        plain = storm_run.run(self.wanted.build, program, schedule=seed, limit_s=self.wanted.limit_s)
        self.runs += 1
        wrong = storm_run.wrong_by_itself(plain)
        if wrong:
            self.failures.append(f"seed {seed}: {wrong}\n{command_of(plain)}\n{plain.err[-2000:]}")
            return
        for percent, budget in self.budgets(plain):
            for schedule in range(seed, seed + self.wanted.schedules):
                wrong, small = self.judge(program, plain, budget, schedule)
                if wrong:
                    self.failures.append(self.tell(program, budget, schedule, percent, wrong, small))
                    return

    def tell(self, program, budget, schedule, percent, wrong, small):
        """The failure, and the smallest program that shows it."""
        text = f"seed {program['seed']} at {percent} %: {wrong}\n{command_of(small)}\n{small.err[-3000:]}"
        if not self.wanted.shrink_s:
            return text

        def fails(smaller):
            plain = storm_run.run(self.wanted.build, smaller, schedule=schedule)
            if storm_run.wrong_by_itself(plain):
                return False
            return any(self.judge(smaller, plain, budget, schedule)[0] for _ in range(self.wanted.tries))

        smallest = shrink.shrink(program, fails, self.wanted.shrink_s)
        plain = storm_run.run(self.wanted.build, smallest, schedule=schedule)
        for _ in range(2 * self.wanted.tries):
            again, small = self.judge(smallest, plain, budget, schedule)
            if again:
                return f"{text}\nthe smallest that fails ({again}):\n{command_of(small)}\n{small.err[-3000:]}"
        return f"{text}\nno smaller one fails each time"


def command_of(run):
    """To paste into a shell."""
    words = [word for i, word in enumerate(run.command) if word != "--report" and run.command[i - 1] != "--report"]
    return "  " + " ".join(words)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path, help="the build folder")
    parser.add_argument("--seeds", type=numbers, default=numbers("1-20"), help="programs: 1-20,33")
    parser.add_argument("--percents", type=numbers, default=[100, 75, 50, 35, 25], help="of the peak: 100,50")
    parser.add_argument("--schedules", type=int, default=1, help="orders of the device's work for each budget")
    parser.add_argument("--features", default="default", help="as storm takes them")
    parser.add_argument("--steps", type=int, help="of each program")
    parser.add_argument("--threads", type=int, help="of each program")
    parser.add_argument("--devices", type=int, default=1)
    parser.add_argument("--option", action="append", default=["--check", "full"], help="more for tidepool run")
    parser.add_argument("--faults", action="store_true", help="calls of the driver fail, by a plan of each seed")
    parser.add_argument("--may-refuse", action="store_true", help="out of memory with a reason is no failure")
    parser.add_argument(
        "--races-of-threads", action="store_true", help="a race is no failure of a program with several threads"
    )
    parser.add_argument(
        "--limit-s", type=float, default=storm_run.LIMIT_S, help="seconds after which a run counts as hanging"
    )
    parser.add_argument("--shrink-s", type=float, default=60, help="seconds for making a failure smaller; 0: none")
    parser.add_argument("--tries", type=int, default=4, help="runs in which a smaller program may fail")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--most-failures", type=int, default=5, help="give up after so many")
    wanted = parser.parse_args()
    storm, start = Storm(wanted), time.monotonic()
    with ThreadPoolExecutor(wanted.jobs) as pool:
        for _ in pool.map(lambda seed: len(storm.failures) < wanted.most_failures and storm.check(seed), wanted.seeds):
            pass
    for failure in storm.failures:
        print(failure, end="\n\n")
    print(
        f"{len(wanted.seeds)} programs, {storm.runs} runs, {storm.refused} refused, "
        f"{storm.faults} faults, {len(storm.failures)} failures, "
        f"{time.monotonic() - start:.0f} s"
    )
    return 1 if storm.failures else 0


if __name__ == "__main__":
    sys.exit(main())
