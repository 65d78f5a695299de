#!/usr/bin/env python3
"""kill -9 while memory moves: nothing is left behind, and the next run is as if nothing had been.

  run_kills.py BUILD --points 50

Half of the points are calls, chosen by a fault plan: the process ends itself between two steps of a move. The other half
are moments: a signal ends the program, or (every fourth) the `tidepool run` above it, which takes the program along.
After each of those a run on the same device, which is no larger than the budget, must print what it prints without
Tidepool; so memory that the dead still held would be missed."""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import run_storm
import storm_run

PROGRAM = {
    "seed": 3, "steps": 120, "threads": 2, "streams": 2, "features": run_storm.chosen_features("default,-legacy"),
    "dropped": [],
}
# Between the steps of a move, and around it.
FUNCTIONS = (
    "cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuMemUnmap", "cuMemcpyDtoHAsync_v2", "cuMemcpyHtoDAsync_v2",
    "cuMemHostRegister_v2", "cuEventRecord", "cuStreamWaitEvent", "cuEventQuery", "cuMemAddressReserve", "cuLaunchKernel",
)
END_S = 20  # for everything to be gone after a kill


def folders_in(scratch):
    """What runs left in the folder for temporary files."""
    return sorted(path.name for path in Path(scratch).iterdir() if path.name.startswith("tidepool"))


def kill_at_calls(build, plain, budget, whole, count):
    """Lines about what is wrong at points of a plan: each function's first call, then others at random."""
    dice, failures = random.Random(7), []
    points = [(name, 1) for name in FUNCTIONS if whole.calls.get(name)]
    while len(points) < count:
        name = dice.choice(FUNCTIONS)
        points.append((name, dice.randint(1, max(1, whole.calls.get(name, 1) // 2))))
    for name, nth in points[:count]:
        with tempfile.TemporaryDirectory(prefix="kills-") as scratch:
            os.environ["TMPDIR"] = scratch
            run = storm_run.run(build, PROGRAM, budget=budget, faults=f"process kill at={name}:{nth}\n")
            left = folders_in(scratch)
            del os.environ["TMPDIR"]
        wrong = None
        if run.code != -signal.SIGKILL:
            wrong = f"ends with {run.code}"
        elif left:
            wrong = f"{left} are left"
        elif run.out not in ("", plain.out):
            wrong = "prints something else"
        if wrong:
            failures.append(f"kill at {name}:{nth}: {wrong}\n{run_storm.command_of(run)}\n{run.err[-1500:]}")
    return failures


def children_of(pid):
    """Processes that this one has started."""
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def is_alive(pid):
    """True while the process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def run_once(words, delay=None, parent=False):
    """(exit status, output, pid of the program): `delay` seconds after the program has started, it or its parent is
    killed."""
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    program = None
    if delay is not None:
        deadline = time.monotonic() + END_S
        while not (children := children_of(process.pid)) and time.monotonic() < deadline and process.poll() is None:
            time.sleep(0.001)
        time.sleep(delay)
        program = children[0] if children else None
        try:
            os.kill(process.pid if parent or program is None else program, signal.SIGKILL)
        except ProcessLookupError:
            pass  # it has ended by itself
    out, _ = process.communicate(timeout=storm_run.LIMIT_S)
    return process.returncode, out, program


def inside(build, budget, points, want):
    """Runs below simgpu: kills, and after each a run that must be right. Prints what is wrong."""
    scratch = os.environ["TMPDIR"]
    words = [f"{build}/bin/tidepool", "run", "--device-budget", budget, "--", f"{build}/tests/storm"]
    words += storm_run.arguments(PROGRAM)
    start = time.monotonic()
    code, out, _ = run_once(words)
    long = time.monotonic() - start
    if code != 0 or out != want:
        print(f"the first run ends with {code}")
    dice, killed = random.Random(11), 0
    for point in range(points):
        parent, delay = point % 4 == 3, dice.uniform(0, long)
        text = f"moment {point}, {'tidepool' if parent else 'the program'} after {delay * 1000:.0f} ms"
        code, _, program = run_once(words, delay, parent)
        killed += code == -signal.SIGKILL
        # It may have ended by itself just before.
        if code not in (0, -signal.SIGKILL):
            print(f"{text}: ends with {code}")
        deadline = time.monotonic() + END_S
        while program and is_alive(program) and time.monotonic() < deadline:
            time.sleep(0.005)
        if program and is_alive(program):
            print(f"{text}: the program lives on")
        if not parent and folders_in(scratch):
            print(f"{text}: {folders_in(scratch)} are left")
        code, out, _ = run_once(words)
        if code != 0 or out != want:
            print(f"{text}: the next run ends with {code}, its output is {'the same' if out == want else 'another'}")
        if folders_in(scratch):
            print(f"{text}: {folders_in(scratch)} are left after the next run")
    if 2 * killed < points:
        print(f"only {killed} of {points} runs were killed")
    return 0


def kill_at_moments(build, plain, budget, points):
    """Lines about what is wrong."""
    with tempfile.TemporaryDirectory(prefix="kills-") as scratch:
        want = Path(scratch) / "want"
        want.write_text(plain.out)
        words = [f"{build}/bin/simgpu", "--device", "h100", "--memory", str(budget), "--", sys.executable, "-B", __file__]
        words += [str(build), "--points", str(points), "--inside", str(want), "--budget", str(budget)]
        environment = {**os.environ, "TMPDIR": scratch}
        environment.pop("XDG_RUNTIME_DIR", None)
        done = subprocess.run(words, capture_output=True, text=True, env=environment, check=False)
        lines = done.stdout.splitlines()
        return lines + ([f"{done.returncode}: {done.stderr[-1500:]}"] if done.returncode != 0 else [])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path, help="the build folder")
    parser.add_argument("--points", type=int, default=50)
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--budget", help=argparse.SUPPRESS)
    wanted = parser.parse_args()
    if wanted.inside:
        return inside(wanted.build, wanted.budget, wanted.points, wanted.inside.read_text())
    os.environ.pop("XDG_RUNTIME_DIR", None)
    build = wanted.build.resolve()
    plain = storm_run.run(build, PROGRAM)
    # In whole frames of the device: then not one can be missing.
    budget = max(plain.peaks) * 40 // 100 // (2 << 20) * (2 << 20)
    whole = storm_run.run(build, PROGRAM, budget=budget)
    if plain.code != 0 or whole.code != 0 or whole.out != plain.out:
        sys.exit(f"without a kill: {plain.code}, {whole.code}\n{whole.err}")
    failures = kill_at_calls(build, plain, budget, whole, (wanted.points + 1) // 2)
    failures += kill_at_moments(build, plain, budget, wanted.points // 2)
    print("\n".join(failures) or f"{wanted.points} kills, nothing left")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
