"""Says which machine a probe ran on: one JSON line a fact, on stdout. Asks only what needs no rights and no installs.

    python3 tests/device/machine.py before|after
"""

import json
import os
import platform
import re
import resource
import subprocess
import sys
import time
from pathlib import Path

SMI_FIELDS = ("driver_version,name,pci.bus_id,vbios_version,pstate,persistence_mode,compute_mode,mig.mode.current,"
              "ecc.mode.current,ecc.errors.uncorrected.volatile.total,clocks.sm,clocks.mem,clocks.max.sm,power.draw,"
              "power.limit,temperature.gpu,memory.used,pcie.link.gen.current,pcie.link.width.current")


def say(name, value, when):
    print(json.dumps({"section": "machine", "kind": "answer", "name": name, "params": {"when": when}, "value": value}),
          flush=True)


def first_line(path):
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").splitlines()[0].strip()
    except (OSError, IndexError):
        return None


def field_of(path, key):
    """The value behind "key : " in a file like /proc/cpuinfo."""
    try:
        for line in Path(path).read_text(encoding="utf-8", errors="replace").splitlines():
            name, colon, value = line.partition(":")
            if colon and name.strip() == key:
                return value.strip()
    except OSError:
        pass
    return None


def smi(*words):
    """What nvidia-smi says, or why it says nothing."""
    try:
        done = subprocess.run(["nvidia-smi", *words], capture_output=True, text=True, timeout=10, check=False)
    except FileNotFoundError:
        return "no nvidia-smi"
    except (OSError, subprocess.TimeoutExpired) as error:
        return type(error).__name__
    return (done.stdout if done.returncode == 0 else done.stdout + done.stderr).strip()[:2000]


def main():
    when = sys.argv[1] if len(sys.argv) == 2 else ""
    if when not in ("before", "after"):
        print(__doc__.strip(), file=sys.stderr)
        return 2
    say("date", time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()), when)
    if when == "before":
        say("code", first_line(Path(__file__).parent / "carried_version.txt") or "not carried: see git", when)
        release = re.match(r"[\d.]*", platform.release()).group()  # what a builder calls it says nothing to others
        say("kernel", f"{platform.system()} {release} {platform.machine()}", when)
        say("processor", field_of("/proc/cpuinfo", "model name"), when)
        say("processors", len(os.sched_getaffinity(0)), when)
        say("memory", field_of("/proc/meminfo", "MemTotal"), when)
        say("libc", " ".join(platform.libc_ver()), when)
        say("kernel_driver", first_line("/proc/driver/nvidia/version"), when)
        say("transparent_huge_pages", first_line("/sys/kernel/mm/transparent_hugepage/enabled"), when)
        say("locked_memory_limit_bytes", resource.getrlimit(resource.RLIMIT_MEMLOCK)[0], when)
    say("gpu", smi(f"--query-gpu={SMI_FIELDS}", "--format=csv"), when)
    say("gpu_processes", smi("--query-compute-apps=pid,used_memory", "--format=csv"), when)
    print(json.dumps({"section": "machine", "kind": "end", "seconds": 0}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
