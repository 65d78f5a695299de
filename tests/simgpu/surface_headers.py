"""The driver's tables against the toolkit's headers: every function of cuda.h and cudaProfiler.h is in exactly one of
entries.def and unsupported.def, under the name, version and per-thread twin that the headers give it, and exported."""

import argparse
import collections
import re
import subprocess
import sys
from pathlib import Path

# cuGetProcAddress hands out per-thread twins from this version on (cudaTypedefs.h).
TWINS_SINCE = 7000
PRIVATE = "simgpu"


def declared(headers, compiler):
    """Every function that the headers declare, old versions and per-thread twins included."""
    text = subprocess.run(
        [compiler, "-E", "-P", "-x", "c++", "-D__CUDA_API_VERSION_INTERNAL", f"-I{headers}", "-"],
        input="#include <cuda.h>\n#include <cudaProfiler.h>\n",
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return set(re.findall(r"\bCUresult\s+(cu[A-Z]\w*)\s*\(", text))


def typedefs(headers):
    """base -> version -> the twins that a PFN_ type of that version names ('' is the function itself)."""
    found = collections.defaultdict(lambda: collections.defaultdict(set))
    for header in ("cudaTypedefs.h", "cudaProfilerTypedefs.h"):
        text = (headers / header).read_text()
        for base, version, twin in re.findall(r"\*PFN_(cu[A-Z]\w*?)_v(\d+)(?:_(pt[sd][sz]))?\)", text):
            found[base][int(version)].add(twin)
    return found


def split(symbol):
    """cuMemcpyHtoD_v2_ptds -> (cuMemcpyHtoD, 2, PTDS)"""
    match = re.fullmatch(r"(.*?)(?:_v(\d+))?(?:_(ptsz|ptds))?", symbol)
    return match[1], int(match[2] or 1), (match[3] or "none").upper()


def wanted_rows(symbols, types):
    """(base, exported, since, twin) for each function, twins folded into their function."""
    versions = collections.defaultdict(lambda: collections.defaultdict(set))
    for symbol in symbols:
        base, version, twin = split(symbol)
        versions[base][version].add(twin)
    rows, problems = set(), []
    for base, known in sorted(versions.items()):
        ages = sorted(version for version, twins in types[base].items() if "" in twins)
        if len(ages) != len(known):
            problems.append(f"{base}: {len(known)} declared versions, {len(ages)} types")
            continue
        for since, (version, twins) in zip(ages, sorted(known.items())):
            twin = next(iter(twins - {"NONE"}), "NONE")
            rows.add((base, base if version == 1 else f"{base}_v{version}", since, twin))
            if twin != "NONE" and twin.lower() not in types[base].get(max(since, TWINS_SINCE), ()):
                problems.append(f"{base}: no type for its twin of version {max(since, TWINS_SINCE)}")
    return rows, problems


def table_rows(path):
    text = path.read_text()
    rows = re.findall(r"^SIMGPU_(?:ENTRY|UNSUPPORTED)\(\s*(\w+),\s*(\w+),\s*(\d+),\s*(\w+)\)", text, re.MULTILINE)
    return [(base, exported, int(since), twin) for base, exported, since, twin in rows]


def compare(wanted, entries, unsupported):
    """What is wrong with the two tables."""
    rows = [row for row in entries + unsupported if not row[1].startswith(PRIVATE)]
    problems = [f"{row[1]} is in {count} rows" for row, count in sorted(collections.Counter(rows).items()) if count > 1]
    problems += [f"{row} is in the headers but in neither table" for row in sorted(wanted - set(rows))]
    problems += [f"{row} is in a table but not so in the headers" for row in sorted(set(rows) - wanted)]
    return problems


def exported_names(library):
    text = subprocess.run(["nm", "--dynamic", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    return {line.split()[-1] for line in text.splitlines()}


def wanted_exports(rows):
    return {row[1] for row in rows} | {f"{row[1]}_{row[3].lower()}" for row in rows if row[3] != "NONE"}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--headers", type=Path, required=True)
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--entries", type=Path, required=True)
    parser.add_argument("--unsupported", type=Path, required=True)
    parser.add_argument("--library", type=Path, required=True)
    arguments = parser.parse_args()
    wanted, problems = wanted_rows(declared(arguments.headers, arguments.compiler), typedefs(arguments.headers))
    entries, unsupported = table_rows(arguments.entries), table_rows(arguments.unsupported)
    problems += compare(wanted, entries, unsupported)
    exported = exported_names(arguments.library)
    names = wanted_exports(entries + unsupported)
    problems += [f"{name} is not exported" for name in sorted(names - exported)]
    problems += [f"{name} is exported but in no table" for name in sorted(exported - names)]
    print("\n".join(problems) or f"{len(entries)} functions, {len(unsupported)} that answer not supported")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
