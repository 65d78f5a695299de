"""Runs the benchmarks of a build, prints a table and writes <build>/bench.json (schema tidepool.bench/1)."""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

NAMES = tuple(f"{what}/threads:{threads}" for what in ("launch_8_pointers", "copy_512", "alloc_free_4mib", "alloc_free_64kib")
              for threads in (1, 2)) + ("alloc_free_4mib_live/1000", "alloc_free_4mib_live/100000")


def hook_times(program, preload, repetitions):
    """Median nanoseconds of each benchmark."""
    environment = dict(os.environ)
    if preload:
        environment["LD_PRELOAD"] = f"{preload}:{environment.get('LD_PRELOAD', '')}".rstrip(":")
    command = [
        program, "--benchmark_format=json", f"--benchmark_repetitions={repetitions}",
        "--benchmark_report_aggregates_only=true", "--benchmark_min_time=0.1",
    ]
    result = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    rows = json.loads(result.stdout)["benchmarks"]
    return {row["run_name"]: row["cpu_time"] for row in rows if row["aggregate_name"] == "median"}


def turn_times(program, quick):
    """Nanoseconds of processor time of a turn of the slow path, by what moves and how many blocks live."""
    command = [program, "--benchmark_format=json", f"--benchmark_min_time={0.05 if quick else 0.5}"]
    if quick:
        command.append("--benchmark_filter=/1000$")
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    return {row["name"]: row["cpu_time"] for row in json.loads(result.stdout)["benchmarks"]}


def launch_rates(build, rounds):
    """Launches per second on simgpu, plain and under Tidepool: the best of some rounds."""
    rates = {}
    simgpu = [str(build / "bin/simgpu"), "--device", "h100", "--"]
    for name, prefix in (("plain", []), ("tidepool", [str(build / "bin/tidepool"), "run", "--"])):
        command = [*simgpu, *prefix, str(build / "tests/launch_rate")]
        rates[name] = max(
            float(subprocess.run(command, capture_output=True, text=True, check=True).stdout) for _ in range(rounds)
        )
    return rates


def digest_rates(program, quick):
    """Bytes per second of simgpu's digests: what a launch touches by the time it takes."""
    command = [program, "--benchmark_format=json", f"--benchmark_min_time={0.05 if quick else 0.5}"]
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    rows = json.loads(result.stdout)["benchmarks"]
    return {row["name"].split("/")[-1]: row["bytes_per_second"] for row in rows if "bytes_per_second" in row}


def simgpu_costs(build, quick):
    """Microseconds of what simgpu's benchmark times."""
    command = [str(build / "bin/simgpu"), "--device", "h100", "--", str(build / "tests/simgpu_bench"),
               "--benchmark_format=json", f"--benchmark_min_time={0.02 if quick else 0.5}"]
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    rows = json.loads(result.stdout)["benchmarks"]
    return {row["name"].split("/iterations")[0].split("/real_time")[0].split("/manual_time")[0]: row["real_time"]
            for row in rows}


def measure(build, quick):
    program, shim, digests = build / "tests/hook_bench", build / "lib/libtidepool.so", build / "tests/digest_bench"
    for needed in (program, shim, digests, build / "tests/turn_bench"):
        if not needed.exists():
            sys.exit(f"tests/bench: {needed} is not built")
    repetitions = 3 if quick else 11
    without, with_shim = hook_times(program, None, repetitions), hook_times(program, shim, repetitions)
    hooks = {}
    for name in NAMES:
        plain, shimmed = without[name], with_shim[name]
        hooks[name] = {"null_ns": plain, "tidepool_ns": shimmed, "hook_ns": shimmed - plain, "ratio": shimmed / plain}
    return {
        "schema": "tidepool.bench/1",
        "hooks": hooks,
        "turns_ns": turn_times(build / "tests/turn_bench", quick),
        "simgpu_launches_per_second": launch_rates(build, 1 if quick else 3),
        "simgpu_digest_bytes_per_second": digest_rates(digests, quick),
        "simgpu_us": simgpu_costs(build, quick),
    }


def table(result):
    lines = [f"{'null driver, median':<32}{'without':>12}{'with':>12}{'hook':>12}{'ratio':>8}"]
    for name, row in result["hooks"].items():
        numbers = "".join(f"{row[key]:>9.1f} ns" for key in ("null_ns", "tidepool_ns", "hook_ns"))
        lines.append(f"{name:<32}{numbers}{row['ratio']:>8.1f}")
    lines += [f"{name + ' blocks':<32}{cost:>9.1f} ns" for name, cost in result["turns_ns"].items()]
    rates = result["simgpu_launches_per_second"]
    lines.append(f"{'simgpu, launches/s':<32}{rates['plain']:>12,.0f}{rates['tidepool']:>12,.0f}")
    for name, rate in result["simgpu_digest_bytes_per_second"].items():
        lines.append(f"{'simgpu digest, ' + name:<32}{rate / 1e9:>9.1f} GB/s")
    costs = result["simgpu_us"]
    for name, cost in costs.items():
        beside = f"  {costs['memcpy'] / cost:>6.0%} of memcpy" if name.startswith("copy/") else ""
        lines.append(f"{'simgpu, ' + name:<40}{cost:>12,.1f} us{beside}")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, required=True, help="a built build folder")
    parser.add_argument("--quick", action="store_true", help="few repetitions: shows that all works")
    arguments = parser.parse_args()
    try:
        result = measure(arguments.build.resolve(), arguments.quick)
    except subprocess.CalledProcessError as error:
        sys.exit(f"tests/bench: {error.cmd[0]} failed with {error.returncode}: {error.stderr or ''}")
    (arguments.build / "bench.json").write_text(json.dumps(result, indent=2) + "\n")
    print(table(result))


if __name__ == "__main__":
    main()
