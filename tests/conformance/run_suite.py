#!/usr/bin/env python3
"""Runs the conformance suite on the simulated device and holds it to a list of exceptions.

    python3 tests/conformance/run_suite.py --build BUILD [--area NAME]... [--seeds 1-4] [--jobs N]
    python3 tests/conformance/run_suite.py --build BUILD --tidepool=--device-budget=1GiB

Every case runs under the first seed, cases that depend on the order of work under all of them. A case that
pending.txt (under Tidepool: under_tidepool.txt) names must fail; every other must pass. A case that is skipped has
failed, unless it wants more devices.
"""

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
MAY_BE_MISSING = "there is one device"


def read_pending(path):
    """case -> why it is pending."""
    pending = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, _, why = line.partition(" ")
        if not why.strip():
            sys.exit(f"{path.name}:{number}: '{name}' has no reason")
        pending[name] = why.strip()
    return pending


def conformance_in(build):
    return build / "tests/conformance/conformance"


def listed(build):
    """Every case as a dict: case, section, traits."""
    command = [conformance_in(build), "--list", "--json"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def run_once(build, seed, words, simgpu_words=(), tidepool_words=None):
    """The records of one run of the suite; under Tidepool where there are words for `tidepool run`."""
    in_front = [] if tidepool_words is None else [build / "bin/tidepool", "run", *tidepool_words, "--"]
    suite = [*in_front, conformance_in(build), "--json", *words]
    command = [build / "bin/simgpu", "--seed", str(seed), *simgpu_words, "--", *suite]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    records = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode not in (0, 1) or not records:
        sys.exit(f"run_suite: {command} ended with {done.returncode}: {done.stderr.strip()}")
    return records


def parse_seeds(text):
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


class Verdicts:
    """What all seeds together say of each case."""

    def __init__(self):
        self.failures = {}  # case -> "seed N: detail"
        self.skipped = {}
        self.seen = set()

    def add(self, seed, records):
        for record in records:
            name = record["case"]
            self.seen.add(name)
            if record["verdict"] == "skipped" and record["detail"] == MAY_BE_MISSING:
                self.skipped[name] = record["detail"]
            elif record["verdict"] != "pass":
                self.failures.setdefault(name, f"seed {seed}: {record['verdict']}: {record['detail']}")

    def problems(self, pending, table="pending.txt"):
        for name in sorted(self.seen):
            if name in pending and name not in self.failures:
                yield f"{name} passes; take it out of {table}"
            elif name not in pending and name in self.failures:
                yield f"{name} is not kept: {self.failures[name]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--area", action="append", default=[], help="cases of this area (default: all)")
    parser.add_argument("--seeds", type=parse_seeds, default=parse_seeds("1-4"), metavar="A-B")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--pending", type=Path, help="another list of exceptions")
    parser.add_argument("--areas-are", nargs="+", metavar="NAME", help="only see that these are all areas there are")
    parser.add_argument("--simgpu", action="append", default=[], metavar="WORD", help="a word for simgpu's command line")
    parser.add_argument("--tidepool", action="append", metavar="WORD", help="run under it; a word for `tidepool run`")
    arguments = parser.parse_args()
    table = arguments.pending or FOLDER / ("pending.txt" if arguments.tidepool is None else "under_tidepool.txt")
    pending = read_pending(table)
    names = {case["case"] for case in listed(arguments.build)}
    if arguments.areas_are:
        odd = {name.partition(".")[0] for name in names} ^ set(arguments.areas_are)
        return f"run_suite: areas without a test, or tests without an area: {', '.join(sorted(odd))}" if odd else 0
    problems = [f"{table.name} names {name}; there is no such case" for name in sorted(set(pending) - names)]
    words = ["--jobs", str(arguments.jobs)]
    if arguments.area:
        words += ["--filter", "^(" + "|".join(map(re.escape, arguments.area)) + r")\."]
    ordered = {case["case"] for case in listed(arguments.build) if case["traits"] == "order"}
    verdicts = Verdicts()
    for index, seed in enumerate(arguments.seeds):
        if index > 0 and not any(name in ordered for name in verdicts.seen):
            break
        verdicts.add(seed, run_once(arguments.build, seed, words + (["--order-only"] if index > 0 else []),
                                    arguments.simgpu, arguments.tidepool))
    problems += verdicts.problems(pending, table.name)
    for problem in problems:
        print(f"run_suite: {problem}", file=sys.stderr)
    passed = len(verdicts.seen) - len(verdicts.failures) - len(verdicts.skipped)
    print(f"run_suite: {passed} passed, {len(verdicts.failures)} failed, {len(verdicts.skipped)} skipped")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
