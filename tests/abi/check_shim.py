"""libtidepool.so is a polite guest: it exports its hooks and nothing else, and needs libc and nothing else."""

import argparse
import sys
from pathlib import Path

import elf

# dlsym is exported for programs linked against old and new glibc.
DLSYM = {("dlsym", "GLIBC_2.2.5"), ("dlsym", "GLIBC_2.34")}
ALLOWED_NEEDED = {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"}
# Functions of the C library that libtidepool.so stands in front of, beside dlsym. Programs name a version of theirs.
STANDS_IN_FRONT = {"getenv", "secure_getenv"}
NEWEST_GLIBC = (2, 36)


def check_exports(library, tables):
    wanted = set().union(*map(elf.hook_names, tables))
    exported = elf.exports(library)
    names = {name for name, _ in exported if name != "dlsym"}
    if len(tables) > 1:  # libtidepool.so itself
        wanted |= STANDS_IN_FRONT
    listed = " and ".join(Path(table).name for table in tables)
    found = [f"{name} is in {listed} but not exported" for name in sorted(wanted - names)]
    found += [f"{name} is exported but not in {listed}" for name in sorted(names - wanted)]
    # Programs ask for these in a version of their own; only a symbol without one serves them all.
    versioned = [(name, version) for name, version in sorted(exported) if version]
    found += [
        f"{name} is exported as {version}"
        for name, version in versioned
        if name.startswith(("cuda", "nccl")) or name in STANDS_IN_FRONT
    ]
    dlsym = {(name, version) for name, version in exported if name == "dlsym"}
    if dlsym != DLSYM:
        found.append(f"dlsym is exported as {sorted(dlsym)}, want {sorted(DLSYM)}")
    return found


def check_needed(library, _tables):
    return [f"needs {name}" for name in elf.needed(library) if name not in ALLOWED_NEEDED]


def check_unique(library, _tables):
    return [f"{name} is STB_GNU_UNIQUE" for name in elf.unique_symbols(library)]


def check_undefined(library, _tables):
    return [
        f"{name} is taken from outside glibc"
        for name, version in sorted(elf.imports(library))
        if not version.startswith("GLIBC_")
    ]


def check_glibc(library, _tables):
    found = []
    for name, version in sorted(elf.imports(library)):
        number = version.removeprefix("GLIBC_")
        if version.startswith("GLIBC_") and number[0].isdigit() and tuple(map(int, number.split("."))) > NEWEST_GLIBC:
            found.append(f"{name} needs glibc {number}")
    return found


CHECKS = {
    "exports": check_exports,
    "needed": check_needed,
    "unique": check_unique,
    "undefined": check_undefined,
    "glibc": check_glibc,
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("check", choices=sorted(CHECKS))
    parser.add_argument("--library", type=Path, required=True)
    parser.add_argument("--hooks", type=Path, nargs="+", help="shim/hooks.def, shim/runtime_hooks.def")
    arguments = parser.parse_args()
    findings = CHECKS[arguments.check](arguments.library, arguments.hooks)
    print("\n".join(findings))
    sys.exit(1 if findings else 0)
