#!/usr/bin/env python3
"""A program that runs for long, and whether anything grows: run_soak.py BUILD [--seconds N]

soak_job runs on the simulated device under `tidepool run`, and once a second another budget is set. Meanwhile Tidepool's
numbers and what the system says of the processes (memory, mappings, descriptors, files of the run) are sampled. The
second half must be as the first: nothing whose highest value there is above that of the first half by more than its row
below allows."""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BUDGETS = ("64MiB", "80MiB", "96MiB", "128MiB")
EVERY_S = 0.5

# name -> (share, amount): the highest of the second half is at most so much of the first half's, plus the amount.
MIB = 1 << 20
FLAT = {
    "allocated_bytes": (1.3, 32 * MIB),
    "device_resident_bytes": (1.1, 8 * MIB),
    "device_handles": (1.2, 16),
    "host_bytes": (1.2, 32 * MIB),
    "host_pinned_bytes": (1.2, 64 * MIB),
    "host_holes": (1.5, 16),
    "kept_bytes": (1.2, 16 * MIB),
    "library_bytes": (1.2, MIB),
    "block_ids": (1.2, 32),
    "streams_known": (1.2, 8),
    "guest_anonymous_bytes": (1.1, 16 * MIB),
    "guest_locked_bytes": (1.2, 64 * MIB),
    "guest_maps": (1.2, 64),
    "guest_descriptors": (1.1, 8),
    "guest_threads": (1.1, 4),
    "command_anonymous_bytes": (1.1, MIB),
    "command_descriptors": (1.0, 2),
    "run_files": (1.0, 0),
    "run_bytes": (1.0, MIB // 4),
}


def of_process(pid, name):
    """What the system knows of a process; nothing of one that has ended."""
    found = {}
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            key, _, value = line.partition(":")
            if key in ("RssAnon", "VmLck", "VmPin"):
                where = "anonymous_bytes" if key == "RssAnon" else "locked_bytes"
                found[f"{name}_{where}"] = found.get(f"{name}_{where}", 0) + int(value.split()[0]) * 1024
            if key == "Threads":
                found[f"{name}_threads"] = int(value)
        found[f"{name}_maps"] = len(Path(f"/proc/{pid}/maps").read_text().splitlines())
        found[f"{name}_descriptors"] = len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return {}
    return found


def of_folder(folder):
    files = [entry.stat() for entry in os.scandir(folder)]
    return {"run_files": len(files), "run_bytes": sum(file.st_blocks * 512 for file in files)}


class Soak:
    """One run, and what was seen of it."""

    def __init__(self, build, wanted, folder):
        self.build, self.wanted, self.folder = build, wanted, folder
        self.samples, self.outcomes = [], {}
        self.random = random.Random(wanted.seed)

    def start(self):
        bin_ = self.build / "bin"
        words = [bin_ / "simgpu", "--device", "h100", "--seed", self.wanted.seed, "--", bin_ / "tidepool", "run",
                 "--run-dir", self.folder, "--device-budget", BUDGETS[-1], *self.wanted.option, "--",
                 self.build / "tests/soak_job", self.wanted.seconds, self.wanted.seed,
                 self.build / "tests/simgpu_fatbin/all.fatbin"]
        return subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def tidepool(self, *words):
        return subprocess.run([str(self.build / "bin/tidepool"), *words], capture_output=True, text=True, timeout=60,
                              check=False)

    def sample(self):
        got = self.tidepool("report", "--json", str(self.folder))
        processes = json.loads(got.stdout)["processes"] if got.returncode == 0 else []
        if not processes:
            return
        pid = processes[0]["pid"]
        seen = {"seconds": time.monotonic(), **processes[0]["metrics"], **of_process(pid, "guest"), **of_folder(self.folder)}
        try:
            parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            return
        self.samples.append({**seen, **of_process(parent, "command")})

    def change_budget(self):
        got = self.tidepool("set", "--device-budget", self.random.choice(BUDGETS), str(self.folder))
        self.outcomes[got.returncode] = self.outcomes.get(got.returncode, 0) + 1

    def watch(self, job):
        next_budget = time.monotonic() + 1
        deadline = time.monotonic() + self.wanted.seconds * 2 + 60
        while job.poll() is None:
            if time.monotonic() > deadline:
                job.kill()
                return "the program did not end"
            self.sample()
            if time.monotonic() >= next_budget:
                self.change_budget()
                next_budget = time.monotonic() + 1
            time.sleep(EVERY_S)
        return ""


def grown(samples):
    """(rows for a reader, texts that say what has grown). The first eighth is for getting warm."""
    steady = samples[len(samples) // 8:]
    first, second = steady[:len(steady) // 2], steady[len(steady) // 2:]
    rows, wrong = [], []
    for name, (share, amount) in FLAT.items():
        before, after = ([one[name] for one in half if name in one] for half in (first, second))
        if not before or not after:
            wrong.append(f"{name}: was never seen")
            continue
        high, low = max(before), max(after)
        is_flat = low <= high * share + amount
        rows.append(f"  {name:<26} {high:>14} {low:>14}{'' if is_flat else '   grows'}")
        if not is_flat:
            wrong.append(f"{name}: at most {high} in the first half, {low} in the second")
    return rows, wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=Path)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--samples", type=Path, help="write all samples here, as JSON")
    parser.add_argument("--option", action="append", default=[], help="a word more for tidepool run")
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        soak = Soak(wanted.build.resolve(), wanted, Path(folder) / "run")
        soak.folder.mkdir()
        job = soak.start()
        wrong = [text for text in (soak.watch(job),) if text]
        out, err = job.communicate(timeout=60)
    if wanted.samples:
        wanted.samples.write_text(json.dumps(soak.samples))
    rows, grows = grown(soak.samples)
    print(f"{out.strip()}; {len(soak.samples)} samples; budgets set, by exit status: {soak.outcomes}")
    print(f"  {'highest in':<26} {'first half':>14} {'second half':>14}", *rows, sep="\n")
    if job.returncode != 0:
        wrong.append(f"the program ended with {job.returncode}")
    if "TP" in err:
        print(err.strip()[-2000:])
    for text in wrong + grows:
        print(text)
    return 1 if wrong or grows else 0


if __name__ == "__main__":
    sys.exit(main())
