#!/usr/bin/env python3
"""What the storm is worth: bytes that the link loses where Tidepool moves memory must be noticed, and a program that
frees too early must be told by the device. Usage: check_storm_notices.py BUILD"""

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


def main():
    build = sys.argv[1]
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
    print("\n".join(missed) or f"{len(SEEDS) * len(FAULTS)} faults noticed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
