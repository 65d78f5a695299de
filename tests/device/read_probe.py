"""Reads what tests/device/probe.sh left and prints it as a table.

    python3 tests/device/read_probe.py FOLDER|MERGED.json [--merge FILE]

A folder holds one file of JSON lines for each section (docs/reference/hardware/README.md has the format). A section
that was cut off has no "end" line; its last line may be torn: both are said, and what was measured is shown.
--merge writes everything into one JSON file, which is what gets committed.
"""

import argparse
import json
import os
import re
import sys
from pathlib import Path

SECTIONS = ("machine", "doors", "vmm", "aliasing", "sharing", "rates", "launch", "faults", "conformance", "trial")
ANSWER_FIELDS = {"schema", "section", "kind", "name", "params", "value", "detail"}  # others are shown by name
LONGEST = 160
SCALES = {"ns": ((1e9, "s"), (1e6, "ms"), (1e3, "us"), (1, "ns")),
          "B/s": ((1e12, "TB/s"), (1e9, "GB/s"), (1e6, "MB/s"), (1, "B/s")),
          "bytes": ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B"))}


# Where this repository lay on the machine that built or ran, in front of one of its folders.
OF_A_MACHINE = re.compile(r"(?<![\w.])/(?:[\w.+@-]+/)+(?=(?:allocator|planner|shim|tests|tools)/)")


def without_machine_paths(value):
    """The same with "tests/x.cpp:3" for "/some/where/tidepool/tests/x.cpp:3"."""
    if isinstance(value, str):
        return OF_A_MACHINE.sub("", value)
    if isinstance(value, list):
        return [without_machine_paths(entry) for entry in value]
    if isinstance(value, dict):
        return {key: without_machine_paths(entry) for key, entry in value.items()}
    return value


def read_section(path):
    """Returns (records, torn): the lines that are JSON objects, and how many are not."""
    records, torn = [], 0
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except ValueError:
            record = None
        if isinstance(record, dict) and "kind" in record:
            records.append(record)
        else:
            torn += 1
    return records, torn


def read_folder(folder):
    """Sections in the order of SECTIONS, others behind them: {name: (records, torn)}."""
    if Path(folder).is_file():  # what --merge wrote
        merged = json.loads(Path(folder).read_text(encoding="utf-8"))
        return {name: (records, 0) for name, records in merged.get("sections", {}).items()}
    found = {path.stem: read_section(path) for path in sorted(Path(folder).glob("*.jsonl"))}
    known = {name: found.pop(name) for name in SECTIONS if name in found}
    return known | found


def merged_text(merged):
    """JSON of what was merged with a record a line, so that files can be read and compared."""
    head = "".join(f' {json.dumps(name)}: {json.dumps(value)},\n' for name, value in merged.items() if name != "sections")
    sections = []
    for name, records in merged["sections"].items():
        lines = ",\n".join("   " + json.dumps(record) for record in records)
        sections.append(f"  {json.dumps(name)}: [\n{lines}\n  ]" if records else f"  {json.dumps(name)}: []")
    return "{\n" + head + ' "sections": {\n' + ",\n".join(sections) + "\n }\n}\n"


def show_number(value, unit):
    """123456 ns as "123 us"; a unit without a scale as it is."""
    for factor, name in SCALES.get(unit, ()):
        if abs(value) >= factor:
            return f"{value / factor:.4g} {name}"
    return f"{value:.4g} {unit}".rstrip()


def show_value(value):
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def show_params(params):
    words = []
    for key, value in (params or {}).items():
        is_size = key.endswith("bytes") and isinstance(value, (int, float))
        name = key.removesuffix("_bytes")
        words.append(f"{name}={show_number(value, 'bytes').replace(' ', '')}" if is_size else f"{name}={value}")
    return " ".join(words)


def rows_of(record):
    """The cells of one record: what, where, value, spread."""
    kind = record["kind"]
    name = str(record.get("name", ""))
    if kind == "result":
        unit = record.get("unit", "")
        spread = f"{show_number(record['min'], unit)} .. {show_number(record['max'], unit)}, n={record['n']}"
        return (name, show_params(record.get("params")), show_number(record["p50"], unit), spread)
    if kind == "answer":
        details = [str(record["detail"])] if record.get("detail") else []
        details += [f"{key}={show_value(value)}" for key, value in record.items() if key not in ANSWER_FIELDS]
        return (name, show_params(record.get("params")), show_value(record.get("value", "")), "; ".join(details))
    if kind == "skipped":
        return (name or "(all)", "", "skipped", str(record.get("why", "")))
    return None


def state_of(records, torn):
    """One word or two on how a section went."""
    if not records:
        return "nothing came of it"
    starts = sum(record["kind"] == "start" for record in records)
    ends = [record for record in records if record["kind"] == "end"]
    if not starts and not ends and all(record["kind"] == "skipped" for record in records):
        return "not run"
    try:
        text = f"{sum(float(end.get('seconds', 0)) for end in ends):.3g} s"
    except (TypeError, ValueError):
        text = "?"
    if len(ends) < max(starts, 1):
        text = "cut off"
    return text + (f", {torn} torn line{'s' if torn > 1 else ''}" if torn else "")


def table(sections, out):
    for name, (records, torn) in sections.items():
        start = next((record for record in records if record["kind"] == "start"), {})
        about = " · ".join(str(start[key]) for key in ("device", "driver_version", "why") if start.get(key) is not None)
        if start.get("simulated"):
            about = f"SIMULATED, says nothing of hardware · {about}"
        elif start and start.get("device") is None:
            about = f"no driver{' · ' + about if about else ''}"
        elif start and "simulated" not in start:
            about = f"unknown driver · {about}"
        print(f"\n{name}  [{state_of(records, torn)}]{'  ' + about if about else ''}", file=out)
        rows = []
        for record in records:
            try:
                row = rows_of(record)
            except (AttributeError, KeyError, TypeError, ValueError):
                row = ("a record that is none", "", json.dumps(record)[:60], "")
            if row:
                rows.append(row)
        widths = [max((len(row[i]) for row in rows), default=0) for i in range(3)]
        for row in rows:
            cells = [cell.ljust(width) for cell, width in zip(row, widths)] + [row[3]]
            print(("  " + "  ".join(cells)).rstrip(), file=out)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", help="what probe.sh wrote, or a merged file")
    parser.add_argument("--merge", metavar="FILE", help="write everything into one JSON file as well")
    parser.add_argument("--quiet", action="store_true", help="print no table")
    arguments = parser.parse_args()
    sections = read_folder(arguments.folder)
    if not sections:
        print(f"read_probe: no *.jsonl in {arguments.folder}", file=sys.stderr)
        return 2
    if not arguments.quiet:
        table(sections, sys.stdout)
    if arguments.merge:
        starts = [record for records, _ in sections.values() for record in records if record["kind"] == "start"]
        known = [start["simulated"] for start in starts if start.get("simulated") is not None]
        merged = {"schema": "tidepool.probe.merged/1",
                  "simulated": any(known) if known else None,
                  "sections": {name: without_machine_paths(records) for name, (records, _) in sections.items()}}
        try:
            Path(arguments.merge).write_text(merged_text(merged), encoding="utf-8")
        except OSError as error:
            print(f"read_probe: {error}", file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    try:
        code = main()
        sys.stdout.flush()
    except BrokenPipeError:  # the reader, head for one, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    sys.exit(code)
