#!/usr/bin/env python3
"""The workloads in less memory than they ask for: what must hold, and how much slower they are.

  measure_oversubscription.py BUILD                       runs all of it and says what is wrong
  measure_oversubscription.py BUILD --write FILE.md       and writes the tables

Peak, traffic and time are the simulated device's report, time is virtual. What one iteration costs is the difference of two runs
that pinned host memory equally often: that happens once, takes longer than many iterations, and would be counted as one.
Equality is that of everything the program prints: losses and the digest of its weights."""

import argparse
import functools
import json
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

# Large enough that a quarter of the peak is above the least budget, 16 MiB.
WORKLOADS = {
    "train_mlp": [],
    "train_cnn": ["--batch", "160"],
    "train_lstm": ["--layers", "3"],
    "train_transformer": ["--layers", "2"],
}
DEVICES = {"h100": "H100", "rtx4090": "RTX 4090"}
PERCENTS = (100, 75, 50, 35, 25)
# After the second iteration nothing is new. The later ones only where the first two pinned differently.
STEPS = (3, 5, 4, 6, 7)
LIMIT_S = 120
MIB = 1 << 20


@dataclass
class Run:
    """One run, as the device saw it."""

    code: int
    out: str
    err: str
    peak: int
    into: int
    out_of: int
    clean: int
    time_ns: int
    races: int
    pinned: int
    steps: int


@dataclass
class Row:
    """A workload at one budget; `wrong` says what is, None if nothing."""

    percent: int
    budget: int
    wrong: str | None = None
    refusal: str | None = None
    peak: int = 0
    step_ns: float = 0
    into: float = 0
    out_of: float = 0
    clean: float = 0


def run(build, device, program, steps, budget=None):
    """Runs a workload; `budget` in bytes puts it under Tidepool."""
    with tempfile.TemporaryDirectory(prefix="oversubscription-") as folder:
        report = Path(folder) / "report.json"
        words = [build / "bin/simgpu", "--device", device, "--report", report, "--"]
        if budget is not None:
            words += [build / "bin/tidepool", "run", "--run-dir", f"{folder}/run", "--device-budget", str(budget), "--"]
        words += [build / "bin" / program[0], *program[1:], "--steps", str(steps)]
        done = subprocess.run(
            [str(word) for word in words], capture_output=True, text=True, timeout=LIMIT_S, check=False
        )
        told = json.loads(report.read_text())
        return Run(
            done.returncode, done.stdout, done.stderr, told["devices"][0]["memory"]["physical_peak_bytes"],
            told["copies"]["h2d"]["bytes"], told["copies"]["d2h"]["bytes"], clean_bytes(build, Path(folder) / "run"),
            told["virtual_ns"], told["races"]["total"],
            told["calls"].get("cuMemHostRegister_v2", 0), steps,
        )


def clean_bytes(build, folder):
    """Bytes that left the device without a copy, since the host still had them."""
    if not folder.exists():
        return 0
    done = subprocess.run(
        [build / "bin/tidepool", "report", "--json", folder], capture_output=True, text=True, check=True
    )
    return sum(process["metrics"]["clean_bytes_total"] for process in json.loads(done.stdout)["processes"])


def live_bytes(build, program):
    """Bytes that are written before and read after one point of a step: as many as do not fit leave and come back in each
    iteration. train_mlp tells of its worst point; of the others one is known."""
    name, words = program[0], program[1:]
    if name == "train_mlp":
        done = subprocess.run([build / "bin" / name, *words, "--describe"], capture_output=True, text=True, check=True)
        return json.loads(done.stdout)["live_bytes"]
    if name == "train_cnn":
        return activations_of_cnn(**{key.removeprefix("--"): int(value) for key, value in zip(words[::2], words[1::2])
                                     if key != "--alloc"})
    # Before the update: the optimizer reads each parameter, its gradient, and what it keeps for it.
    return (2 + STATES[name]) * parameter_bytes(build, program)


# What the optimizer keeps for each parameter, in arrays of its size: momentum, or Adam's two moments.
STATES = {"train_lstm": 1, "train_transformer": 2}


def parameter_bytes(build, program):
    """The size of the parameters, which the workload saves at its end."""
    with tempfile.TemporaryDirectory(prefix="oversubscription-") as folder:
        saved = Path(folder) / "parameters"
        subprocess.run([str(word) for word in (build / "bin/simgpu", "--device", "h100", "--", build / "bin" / program[0],
                                               *program[1:], "--steps", 1, "--save", saved)],
                       stdout=subprocess.DEVNULL, check=True, timeout=LIMIT_S)
        return saved.stat().st_size


def activations_of_cnn(batch, width=8, image=32, layers=1):
    """What train_cnn's forward work leaves for its backward work: the images; what each convolution made and what came out
    of it after its normalisation, but of the one in the second half's first skip only what it made; the maxima and which of four
    each was. Parameters are small beside these, and left out."""
    pixels = batch * image * image
    whole, half = 4 * width * pixels, 4 * 2 * width * pixels // 4
    maxima = width * pixels // 4
    return 4 * 3 * pixels + 2 * whole * (1 + 2 * layers) + 2 * half * 2 * layers + half + 4 * maxima + maxima


def refusal(err):
    """What Tidepool says where a launch cannot fit: the message that names the floor."""
    for line in err.splitlines():
        if " E TP2001 " in line and " or more." in line:
            return line[line.index("Raise --device-budget to "):].removeprefix("Raise --device-budget to ")
    return None


def pair_of(run_of):
    """Two runs that pinned host memory equally often, the shorter one first; `run_of(steps)` runs one."""
    runs = []
    for steps in STEPS:
        latest = run_of(steps)
        for other in runs:
            if other.pinned == latest.pinned or latest.code != 0:
                return sorted((other, latest), key=lambda one: one.steps)
        runs.append(latest)
    return sorted(runs[:2], key=lambda one: one.steps)


def each(pair, value):
    """What one iteration adds to `value`."""
    return (value(pair[1]) - value(pair[0])) / (pair[1].steps - pair[0].steps)


def measure(build, device, program, alone, percent, live):
    """One budget; `alone(steps)` is a run without Tidepool."""
    row = Row(percent, alone(STEPS[0]).peak * percent // 100)
    pair = pair_of(lambda steps: run(build, device, program, steps, row.budget))
    plain = [alone(one.steps) for one in pair]
    row.peak = max(one.peak for one in pair)
    row.step_ns = each(pair, lambda one: one.time_ns)
    row.into = each(pair, lambda one: one.into) - each(plain, lambda one: one.into)
    row.out_of = each(pair, lambda one: one.out_of) - each(plain, lambda one: one.out_of)
    row.clean = each(pair, lambda one: one.clean)
    if row.peak > row.budget:
        row.wrong = f"the peak is {row.peak} of {row.budget} bytes"
    elif all(one.code == 1 and refusal(one.err) for one in pair):
        row.refusal = refusal(pair[0].err)
    elif any(one.code != 0 for one in pair):
        row.wrong = "exit " + ", ".join(str(one.code) for one in pair) + f": {pair[-1].err[-500:]}"
    elif any(one.out != other.out for one, other in zip(pair, plain)):
        row.wrong = "the output is another"
    elif any(one.races for one in pair):
        row.wrong = "races"
    elif pair[0].pinned != pair[1].pinned:
        row.wrong = "no two runs pinned host memory equally often"
    elif min(row.into, row.out_of + row.clean) < live - row.budget:
        row.wrong = (f"{row.into:.0f} bytes in, {row.out_of:.0f} out and {row.clean:.0f} left unchanged in an iteration: "
                     f"{live - row.budget} had to move")
    return row


def measure_program(build, device, name, api):
    """(a pair of plain runs, rows) of a workload with one allocation API."""
    program = [name, *WORKLOADS[name], "--alloc", api]
    alone = functools.cache(lambda steps: run(build, device, program, steps))
    plain = [alone(steps) for steps in STEPS[:2]]
    if any(one.code != 0 for one in plain):
        sys.exit(f"{name} fails without Tidepool: {plain[0].err}")
    live = live_bytes(build, program)
    least = plain[0].peak * PERCENTS[-1] // 100
    if not least < live <= plain[0].peak:
        sys.exit(f"{name}: {live} live bytes of a peak of {plain[0].peak} say nothing about a budget of {least}")
    return plain, [measure(build, device, program, alone, percent, live) for percent in PERCENTS]


def table_of(results, device, api):
    """Lines of Markdown."""
    lines = [
        f"## {DEVICES.get(device, device)}, `--alloc {api}`", "",
        "| workload | peak without, MiB | budget | peak, MiB | iteration without, ms | with, ms | ratio | "
        "in, MiB | out, MiB | unchanged, MiB |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, (plain, rows) in results.items():
        alone = each(plain, lambda one: one.time_ns)
        command = " ".join([name, *WORKLOADS[name]])
        for row in rows:
            start = f"| `{command}` | {plain[0].peak / MIB:.0f} | {row.percent} % | "
            if row.refusal:
                lines.append(start + f"refused, with the least: {row.refusal.replace(' or more.', '')} | | | | | | |")
                continue
            lines.append(
                start + f"{row.peak / MIB:.0f} | {alone / 1e6:.2f} | {row.step_ns / 1e6:.2f} | "
                f"{row.step_ns / alone:.2f} | {row.into / MIB:.1f} | {row.out_of / MIB:.1f} | {row.clean / MIB:.1f} |"
            )
    return lines


HEAD = """# What less memory costs

What the [workloads](workloads.md) cost in a share of the memory that they use without Tidepool, on the simulated device.
Made by

```console
$ python3 tests/sim/measure_oversubscription.py build/dev --write docs/reference/oversubscription.md
```

(with `--alloc plain,async`; `pool` gives the same as `async`), which writes nothing unless every run prints the losses and the digest of weights that it prints without Tidepool, the
device's peak stays within the budget, nothing races, and what had to move did: of the bytes that are live at one point of an
iteration (`train_mlp --describe` tells; parameters, gradients and what the optimizer keeps before the update of `train_lstm` and
`train_transformer`; what `train_cnn`'s forward work leaves for the backward one), those beyond the budget move each way in
every iteration, or leave unchanged. A budget may be refused, with the least that would do.

*Iteration* is the difference of a run of 5 and one of 3 steps, halved (others, where these two pinned host memory
unequally often, which happens once and takes longer than an iteration); *in* and *out* are what Tidepool moves in one,
*unchanged* is what leaves the device without a copy since the host still has it.
Time is [virtual](../explanation/simgpu-time.md): that of the device's profile, not of a card. Tidepool's own host time
between calls is not in it. The policy is on demand, least recently used first, without a plan.

How to read it: these workloads are small, and most of an iteration without Tidepool is the host's: calls of `cudaMalloc` and
`cudaFree`, which waits. Tidepool answers both from its free list. That is why a ratio can be below one with `--alloc plain`, and
says nothing about programs whose kernels are long or whose allocator caches; the other tables are closer to those.
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path, help="the build folder")
    parser.add_argument("--write", type=Path, help="the page to write")
    parser.add_argument("--alloc", default="plain,async,pool", help="APIs, with commas")
    parser.add_argument("--devices", default=",".join(DEVICES))
    parser.add_argument("--jobs", type=int, default=1)
    wanted = parser.parse_args()
    text, wrong = [HEAD], []
    for device in wanted.devices.split(","):
        for api in wanted.alloc.split(","):
            with ThreadPoolExecutor(wanted.jobs) as pool:
                names = list(WORKLOADS)
                found = pool.map(lambda name: measure_program(wanted.build, device, name, api), names)
                results = dict(zip(names, found))
            text += [*table_of(results, device, api), ""]
            for name, (_, rows) in results.items():
                wrong += [f"{device} {name} {api} {row.percent} %: {row.wrong}" for row in rows if row.wrong]
    print("\n".join(text[1:] + wrong))
    if wanted.write and not wrong:
        wanted.write.write_text("\n".join(text))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
