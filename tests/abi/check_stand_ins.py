"""simgpu's libraries look like the ones they stand in for: soname, version node, no dependency on libstdc++."""

import argparse
import sys
from pathlib import Path

import elf

ALLOWED_NEEDED = {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"}


def check_runtime(library, like=None):
    """Exports what the toolkit's libcudart.so.13 exports, under its version node; `like` is that library."""
    found = [] if elf.soname(library) == "libcudart.so.13" else [f"soname is {elf.soname(library)}"]
    exported = elf.exports(library)
    found += [f"{name} carries '{version}'" for name, version in sorted(exported) if version != "libcudart.so.13"]
    names = {name for name, _ in exported}
    wanted = {"cudaMalloc"} if like is None else {name for name, _ in elf.exports(like)}
    found += [f"{name} is not exported" for name in sorted(wanted - names)]
    if like is not None:
        extra = {name for name in names - wanted if not name.startswith("simgpu")}
        found += [f"{name} is exported, but not by {like}" for name in sorted(extra)]
    return found


def check_driver(library, _like=None):
    found = [] if elf.soname(library) == "libcuda.so.1" else [f"soname is {elf.soname(library)}"]
    foreign = sorted(name for name, _ in elf.exports(library) if not name.startswith(("cu", "simgpu")))
    return found + [f"{name} is exported" for name in foreign]


CHECKS = {"runtime": check_runtime, "driver": check_driver}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("check", choices=sorted(CHECKS))
    parser.add_argument("--library", type=Path, required=True)
    parser.add_argument("--like", type=Path, help="the vendor's library; compared only where it is installed")
    arguments = parser.parse_args()
    if not arguments.library.exists():
        sys.exit(f"{arguments.library} is not built")
    like = arguments.like if arguments.like and arguments.like.exists() else None
    findings = CHECKS[arguments.check](arguments.library, like)
    findings += [f"needs {name}" for name in elf.needed(arguments.library) if name not in ALLOWED_NEEDED]
    print("\n".join(findings))
    sys.exit(1 if findings else 0)
