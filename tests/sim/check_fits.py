#!/usr/bin/env python3
"""A job that fits must cost nothing once it is warm: check_fits.py BUILD [--host-time N]

For each workload and allocation API, under Tidepool with all the memory of the device: from the third step to the sixth no
memory is created, mapped or pinned, nothing moves, the peak does not grow, and of the driver's functions few are called that
the program did not call (marks of streams, questions how far they are). Where memory is allocated in stream order, a
step takes at most 2 % more virtual time than without Tidepool, in each of five orders of work; cudaFree waits for the device
without, so that the same bound would say nothing.

With --host-time the time of the host between calls is charged as well, Tidepool's own with it (simgpu --host-time measured):
medians of N pairs of runs. That repeats neither here nor elsewhere, so it is printed and nothing is held against it."""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

WORKLOADS = (["train_mlp"], ["train_cnn", "--batch", "160"], ["train_lstm", "--layers", "3"],
             ["train_transformer", "--layers", "2"])
STEPS = (3, 6)
MEASURED_STEPS = (10, 40)
SEEDS = (1, 2, 3, 4, 5)
MOST_TIME = 1.02
# Of calls that Tidepool makes for itself, to one of the program's.
MOST_OWN_CALLS = 0.06
OWN_CALLS = ("cuEventCreate", "cuEventDestroy_v2", "cuEventQuery", "cuEventRecord", "cuStreamWaitEvent", "cuStreamQuery")
# All that reaches the driver, to what does without; here too what is answered without the driver counts.
MOST_CALLS = {"plain": 1.3, "async": 0.9, "pool": 0.9}
# Between simgpu's two libraries, where another is between them; no driver has it.
NO_CALLS = ("simgpuProgram",)
SLOW_CALLS = ("cuMemAddressReserve", "cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuMemUnmap", "cuMemRelease",
              "cuMemHostRegister_v2")


def run(build, program, steps, prefix, seed=1, host_time="fixed"):
    """What the device reports of one run."""
    with tempfile.TemporaryDirectory(prefix="fits-") as folder:
        report = Path(folder) / "report.json"
        words = [build / "bin/simgpu", "--device", "h100", "--seed", seed, "--host-time", host_time, "--report", report, "--",
                 *prefix, build / "bin" / program[0], *program[1:], "--steps", steps]
        subprocess.run([str(word) for word in words], check=True, capture_output=True, timeout=120)
        return json.loads(report.read_text())


def calls_between(reports, names=None):
    """Calls of a driver's functions from the first report to the second, of these names or of all."""
    first, second = ({name: many for name, many in one["calls"].items() if name not in NO_CALLS} for one in reports)
    return sum(many - first.get(name, 0) for name, many in second.items() if names is None or name in names)


def step_time(reports, steps=STEPS):
    """Virtual nanoseconds of one step."""
    return (reports[1]["virtual_ns"] - reports[0]["virtual_ns"]) / (steps[1] - steps[0])


def tidepool(build):
    return [build / "bin/tidepool", "run", "--"]


def problems(build, program, api):
    """(texts that say what is wrong, virtual ns of a step under Tidepool and without)."""
    program = [*program, "--alloc", api]
    under = [run(build, program, steps, tidepool(build)) for steps in STEPS]
    alone = [run(build, program, steps, []) for steps in STEPS]
    found = []
    for call in SLOW_CALLS:
        more = under[1]["calls"].get(call, 0) - under[0]["calls"].get(call, 0)
        if more:
            found.append(f"{more} more calls of {call}")
    calls = calls_between(alone)
    own = calls_between(under, OWN_CALLS) - calls_between(alone, OWN_CALLS)
    if own > MOST_OWN_CALLS * calls:
        found.append(f"{own} marks and questions, where the program makes {calls} calls")
    if calls_between(under) > MOST_CALLS[api] * calls:
        found.append(f"{calls_between(under)} calls reach the driver, {calls} without")
    for way in ("h2d", "d2h"):
        bytes_of = [under[i]["copies"][way]["bytes"] - alone[i]["copies"][way]["bytes"] for i in (0, 1)]
        if bytes_of != [0, 0]:
            found.append(f"{way}: {bytes_of[1]} bytes that the program did not copy")
    peaks = [one["devices"][0]["memory"]["physical_peak_bytes"] for one in under]
    if peaks[0] != peaks[1]:
        found.append(f"the peak grew from {peaks[0]} to {peaks[1]} bytes")
    times = [step_time(under)]
    if api == "async":
        times += [step_time([run(build, program, steps, tidepool(build), seed) for steps in STEPS]) for seed in SEEDS[1:]]
    each = (max(times), step_time(alone))
    if api != "plain" and each[0] > MOST_TIME * each[1]:
        found.append(f"a step takes {each[0] / 1e6:.3f} ms of virtual time, {each[1] / 1e6:.3f} without")
    return found, each


def measured(build, program, api, rounds):
    """Virtual ns of a step under Tidepool and without, with the host's time in it: pairs of runs, one after the other, so that
    what else the machine does meets both."""
    program = [*program, "--alloc", api]
    pairs = []
    for _ in range(rounds):
        pairs.append([step_time([run(build, program, many, prefix, host_time="measured") for many in MEASURED_STEPS],
                                MEASURED_STEPS) for prefix in (tidepool(build), [])])
    return pairs


def print_measured(build, cases, rounds):
    for program, api in cases:
        pairs = measured(build, program, api, rounds)
        under, alone = (statistics.median(column) for column in zip(*pairs))
        ratios = sorted(one / other * 100 - 100 for one, other in pairs)
        print(f"{program[0]:<18} {api:<6} {under / 1e6:7.3f} ms a step, {alone / 1e6:7.3f} without, "
              f"{statistics.median(ratios):+5.1f} % ({ratios[0]:+.1f} to {ratios[-1]:+.1f})", flush=True)
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=Path)
    parser.add_argument("--host-time", type=int, metavar="N", help="charge the host's time too; N pairs of runs")
    wanted = parser.parse_args()
    build = wanted.build.resolve()
    cases = [(program, api) for program in WORKLOADS for api in ("plain", "async", "pool")]
    if wanted.host_time:
        return print_measured(build, cases, wanted.host_time)
    wrong = 0
    with ThreadPoolExecutor(2) as pool:
        for (program, api), (found, each) in zip(cases, pool.map(lambda case: problems(build, *case), cases)):
            print(f"{program[0]:<18} {api:<6} {each[0] / 1e6:7.3f} ms a step, {each[1] / 1e6:7.3f} without  "
                  f"{'; '.join(found) or 'ok'}")
            wrong += bool(found)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
