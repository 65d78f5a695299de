#!/usr/bin/env python3
"""Tidepool itself on a GPU: programs alone, with all the memory they need under Tidepool, and with a share of it.

    trial.py BUILD [--seconds S] [--only CASE]... [--quick] [--keep FOLDER]

Prints a JSON line for each run (section "trial"): whether it printed what it prints alone, how long it took, the device
memory that left the device meanwhile, and what Tidepool said of it. No run begins after S seconds (default: 200). What is
missing becomes a record "skipped" that says why; the exit status is 0 all the same. --keep leaves the run folders of what
went wrong there, and traces. TIDEPOOL_PROBE_PYTHON names the python that has PyTorch (default: python3).
"""

import argparse
import ctypes
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
MIB = 1 << 20
SKIPPED = 77
LIMIT_S = 90
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": MIB, "GiB": 1 << 30}


def workload(name, *words):
    """Runs with the CUDA run time that its own library folder or the system has."""
    return lambda build: [build / f"bin/{name}", *words]


def torch_train(*words):
    return lambda build: [os.environ.get("TIDEPOOL_PROBE_PYTHON", "python3"), HERE / "torch_train.py", *words]


ENCODER = ("--model", "transformer", "--width", "1024", "--batch", "32", "--layers", "8", "--amp")
LARGE = ("--width", "16384", "--layers", "34", "--steps", "3", "--on-device")


@dataclass
class Case:
    name: str
    make: Callable  # (build) -> command
    shares: tuple = (50,)  # of what it needed, in per cent
    options: tuple = ()  # of Tidepool
    quick: bool = False
    too_large: bool = False  # for the card: must fail alone, and is compared with itself under Tidepool


CASES = (
    Case("mlp", workload("train_mlp"), (50, 25), quick=True),
    Case("mlp static", workload("train_mlp_static")),
    Case("mlp async", workload("train_mlp", "--alloc", "async")),
    Case("mlp pool", workload("train_mlp", "--alloc", "pool")),
    Case("cnn", workload("train_cnn", "--batch", "160")),
    Case("lstm", workload("train_lstm", "--layers", "3")),
    Case("transformer", workload("train_transformer", "--layers", "2")),
    Case("transformer, two threads", workload("train_transformer", "--layers", "2", "--threads", "2")),
    Case("mlp, wide", workload("train_mlp", "--width", "8192", "--batch", "128")),
    Case("torch mlp", torch_train(), (75, 50), quick=True),
    Case("torch mlp traced", torch_train("--steps", "8"), (75,), ("--trace", "ops")),
    Case("torch mlp native", torch_train(), (50,), ("--alloc", "native")),
    Case("torch mlp larger than the card", torch_train(*LARGE), (80,), too_large=True),
    Case("torch transformer", torch_train(*ENCODER)),
    Case("torch transformer unmapped", torch_train(*ENCODER), (), ("--check", "unmap")),
    Case("torch transformer native", torch_train(*ENCODER), (50,), ("--alloc", "native")),
    Case("torch workers", torch_train("--workers", "2", "--layers", "8"), (75,)),
    Case("torch graph", torch_train("--graph", "--layers", "8", "--width", "2048"), (75,)),
    Case("torch compile", torch_train("--compile", "--layers", "4"), (50,)),
)


class Watch:
    """The least free memory of the device while it is watched, asked every few milliseconds."""

    def __init__(self, driver):
        self._driver = driver
        self._stop = threading.Event()
        self._least = self._free()
        self.before = self._least
        self._thread = threading.Thread(target=self._look)

    def _free(self):
        free, total = ctypes.c_size_t(0), ctypes.c_size_t(0)
        if self._driver is None or self._driver.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)) != 0:
            return 0
        return free.value

    def _look(self):
        if self._driver is not None:
            context = ctypes.c_void_p(0)
            self._driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
            self._driver.cuCtxSetCurrent(context)
        while not self._stop.wait(0.003):
            self._least = min(self._least, self._free())

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()
        self.taken = self.before - self._least


def find_driver():
    """The driver with a context current, or None: then nothing is watched."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    context = ctypes.c_void_p(0)
    if driver.cuInit(0) != 0 or driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) != 0:
        return None
    return driver if driver.cuCtxSetCurrent(context) == 0 else None


def runtime_folders():
    """Where a libcudart.so.13 may be that no search path names."""
    code = ("import glob, site, sys\n"
            "for base in dict.fromkeys([*site.getsitepackages(), *filter(None, sys.path)]):\n"
            "    print(*glob.glob(f'{glob.escape(base)}/nvidia/*/lib/libcudart.so.13'), sep='\\n')")
    done = subprocess.run([os.environ.get("TIDEPOOL_PROBE_PYTHON", "python3"), "-c", code], capture_output=True, text=True,
                          check=False)
    found = [str(Path(line).parent) for line in done.stdout.split()]
    return [*found, "/usr/local/cuda/lib64"]


def numbers_of(report):
    """The numbers of each process that used the device, from `tidepool report --json`, without those that are zero."""
    try:
        processes = json.loads(report)["processes"]
    except (ValueError, KeyError):
        return None
    return [{name: value for name, value in process["metrics"].items() if value} for process in processes]


class Trial:
    def __init__(self, options):
        self.build = Path(options.build).resolve()
        self.options = options
        self.began = time.monotonic()
        self.alone = {}  # runs without Tidepool, by command
        self.driver = None if options.no_watch else find_driver()
        path = os.environ.get("LD_LIBRARY_PATH")
        # For the workloads alone: PyTorch knows where its own libraries are.
        self.environment = dict(os.environ, LD_LIBRARY_PATH=":".join([*([path] if path else []), *runtime_folders()]))

    def say(self, kind, name, **members):
        print(json.dumps({"section": "trial", "kind": kind, "name": name, **members}), flush=True)

    def run(self, words, environment):
        """(exit status or None, stdout, stderr, seconds, bytes taken from the device)."""
        left = self.options.seconds + 20 - (time.monotonic() - self.began)
        began = time.monotonic()
        with Watch(self.driver) as watch:
            try:
                done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False,
                                      env=environment, timeout=max(5, min(LIMIT_S, left)))
                status, out, err = done.returncode, done.stdout, done.stderr
            except subprocess.TimeoutExpired as late:
                status = None
                out, err = ((text or b"").decode(errors="replace") for text in (late.stdout, late.stderr))
        return status, out, err, time.monotonic() - began, watch.taken

    def under(self, case, words, environment, plain, share, budget):
        """One run under Tidepool; returns it, and the bytes that it said it needed. `plain`: None, or what to compare with."""
        folder = Path(tempfile.mkdtemp(prefix="trial-"))
        command = [self.build / "bin/tidepool", "run", "-v", "--run-dir", folder / "run", *case.options]
        if budget:
            command += ["--device-budget", str(budget)]
        status, out, err, seconds, taken = self.run([*command, "--", *words], environment)
        plain = plain or (None, out, "", 0, 0)
        same = status == 0 and out == plain[1]
        said = [line for line in err.splitlines() if line.startswith("tidepool")]
        told = subprocess.run([self.build / "bin/tidepool", "report", "--json", folder / "run"], capture_output=True, text=True,
                              check=False)
        value = "same output" if same else "other output" if status == 0 else f"exit {status}"
        self.say("answer", "run", value=value, params={"case": case.name, "percent": share, "budget_bytes": budget},
                 detail={"seconds": round(seconds, 3), "seconds_alone": round(plain[3], 3), "taken_bytes": taken,
                         "taken_alone_bytes": plain[4], "said": said[-6:],
                         "last_words": [] if same else err.splitlines()[-8:],
                         "numbers": numbers_of(told.stdout), "program": [line for line in err.splitlines() if line.startswith("torch_train")],
                         "program_alone": [line for line in plain[2].splitlines() if line.startswith("torch_train")]})
        traces = [trace for trace in (folder / "run").glob("*.tptrace*") if trace.stat().st_size < 16 * MIB]
        if self.options.keep and (traces or not same):
            kept = Path(self.options.keep) / f"{case.name.replace(' ', '_').replace(',', '')}-{share}"
            kept.mkdir(parents=True, exist_ok=True)
            (kept / "stderr.txt").write_text(err)
            (kept / "stdout.txt").write_text(out)
            for file in [*(folder / "run").glob("*.jsonl"), *traces]:
                shutil.copy(file, kept)
        shutil.rmtree(folder, ignore_errors=True)
        told = re.search(r"Needed ([0-9.]+) (B|KiB|MiB|GiB)", err)
        return (status, out, err, seconds, taken), int(float(told[1]) * UNITS[told[2]]) if told else 0

    def case(self, case):
        words = case.make(self.build)
        environment = os.environ if "torch" in case.name else self.environment
        if not Path(words[0]).exists() and shutil.which(str(words[0])) is None:
            return self.say("skipped", case.name, why=f"there is no {Path(words[0]).name}")
        known = tuple(str(word) for word in words)
        if known not in self.alone:
            self.alone[known] = self.run(words, environment)
        plain = self.alone[known]
        last = (plain[2].strip().splitlines() or [""])[-1]
        if case.too_large and plain[0] != SKIPPED:
            self.say("answer", "alone", params={"case": case.name}, value=f"exit {plain[0]}", detail=last)
            plain = None
        elif plain[0] != 0:
            return self.say("skipped", case.name, why=last if plain[0] == SKIPPED else f"alone: exit {plain[0]}: {last}")
        first, needed = self.under(case, words, environment, plain, 100, None)
        for share in case.shares:
            if not needed or time.monotonic() - self.began > self.options.seconds:
                self.say("skipped", case.name, why="no time was left" if needed else "it did not say what it needed",
                         params={"percent": share})
                continue
            self.under(case, words, environment, plain or first, share, needed * share // 100)

    def all(self):
        print(subprocess.run([sys.executable, "-B", HERE / "start_record.py", "trial"], capture_output=True, text=True,
                             check=False).stdout.strip(), flush=True)
        for case in CASES:
            if self.options.only and not any(text == case.name for text in self.options.only):
                continue
            if self.options.quick and not case.quick:
                continue
            if time.monotonic() - self.began > self.options.seconds:
                self.say("skipped", case.name, why="no time was left")
                continue
            self.case(case)
        self.say("end", "trial", seconds=round(time.monotonic() - self.began, 1))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("--seconds", type=int, default=200)
    parser.add_argument("--only", action="append", default=[], help="the case of this name")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--keep")
    parser.add_argument("--no-watch", action="store_true", help="hold no context of the device meanwhile")
    Trial(parser.parse_args()).all()


if __name__ == "__main__":
    main()
