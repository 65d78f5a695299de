"""Which conformance case notices which mutant of the simulated device: run_mutants.py --simgpu runs this.

Mutants lie in tests/mutants/simgpu. Each is applied to the scratch copy, the device is built, and the areas of the suite
that its line `tests:` names run under it; results go into a file at once, so that a run that was cut off goes on where
it stopped. The table of docs/reference/conformance.md comes from that file, from the hardware results, and from the
list of cases.
"""

import hashlib
import json
import re
import subprocess
import sys
import time
from pathlib import Path

import mutant as mutants

FOLDER = Path(__file__).resolve().parent
TABLE = FOLDER.parents[1] / "docs/reference/conformance.md"
HARDWARE = FOLDER.parents[1] / "docs/reference/hardware"
TARGETS = ["simgpu", "simgpu_cuda", "simgpu_cudart", "conformance"]
# The device is built for each mutant, the kernels of the suite once.
CONFIGURE = ["-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_CXX_FLAGS_DEBUG=-O0", "-DCMAKE_CUDA_FLAGS_DEBUG=-O2"]
SEEDS = range(1, 9)
CASE_SECONDS = "10"
ONE_DEVICE = "there is one device"  # the one thing that the simulated device may lack
ALL = r"\w+"
TWO_DEVICES = ["--device", "h100", "--device", "h100"]


def run_once(build, words, jobs, simgpu_words):
    command = [build / "bin/simgpu", *simgpu_words, "--", build / "tests/conformance/conformance", "--json", "--jobs",
               str(jobs), "--seconds", CASE_SECONDS, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    records = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return [record for record in records if "case" in record and record["detail"] != ONE_DEVICE]


def filter_of(areas, failed):
    """The regular expression for all cases of the areas but those that have failed: many of them do by their time limit."""
    return "^" + "".join(f"(?!{re.escape(name)}$)" for name in sorted(failed)) + rf"({areas})\."


def run_suite(build, jobs, areas):
    """case -> verdict, the worst of all seeds, for areas like "vmm|copy"; what does not depend on the order runs once."""
    worst = {}
    for index, seed in enumerate(SEEDS):
        for devices in ([], TWO_DEVICES) if "peer" in areas or areas == ALL else ([],):
            words = ["--filter", filter_of("peer" if devices else areas, failing(worst))]
            words += ["--order-only"] if index > 0 else []
            for record in run_once(build, words, jobs, ["--seed", str(seed), *devices]):
                if worst.get(record["case"]) != "fail":
                    worst[record["case"]] = "pass" if record["verdict"] == "pass" else "fail"
    return worst


def areas_of(mutant):
    """The areas in `tests: sim\\.conformance\\.(vmm|copy)` or `tests: sim\\.conformance\\.vmm`."""
    match = re.fullmatch(r"sim\\\.conformance\\\.\(?([\w|]+)\)?", mutant.tests)
    if match is None:
        raise mutants.MutantError(f"{mutant.name}: tests: must be sim\\.conformance\\.(AREA|…), not {mutant.tests}")
    return match.group(1)


def failing(verdicts):
    return {name for name, verdict in verdicts.items() if verdict == "fail"}


def digest(tree, file):
    """Of the mutant and of the sources that it changes, as they are without it."""
    text = file.read_bytes()
    for edit in mutants.load(file).edits:
        text += (tree / edit.path).read_bytes() if (tree / edit.path).is_file() else b""
    return hashlib.sha256(text).hexdigest()[:16]


class Results:
    """What was found so far: {"mutants": {name: {"text": digest, "why": ..., "killed_by": [cases]}}}."""

    def __init__(self, path):
        self.path = path
        self.mutants = json.loads(path.read_text())["mutants"] if path.is_file() else {}

    def has(self, tree, file):
        """Judged as it is now, and noticed: what was not noticed is judged again, as a case may have been added."""
        found = self.mutants.get(file.stem, {})
        return found.get("text") == digest(tree, file) and bool(found["killed_by"])

    def put(self, tree, file, mutant, killed_by):
        self.mutants[file.stem] = {"text": digest(tree, file), "why": mutant.why, "killed_by": sorted(killed_by)}
        self.path.write_text(json.dumps({"mutants": self.mutants}, indent=1, sort_keys=True) + "\n")


def judge(workshop, file, before, jobs):
    """The cases that notice this mutant."""
    mutant = mutants.load(file)
    texts = mutants.mutated_files(workshop.tree, mutant)
    originals = {path: (workshop.tree / path).read_text() for path in texts}
    started = time.monotonic()
    try:
        workshop.write(texts)
        output = workshop.make(TARGETS)
        if output:
            raise mutants.MutantError(f"{mutant.name} does not build:\n{output}")
        built = time.monotonic()
        killed_by = failing(run_suite(workshop.build, jobs, areas_of(mutant))) - before
    finally:
        workshop.write(originals)
    print(f"{mutant.name}: noticed by {len(killed_by)} cases (built in {built - started:.0f} s, run in "
          f"{time.monotonic() - built:.0f} s)", flush=True)
    return mutant, killed_by


def run(workshop, files, results, jobs):
    """Problems: mutants that nobody notices or that are wrong themselves."""
    before = failing(run_suite(workshop.build, jobs, ALL))
    if before:
        print(f"these fail without a mutant and count for nothing: {', '.join(sorted(before))}", flush=True)
    problems = []
    for file in files:
        try:
            mutant, killed_by = judge(workshop, file, before, jobs)
        except mutants.MutantError as error:
            problems.append(str(error))
            continue
        results.put(workshop.tree, file, mutant, killed_by)
        if not killed_by:
            problems.append(f"{file.stem} was noticed by no case: {mutant.why}")
    return problems


def list_cases(build):
    command = [build / "tests/conformance/conformance", "--list", "--json"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def hardware_verdicts():
    """case -> verdict on hardware, from files of tests/device/conformance.sh."""
    found = {}
    for path in sorted(HARDWARE.glob("*conformance*.jsonl")):
        records = [json.loads(line) for line in path.read_text().splitlines()]
        if records and not records[0].get("simulated"):
            device = records[0].get("device", "?")
            for record in records[1:]:
                if record.get("verdict") in ("pass", "fail"):
                    found[record["case"]] = f"{record['verdict']} ({device})"
    return found


def shorten(names, most=3):
    shown = ", ".join(f"`{name}`" for name in names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")


def unverified_cases(cases, results, hardware):
    noticing = {case for found in results.mutants.values() for case in found["killed_by"]}
    return [c["case"] for c in cases if c["case"] not in noticing and c["case"] not in hardware]


def table(cases, results, hardware):
    """The text of docs/reference/conformance.md."""
    kills = {case["case"]: [] for case in cases}
    for name, found in sorted(results.mutants.items()):
        for case in found["killed_by"]:
            kills.setdefault(case, []).append(name)
    unverified = unverified_cases(cases, results, hardware)
    caught = [name for name, found in results.mutants.items() if found["killed_by"]]
    lines = [
        "# What the simulated device claims, and what stands behind each claim",
        "",
        "Written by `python3 tests/mutants/run_mutants.py --simgpu --scratch FOLDER`; do not edit it by hand.",
        "",
        "Each case of the [conformance suite](../../tests/conformance/README.md) cites the section of the CUDA",
        "documentation that it tests. It is worth something if it notices at least one",
        "[mutant](../../tests/mutants/README.md) of the simulated device, or has run on hardware; a case with neither is",
        "*unverified*. The verdict on hardware is that of the latest visit: a case that failed there and was corrected",
        "keeps it until the next.",
        "",
        f"{len(cases)} cases; {len(results.mutants)} mutants, of which {len(caught)} are noticed; "
        f"{len(cases) - len(unverified)} cases verified, {len(unverified)} unverified; "
        f"{sum(case['case'] in hardware for case in cases)} with a result on hardware.",
        "",
        "Unverified: " + (", ".join(f"`{name}`" for name in unverified) or "none") + ".",
        "",
        "## Cases",
        "",
        "| case | section | mutants that it notices | hardware |",
        "|---|---|---|---|",
    ]
    for case in cases:
        name = case["case"]
        noticed = shorten(kills[name]) or ("" if name in hardware else "*unverified*")
        lines.append(f"| {name} | {case['section']} | {noticed} | {hardware.get(name, '')} |")
    lines += ["", "## Mutants", "", "| mutant | what it does wrong | noticed by |", "|---|---|---|"]
    for name, found in sorted(results.mutants.items()):
        count = len(found["killed_by"])
        noticed = shorten(found["killed_by"], 2) if count else "*nobody*"
        lines.append(f"| `{name}` | {found['why']} | {noticed} |")
    return "\n".join(lines) + "\n"


def main(workshop, chosen, files, jobs, out):
    """Judges the mutants that are chosen (empty: those of `files` without a result), writes the table of all, and
    returns the problems."""
    workshop.prepare()
    output = workshop.make(TARGETS)
    if output:
        return [f"the sources do not build:\n{output}"]
    results = Results(workshop.tree.parent / "conformance_mutants.json")
    results.mutants = {file.stem: results.mutants[file.stem] for file in files if file.stem in results.mutants}
    open_files = chosen or [file for file in files if not results.has(workshop.tree, file)]
    problems = run(workshop, open_files, results, jobs) if open_files else []
    cases, hardware = list_cases(workshop.build), hardware_verdicts()
    out.write_text(table(cases, results, hardware))
    for name in unverified_cases(cases, results, hardware):
        print(f"unverified: {name}")
    print(f"written: {out}", file=sys.stderr)
    return problems
