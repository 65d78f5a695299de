#!/usr/bin/env python3
"""Holds the driver calls that were counted at Tidepool's door against those that CUPTI, or a recording driver,
counted in the same run, and says what passed by. A difference is an answer, not an error.

Reads files of JSON lines as libtidepool-count.so, libtidepool-cupti.so and the recording driver write them, and
prints JSON lines in the form of the hardware probe's. Calls per step come from the files of a run of twice as many
steps. What cannot be told is null: nothing agrees with a reference that is not there, or with a count that was cut
off. Needs Python 3.9 and nothing else.
"""

import argparse
import json
import os
import re
import sys
from collections import Counter
from pathlib import Path

SCHEMA = "tidepool.probe/1"

# class: what the names of its entries look like, without version and twin. The first class that fits.
CLASSES = [
    ("launches", r"cuLaunch(Kernel|KernelEx|CooperativeKernel|CooperativeKernelMultiDevice|Grid|GridAsync)?"),
    ("graph launches", r"cuGraphLaunch"),
    ("host functions", r"cuLaunchHostFunc"),
    ("launches", r"cuLaunch\w+"),  # one that nobody knows yet
    ("host memory", r"cuMem(AllocHost|HostAlloc|FreeHost|HostRegister|HostUnregister)"),
    ("allocations", r"cuMemAlloc\w*"),
    ("frees", r"cuMemFree\w*"),
    ("copies", r"cuMemcpy\w*"),
    ("memsets", r"cuMemset\w*"),
    ("own mappings", r"cuMem(Create|Release|Map|Unmap|SetAccess|AddressReserve|AddressFree)"),
]
COMPARED = ("launches", "allocations", "frees", "copies", "memsets", "graph launches", "own mappings")


def base_of(entry):
    """The name without twin and version: cuMemAlloc for cuMemAlloc_v2, cuLaunchKernel for its _ptsz."""
    return re.sub(r"_v\d+$", "", re.sub(r"_pt[sd][sz]$", "", entry))


def class_of(entry):
    for name, pattern in CLASSES:
        if re.fullmatch(pattern, base_of(entry)):
            return name
    return None


def read_records(paths):
    """All records of some files; a file that is missing or half written, or a line that was cut off, is left out."""
    records = []
    for path in paths:
        if not os.path.exists(path) or path.endswith(".part"):
            continue
        for line in Path(path).read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                records.append(json.loads(line))
            except ValueError:
                continue
    return records


class Side:
    """One side's records of one run."""

    def __init__(self, records):
        self.records = records
        self.calls = Counter()
        self.guarded = Counter()
        self.inner = Counter()
        for record in self.named("calls"):
            self.calls[record["entry"]] += record["calls"]
            self.inner[record["entry"]] += record.get("inner", 0)
        for record in self.named("guarded"):
            self.guarded[record["entry"]] += record["calls"]

    def named(self, name):
        return [record for record in self.records if record.get("name") == name]

    def is_final(self):
        """True if every process of the run wrote its last report, which nothing comes after."""
        starts, ends = ([record for record in self.records if record.get("kind") == kind] for kind in ("start", "end"))
        return bool(ends) and len(starts) == len(ends) and all(record.get("final") for record in ends)

    def skipped(self):
        return [record.get("why", "") for record in self.records if record.get("kind") == "skipped"]

    def entries_of(self, name):
        """{entry: calls} of a class, those of versions that the table lacks included."""
        both = self.calls + self.guarded
        return {entry: count for entry, count in sorted(both.items()) if class_of(entry) == name}

    def in_class(self, name):
        return sum(self.entries_of(name).values())

    def inner_in_class(self, name):
        """Calls from within other calls, which are the driver's own."""
        return sum(count for entry, count in self.inner.items() if class_of(entry) == name)


def answer(name, **fields):
    return {"schema": SCHEMA, "section": fields.pop("section", "doors"), "kind": "answer", "name": name, **fields}


def per_step(short, long, name, steps):
    """Calls of a class in one step, from two whole runs; the start of the program falls out."""
    if not steps or not all(side is not None and side.is_final() for side in (short, long)):
        return None
    return (long.in_class(name) - short.in_class(name)) / steps


def step_answers(program, steps, short, long):
    """Calls per step of each class that has any, as far as two runs tell."""
    found = []
    for name in COMPARED:
        each = {side: per_step(short[side], long[side], name, steps) for side in ("door", "reference")}
        if any(each.values()):
            found.append(answer(f"{name} per step", program=program, **{"class": name}, **each))
    return found


def class_answers(program, door, reference, truth):
    """One answer for each class that either side has seen."""
    found = []
    is_whole = door.is_final()
    reference_is_whole = reference is not None and reference.is_final()
    for name in COMPARED:
        wanted = truth.get(name)
        seen = {"door": door.in_class(name), "reference": reference.in_class(name) if reference else None}
        if wanted is None and not any(seen.values()):
            continue
        agrees = seen["door"] == seen["reference"] if is_whole and reference_is_whole else None
        record = answer(f"{name} pass the door", program=program, **{"class": name}, **seen, agrees=agrees)
        record["final"] = is_whole and (reference is None or reference_is_whole)
        record["door_entries"] = door.entries_of(name)
        if reference is not None:
            record["reference_entries"] = reference.entries_of(name)
            record["reference_inner"] = reference.inner_in_class(name)
        if wanted is not None:
            record["truth"] = wanted
            record["door_is_true"] = seen["door"] == wanted if is_whole else None
            if reference is not None:
                record["reference_is_true"] = seen["reference"] == wanted if reference_is_whole else None
        found.append(record)
    return found


def entry_answers(program, door, reference):
    """The entries that the two sides count differently, those of the compared classes."""
    found = []
    for entry in sorted(set(door.calls) | set(reference.calls)):
        here, there = door.calls[entry], reference.calls[entry]
        name = class_of(entry)
        if here != there and name in COMPARED:
            found.append(
                answer("counted differently", program=program, entry=entry, door=here, reference=there, **{"class": name})
            )
    return found


def read_reasons(path):
    """{name: reason} of a list with lines "name: reason"."""
    reasons = {}
    for line in Path(path).read_text(encoding="utf-8").splitlines() if path else []:
        name, colon, reason = line.partition(":")
        if colon and not line.startswith("#"):
            reasons[base_of(name)] = reason.strip()
    return reasons


def read_known(path):
    """Every driver function that a text names, without twins and versions; None where there is no such text."""
    if not path or not os.path.exists(path):
        return None
    return {base_of(name) for name in re.findall(r"\bcu[A-Z]\w*", Path(path).read_text(encoding="utf-8"))}


def merge_asked(door):
    """{(name, what hooks.def lacks of it): how it was asked for}."""
    merged = {}
    for record in door.named("asked"):
        row = merged.setdefault((record["entry"], record["lacks"]),
                                {"times": 0, "had": False, "versions": set(), "doors": set(), "callers": set()})
        row["times"] += record["times"]
        row["had"] = row["had"] or record["had"]
        row["versions"].add(record["version"])
        row["doors"].add(record["door"])
        row["callers"] |= {record["caller"]} - {""}
    return {key: {field: sorted(value) if isinstance(value, set) else value for field, value in row.items()}
            for key, row in sorted(merged.items())}


def asked_answers(program, door, reasons, known=None):
    """Names that were asked for and that hooks.def lacks. One answer each where the name counts in some class, is
    listed with a reason, is hooked in another version or stands in no header; one for all others together."""
    found, others = [], {}
    for (entry, lacks), row in merge_asked(door).items():
        reason = reasons.get(base_of(entry))
        is_known = None if known is None else base_of(entry) in known
        if lacks == "version" or reason or class_of(entry) or is_known is False:
            found.append(answer("asked for and not in hooks.def", program=program, entry=entry, lacks=lacks,
                                calls_of=class_of(entry), reason=reason, in_header=is_known, **row))
        else:
            others[entry] = row
    if others:
        callers = sorted({caller for row in others.values() for caller in row["callers"]})
        absent = [entry for entry, row in others.items() if not row["had"]]
        found.append(answer("asked for and not in hooks.def, nothing to hook", program=program, count=len(others),
                            callers=callers, names=list(others), not_had=absent))
    for entry, calls in sorted(door.guarded.items()):
        found.append(answer("called in a version that hooks.def lacks", program=program, entry=entry, calls=calls))
    return found


def layout_answers(program, door):
    """What the driver said of the kernels' parameters: one answer for each way in which it was said."""
    groups = {}
    for record in door.named("kernel"):
        key = tuple(record[field] for field in ("owner", "handle", "answered_by", "function_result", "function_end",
                                                "kernel_result", "kernel_end", "loaded_before", "loaded_after"))
        groups.setdefault(key, []).append(record)
    mode = next((record["mode"] for record in door.named("loading")), None)
    found = []
    for key, records in sorted(groups.items(), key=lambda item: str(item[0])):
        owner, handle, by, function, function_end, kernel, kernel_end, before, after = key
        found.append(
            answer("parameter layouts", section="layouts", program=program, owner=owner, handle=handle, answered_by=by,
                   kernels=len(records), launches=sum(record["launches"] for record in records),
                   by_buffer=sum(record["by_buffer"] for record in records),
                   most_bytes=max(record["bytes"] for record in records), function_result=function,
                   function_end=function_end, kernel_result=kernel, kernel_end=kernel_end, loaded_before=before,
                   loaded_after=after, loading=mode, example=records[0]["kernel"])
        )
    return found


def compare(program, door, reference, truth):
    """Where the sides agree and where not; `reference` may be None."""
    skipped = []
    if reference is not None and reference.skipped():
        skipped = [{"schema": SCHEMA, "section": "doors", "kind": "skipped", "name": f"cupti: {program}", "why": why}
                   for why in reference.skipped()]
        reference = None
    found = skipped + class_answers(program, door, reference, truth)
    if reference is not None and door.is_final() and reference.is_final():
        found += entry_answers(program, door, reference)
    return found


def door_answers(program, door, reasons, known):
    """What only the door knows."""
    return asked_answers(program, door, reasons, known) + layout_answers(program, door)


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", required=True, help="what was counted, as the answers call it")
    parser.add_argument("--steps", type=int, help="say calls per step and nothing else; this is the shorter run's number")
    parser.add_argument("--door", nargs="+", required=True, help="files of libtidepool-count.so")
    parser.add_argument("--reference", nargs="*", default=[], help="files of CUPTI or of the recording driver")
    parser.add_argument("--door-longer", nargs="*", default=[], help="the same of a run of twice as many steps")
    parser.add_argument("--reference-longer", nargs="*", default=[])
    parser.add_argument("--truth", help="what the program printed; a record named truth in it has its own counts")
    parser.add_argument("--calls-only", action="store_true", help="say nothing of names and parameter layouts")
    parser.add_argument("--reasons", help="list of names that are not hooked, with reasons (tests/shim/not_hooked.txt)")
    parser.add_argument("--known", help="a text that names all driver functions of cuda.h")
    return parser.parse_args(arguments)


def side(paths):
    """What some files say; None where there is nothing."""
    records = read_records(paths)
    return Side(records) if records else None


def main(arguments):
    options = parse(arguments)
    short = {"door": side(options.door), "reference": side(options.reference)}
    long = {"door": side(options.door_longer), "reference": side(options.reference_longer)}
    if short["door"] is None:
        why = "nothing was counted at the door: the program made no CUDA call, or there is no driver"
        print(json.dumps({"schema": SCHEMA, "section": "doors", "kind": "skipped", "name": options.program, "why": why}))
        return
    said = read_records([options.truth]) if options.truth else []
    truth = next((record for record in said if record.get("name") == "truth"), {})
    if options.steps is not None:
        found = step_answers(options.program, options.steps, short, long)
    else:
        found = compare(options.program, short["door"], short["reference"], truth)
        if not options.calls_only:
            found += door_answers(options.program, short["door"], read_reasons(options.reasons), read_known(options.known))
    for record in found:
        print(json.dumps(record))


if __name__ == "__main__":
    main(sys.argv[1:])
