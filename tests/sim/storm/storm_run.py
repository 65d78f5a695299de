"""One run of storm, with or without Tidepool, and what must hold of it."""

import json
import os
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from shrink import ranges

LIMIT_S = 60
WRONG_ARGUMENTS = 2
OUT_OF_MEMORY = 3
OTHER_ERROR = 4
# What --check full says of faults of Tidepool, and of bytes that changed on the way.
CHECKS = ("TP3002", "TP3004", "TP3008", "TP3009", "TP3010")
# What Tidepool says where a program cannot be run in so little (allocator/support/messages.def).
REFUSALS = ("TP2001", "TP2002", "TP2004", "TP2005", "TP2009", "TP2010", "TP2011", "TP2012", "TP2102")
LEAST_BUDGET = 16 << 20


@dataclass
class Run:
    """What one run did."""

    command: list
    code: int | None = None  # None: it ran into the limit
    out: str = ""
    err: str = ""
    peaks: list = field(default_factory=list)  # bytes, by device
    left: int = 0  # bytes that are held at the end
    races: int = 0
    errors: int = 0
    faults: int = 0  # that a plan put in
    files: list = field(default_factory=list)  # left behind
    calls: dict = field(default_factory=dict)  # by function of the driver


def arguments(program):
    """The command line of storm for a program (shrink.py says what that is)."""
    words = []
    for name in ("seed", "steps", "threads", "streams", "devices", "live", "largest"):
        if name in program:
            words += ["--" + name, str(program[name])]
    words += ["--features", ",".join(program["features"]) or ","]
    if "forgotten" in program:
        words += ["--forget-wait", str(program["forgotten"])]
    if program.get("dropped"):
        words += ["--drop", ranges(program["dropped"])]
    return words


def run(build, program, *, budget=None, **rest):
    """Runs it on the simulated device; `budget` in bytes puts it under Tidepool."""
    job = [Path(build) / "tests/storm", *arguments(program)]
    return run_job(build, job, devices=program.get("devices", 1), budget=budget, **rest)


def run_job(build, job, *, devices=1, schedule=1, budget=None, options=(), faults=None, limit_s=LIMIT_S):
    """The same for the command line of any program."""
    build = Path(build)
    with tempfile.TemporaryDirectory(prefix="storm-") as folder:
        report = Path(folder) / "report.json"
        words = [build / "bin/simgpu", "--seed", schedule, "--report", report, *["--device", "h100"] * devices]
        if faults is not None:
            (Path(folder) / "plan").write_text(faults)
            words += ["--faults", Path(folder) / "plan"]
        words.append("--")
        if budget is not None:
            words += [build / "bin/tidepool", "run", "--device-budget", budget, *options, "--"]
        words += job
        words = [str(word) for word in words]
        result = Run(words)
        # What is left in the folder for temporary files is told.
        left = Path(folder) / "tmp"
        left.mkdir()
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("TIDEPOOL_", "SIMGPU_"))}
        environment["TMPDIR"] = str(left)
        # A sanitizer's run time, where the build has one, comes before all that is preloaded.
        first = (build / "tests/preload_first").read_text().strip()
        if first:
            environment["LD_PRELOAD"] = first
        with subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True
        ) as process:
            try:
                result.out, result.err = process.communicate(timeout=limit_s)
                result.code = process.returncode
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)
                result.out, result.err = process.communicate()
        result.files = sorted(path.name for path in left.iterdir())
        if report.exists() and report.stat().st_size != 0:  # one of a run that was killed may be empty
            told = json.loads(report.read_text())
            result.peaks = [device["memory"]["physical_peak_bytes"] for device in told["devices"]]
            result.left = sum(device["memory"]["physical_now_bytes"] for device in told["devices"])
            result.races = told["races"]["total"]
            result.errors = told["errors_total"]
            result.faults = told["faults_injected"]
            result.calls = told["calls"]
        return result


def wrong_by_itself(plain):
    """What is wrong with a run without Tidepool: then the program, or the device, is at fault. None: nothing."""
    if plain.code is None:
        return "hangs without Tidepool"
    if plain.code != 0:
        return f"ends with {plain.code} without Tidepool"
    if plain.races or plain.errors:
        return f"{plain.races} races and {plain.errors} errors without Tidepool"
    if plain.left:
        return f"{plain.left} bytes are left without Tidepool"
    return None


def descriptors(run_of):
    """How many more descriptors were open at the end than at the start, as the program says."""
    for line in run_of.err.splitlines():
        if line.endswith("descriptors more than at the start"):
            return int(line.split()[1])
    return 0


def broken_checks(run_of):
    """What --check found wrong, in a few words; None: nothing."""
    codes = [code for code in CHECKS if f" E {code} " in run_of.err]
    return f"a check failed: {', '.join(codes)}" if codes else None


def wrong_under_tidepool(small, plain, budget, *, may_refuse, may_race=False):
    """What is wrong with a run under Tidepool, in a few words; None: nothing. `may_refuse`: out of memory is an answer
    if Tidepool says which limit it is."""
    if small.code is None:
        return "hang"
    if broken := broken_checks(small):
        return broken
    if small.code == OUT_OF_MEMORY and may_refuse and any(name in small.err for name in REFUSALS):
        return "the peak is above the budget" if max(small.peaks, default=0) > budget else None
    if small.code != 0:
        return f"exit {small.code}"
    if small.out != plain.out:
        return "the output is another"
    if max(small.peaks, default=0) > budget:
        return f"the peak is above the budget: {max(small.peaks)} of {budget}"
    if small.errors:
        return f"{small.errors} errors of the device"
    if small.races and not may_race:
        return f"{small.races} races"
    if small.left:
        return f"{small.left} bytes are left"
    if descriptors(small) > descriptors(plain):
        return f"{descriptors(small)} descriptors are left"
    return None
