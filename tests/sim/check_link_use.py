#!/usr/bin/env python3
"""How much of the link a job uses that does nothing but swap: check_link_use.py BUILD LEAST

Each launch of ping_pong has one block of 64 MiB come in and another leave. Bytes both ways by virtual time, as a share of what
the profile's link moves when it is used both ways at once; fails where that is below LEAST (0 to 1) on any device. The difference of two runs: host
memory is pinned in the first rounds."""

import json
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROUNDS = (8, 13)
BLOCKS, MIB_EACH, BUDGET = 8, 64, "324MiB"
DEVICES = ("h100", "rtx4090")
PROFILES = Path(__file__).resolve().parents[2] / "tools/profiles"


def run(build, device, rounds):
    """What the device reports."""
    with tempfile.TemporaryDirectory(prefix="link-") as folder:
        report = Path(folder) / "report.json"
        words = [build / "bin/simgpu", "--device", device, "--report", report, "--", build / "bin/tidepool", "run",
                 "--device-budget", BUDGET, "--", build / "tests/ping_pong", BLOCKS, MIB_EACH, rounds]
        subprocess.run([str(word) for word in words], check=True, capture_output=True, timeout=120)
        return json.loads(report.read_text())


def share(build, device):
    """What is used of the link of this device."""
    link = tomllib.loads((PROFILES / f"{device}.toml").read_text())["link"]
    fastest = (link["h2d_bytes_per_second"] + link["d2h_bytes_per_second"]) * link["duplex"]
    first, second = (run(build, device, rounds) for rounds in ROUNDS)
    moved = sum(second["copies"][way]["bytes"] - first["copies"][way]["bytes"] for way in ("h2d", "d2h"))
    rate = moved / ((second["virtual_ns"] - first["virtual_ns"]) / 1e9)
    print(f"{device}: {rate / 1e9:.1f} GB/s both ways, {rate / fastest:.0%} of {fastest / 1e9:.1f}")
    return rate / fastest


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__.splitlines()[0])
    build, least = Path(sys.argv[1]).resolve(), float(sys.argv[2])
    shares = [share(build, device) for device in DEVICES]
    return 0 if min(shares) >= least else 1


if __name__ == "__main__":
    sys.exit(main())
