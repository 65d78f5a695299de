"""Counts the instructions of one hook by callgrind and holds them against a ceiling.

The same program is run N and 2N times, with and without the preload; what remains of the differences is the
hook alone. Instruction counts repeat on busy machines, where nanoseconds do not.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROUNDS = 2000
ROUNDS_PAST_THE_END = 60000  # so many fill a trace of 1 MiB
COLLECTED = re.compile(r"Collected\s*:\s*(\d+)")


def instructions(program, what, rounds, preload, trace, live, most=""):
    with tempfile.TemporaryDirectory() as scratch:
        environment = dict(os.environ, LD_PRELOAD=str(preload) if preload else "")
        if trace:
            environment.update(TIDEPOOL_TRACE="ops", TIDEPOOL_RUN_DIR=scratch, TIDEPOOL_TRACE_MAX=most or "256MiB")
        command = [
            "valgrind", "--tool=callgrind", f"--callgrind-out-file={Path(scratch) / 'out'}",
            str(program), what, str(rounds), *([str(live)] if live else []),
        ]
        result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    found = COLLECTED.search(result.stderr)
    if result.returncode != 0 or found is None:
        sys.exit(f"callgrind failed ({result.returncode}): {result.stderr[-2000:]}")
    return int(found.group(1))


def per_round(program, what, preload, trace=False, live=0, full=False):
    count, most = (ROUNDS_PAST_THE_END, "1MiB") if full else (ROUNDS, "")
    more, less = (instructions(program, what, rounds, preload, trace, live, most) for rounds in (2 * count, count))
    return (more - less) / count


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", type=Path, required=True, help="hook_loop or turn_loop")
    parser.add_argument("--preload", type=Path, help="libtidepool.so; without it the program itself is counted")
    parser.add_argument("--trace", action="store_true", help="count what TIDEPOOL_TRACE=ops adds")
    parser.add_argument("--full", action="store_true", help="the same once the trace is as large as it may be")
    parser.add_argument("--live", type=int, default=0, help="allocations that are held meanwhile")
    parser.add_argument("--ceiling", type=float, required=True)
    parser.add_argument("what", help="what the program is to do N times")
    arguments = parser.parse_args()
    count = per_round(arguments.program, arguments.what, arguments.preload, arguments.trace, arguments.live, arguments.full)
    what = "a hook"
    if arguments.trace:
        count -= per_round(arguments.program, arguments.what, arguments.preload, full=arguments.full)
        what = "a hook for its record"
    elif arguments.preload:
        count -= per_round(arguments.program, arguments.what, None, live=arguments.live)
    else:
        what = "a round"
    print(f"{arguments.what}: {count:.0f} instructions {what}, ceiling {arguments.ceiling:.0f}")
    sys.exit(0 if count <= arguments.ceiling else 1)


if __name__ == "__main__":
    main()
