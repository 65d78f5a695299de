"""What a rehearsal of the hardware probe on the simulated device must bring back: check_rehearsal.py PROBE_JSON"""

import json
import sys
from pathlib import Path

SECTIONS = ("machine", "vmm", "aliasing", "sharing", "faults", "launch", "rates", "doors", "conformance")
# What the simulated device and a machine without PyTorch cannot answer; anything else that is skipped is a fault.
EXPECTED_SKIPS = ("the CUDA runtime does not start",
                  "PyTorch does not import", "PyTorch sees no GPU", "take too long for --quick", "cuptiSubscribe",
                  "CUPTI", "was not built",
                  "no query came before the work had ended")


def problems(probe):
    """Texts, one for each thing that is wrong."""
    if not probe.get("simulated"):
        yield "it does not say that the device is simulated"
    for section in SECTIONS:
        records = probe["sections"].get(section, [])
        if not any(record["kind"] in ("result", "answer", "skipped") for record in records):
            yield f"{section}: nothing came of it"
        kinds = [record["kind"] for record in records]
        if kinds.count("end") < max(kinds.count("start"), 1):
            yield f"{section}: cut off"
        for record in records:
            if record.get("name") == "exit status":
                yield f"{section}: exit status {record['value']}"
            name = str(record.get("name", ""))
            if name.startswith("wrong_words") and record["value"] != 0:
                yield f"{section}: {name} is {record['value']}"
            if name == "cases passed" and len(set(record["value"].split(" of "))) != 1:
                yield f"{section}: {record['value']} cases passed"
            why = record.get("why", "")
            if record["kind"] == "skipped" and not any(expected in why for expected in EXPECTED_SKIPS):
                yield f"{section}: skipped {record.get('name', 'all')}: {why}"


def main():
    found = list(problems(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))))
    for problem in found:
        print(f"check_rehearsal: {problem}", file=sys.stderr)
    if not found:
        print("check_rehearsal: everything that a rehearsal can bring back is there")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
