"""What the ABI tests read from a shared library, by nm and readelf."""

import re
import subprocess
from pathlib import Path


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def dynamic_symbols(library):
    """Yields (name, version or '', type letter of nm) for each dynamic symbol."""
    for line in run("nm", "--dynamic", "--with-symbol-versions", str(library)).splitlines():
        kind, name = line.split()[-2:]
        name, _, version = name.partition("@")
        yield name, version.lstrip("@"), kind


def exports(library):
    """Exported names with their versions, version nodes themselves left out."""
    return {(name, version) for name, version, kind in dynamic_symbols(library) if kind not in "UwvA"}


def imports(library):
    """Names and versions that the library takes from elsewhere; weak ones only with a version."""
    return {(name, version) for name, version, kind in dynamic_symbols(library) if kind == "U" or (kind in "wv" and version)}


def needed(library):
    text = run("readelf", "--wide", "--dynamic", str(library))
    return re.findall(r"\(NEEDED\)\s+Shared library: \[(.*)\]", text)


def soname(library):
    match = re.search(r"\(SONAME\)\s+Library soname: \[(.*)\]", run("readelf", "--wide", "--dynamic", str(library)))
    return match.group(1) if match else ""


def unique_symbols(library):
    """STB_GNU_UNIQUE symbols: they would pin the library and bind other libraries to it."""
    return sorted(name for name, _, kind in dynamic_symbols(library) if kind == "u")


def hook_names(table):
    """The names that the rows of a hook table export."""
    names = set()
    for macro, name in re.findall(r"^\s*(TP_(?:HOOK|RUNTIME|NCCL)\w*)\s*\(\s*(\w+)", Path(table).read_text(), re.MULTILINE):
        names.add(name)
        for twin in ("PTSZ", "PTDS"):
            if macro.endswith("_" + twin):
                names.add(f"{name}_{twin.lower()}")
    return names
