#!/usr/bin/env python3
"""Tidepool itself on a GPU: programs alone, with all the memory they need under Tidepool, and with a share of it.

    trial.py BUILD [--seconds S] [--only TEXT]... [--quick] [--keep FOLDER]

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
from pathlib import Path

HERE = Path(__file__).resolve().parent
MIB = 1 << 20
SKIPPED = 77
LIMIT_S = 60
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": MIB, "GiB": 1 << 30}


def workload(name, *words):
    """Runs with the CUDA run time that its own library folder or the system has."""
    return lambda build: [build / f"bin/{name}", *words]


def torch_train(*words):
    return lambda build: [os.environ.get("TIDEPOOL_PROBE_PYTHON", "python3"), HERE / "torch_train.py", *words]


# name: (program, options of Tidepool, shares of what it needed, in the quick run)
CASES = {
    "mlp": (workload("train_mlp"), [], (50, 25), True),
    "mlp static": (workload("train_mlp_static"), [], (50,), False),
    "mlp async": (workload("train_mlp", "--alloc", "async"), [], (50,), False),
    "mlp pool": (workload("train_mlp", "--alloc", "pool"), [], (50,), False),
    "cnn": (workload("train_cnn", "--batch", "160"), [], (50,), False),
    "lstm": (workload("train_lstm", "--layers", "3"), [], (50,), False),
    "transformer": (workload("train_transformer", "--layers", "2"), [], (50,), False),
    "transformer, two threads": (workload("train_transformer", "--layers", "2", "--threads", "2"), [], (50,), False),
    "mlp, wide": (workload("train_mlp", "--width", "8192", "--batch", "128"), [], (50,), False),
    "torch mlp": (torch_train(), [], (75, 50), True),
    "torch mlp traced": (torch_train("--steps", "8"), ["--trace", "ops"], (75,), False),
    "torch mlp native": (torch_train(), ["--alloc", "native"], (50,), False),
    "torch transformer": (torch_train("--model", "transformer", "--width", "1024", "--batch", "32", "--layers", "8", "--amp"),
                          [], (50,), False),
    "torch transformer native": (
        torch_train("--model", "transformer", "--width", "1024", "--batch", "32", "--layers", "8", "--amp"),
        ["--alloc", "native"], (50,), False),
    "torch graph": (torch_train("--graph", "--layers", "8", "--width", "2048"), [], (75,), False),
}


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


class Trial:
    def __init__(self, options):
        self.build = Path(options.build).resolve()
        self.options = options
        self.began = time.monotonic()
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

    def under(self, case, words, options, environment, plain, share, budget):
        """One run under Tidepool; returns the bytes that it said it needed."""
        folder = Path(tempfile.mkdtemp(prefix="trial-"))
        command = [self.build / "bin/tidepool", "run", "-v", "--run-dir", folder / "run", *options]
        if budget:
            command += ["--device-budget", str(budget)]
        status, out, err, seconds, taken = self.run([*command, "--", *words], environment)
        same = status == 0 and out == plain[1]
        said = [line for line in err.splitlines() if line.startswith("tidepool")]
        value = "same output" if same else "other output" if status == 0 else f"exit {status}"
        self.say("answer", "run", value=value, params={"case": case, "percent": share, "budget_bytes": budget},
                 detail={"seconds": round(seconds, 3), "seconds_alone": round(plain[3], 3), "taken_bytes": taken,
                         "taken_alone_bytes": plain[4], "said": said[-6:],
                         "last_words": [] if same else err.splitlines()[-8:],
                         "program": [line for line in err.splitlines() if line.startswith("torch_train")],
                         "program_alone": [line for line in plain[2].splitlines() if line.startswith("torch_train")]})
        traces = [trace for trace in (folder / "run").glob("*.tptrace*") if trace.stat().st_size < 16 * MIB]
        if self.options.keep and (traces or not same):
            kept = Path(self.options.keep) / f"{case.replace(' ', '_').replace(',', '')}-{share}"
            kept.mkdir(parents=True, exist_ok=True)
            (kept / "stderr.txt").write_text(err)
            (kept / "stdout.txt").write_text(out)
            for file in [*(folder / "run").glob("*.jsonl"), *traces]:
                shutil.copy(file, kept)
        shutil.rmtree(folder, ignore_errors=True)
        told = re.search(r"Needed ([0-9.]+) (B|KiB|MiB|GiB)", err)
        return int(float(told[1]) * UNITS[told[2]]) if told else 0

    def case(self, name, make, options, shares):
        words = make(self.build)
        environment = os.environ if "torch" in name else self.environment
        if not Path(words[0]).exists() and shutil.which(str(words[0])) is None:
            return self.say("skipped", name, why=f"there is no {Path(words[0]).name}")
        plain = self.run(words, environment)
        if plain[0] != 0:
            last = (plain[2].strip().splitlines() or [""])[-1]
            return self.say("skipped", name, why=last if plain[0] == SKIPPED else f"alone: exit {plain[0]}: {last}")
        needed = self.under(name, words, options, environment, plain, 100, None)
        for share in shares:
            if not needed or time.monotonic() - self.began > self.options.seconds:
                self.say("skipped", name, why="no time was left" if needed else "it did not say what it needed",
                         params={"percent": share})
                continue
            self.under(name, words, options, environment, plain, share, needed * share // 100)

    def all(self):
        print(subprocess.run([sys.executable, "-B", HERE / "start_record.py", "trial"], capture_output=True, text=True,
                             check=False).stdout.strip(), flush=True)
        for name, (make, options, shares, quick) in CASES.items():
            if self.options.only and not any(text in name for text in self.options.only):
                continue
            if self.options.quick and not quick:
                continue
            if time.monotonic() - self.began > self.options.seconds:
                self.say("skipped", name, why="no time was left")
                continue
            self.case(name, make, options, shares)
        self.say("end", "trial", seconds=round(time.monotonic() - self.began, 1))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("--seconds", type=int, default=200)
    parser.add_argument("--only", action="append", default=[], help="cases whose name has this text")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--keep")
    parser.add_argument("--no-watch", action="store_true", help="hold no context of the device meanwhile")
    Trial(parser.parse_args()).all()


if __name__ == "__main__":
    main()
