#!/usr/bin/env python3
"""What the storm is worth. Bytes that the link loses where Tidepool moves memory must be noticed. And a program
that lacks one of its waits is told by the device, or reads wrong bytes. Usage: check_storm_notices.py BUILD"""

import sys

import run_storm
import storm_run

# Each hits copies that only Tidepool makes: a third of them, and the programs make few themselves.
FAULTS = (
    "copy d2h every=3 stale bytes=4KiB",
    "copy d2h every=3 corrupt offset=64 bytes=1",
    "copy h2d every=3 drop offset=4KiB bytes=4KiB",
)
SEEDS = (1, 2, 3)
WITHOUT_COPIES = ["small", "memset", "nested", "churn", "share", "perthread"]


def missed_faults(build):
    """(number of faults, what was not noticed)"""
    missed = []
    for seed in SEEDS:
        program = {
            "seed": seed, "steps": 90, "threads": 1 + seed % 2, "streams": 2, "features": WITHOUT_COPIES, "dropped": [],
        }
        plain = storm_run.run(build, program, schedule=seed)
        budget = max(plain.peaks) * 35 // 100
        wrong = storm_run.wrong_by_itself(plain)
        if wrong:
            sys.exit(f"seed {seed}: {wrong}\n{run_storm.command_of(plain)}\n{plain.err}")
        for fault in FAULTS:
            small = storm_run.run(build, program, schedule=seed, budget=budget, faults=fault)
            if small.code == 0 and small.out == plain.out:
                missed.append(f"seed {seed}: '{fault}' was not noticed\n{run_storm.command_of(small)}\n{small.err}")
    return len(SEEDS) * len(FAULTS), missed


def noticed_waits(build):
    """(waits that were left out one by one, how many of them were missed by somebody)"""
    waits = noticed = 0
    for seed in (5, 6):
        program = {
            "seed": seed, "steps": 100, "threads": 1, "streams": 3, "dropped": [],
            "features": run_storm.chosen_features("default,-hostsync"),
        }
        for number in range(0, 100, 3):
            plain = storm_run.run(build, {**program, "forgotten": number})
            if plain.code == storm_run.WRONG_ARGUMENTS:
                break
            waits += 1
            noticed += plain.code != 0 or plain.races != 0
    return waits, noticed


def main():
    build = sys.argv[1]
    faults, missed = missed_faults(build)
    waits, noticed = noticed_waits(build)
    print("\n".join(missed) or f"{faults} faults noticed")
    print(f"{noticed} of {waits} forgotten waits noticed")
    # A wait for one part of a buffer can be for work on another part: nobody misses that one.
    return 1 if missed or waits < 10 or noticed * 10 < waits * 7 else 0


if __name__ == "__main__":
    sys.exit(main())
