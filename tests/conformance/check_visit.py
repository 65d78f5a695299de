"""What a rehearsal of tests/device/conformance.sh on the simulated device must bring back: check_visit.py CASES_JSONL"""

import json
import sys
from pathlib import Path

from run_suite import FOLDER, MAY_BE_MISSING, read_pending


def problems(records, pending):
    """Texts, one for each thing that is wrong."""
    if not records or not records[0].get("simulated"):
        yield "it does not say that the device is simulated"
    cases = [record for record in records if "case" in record]
    if not cases:
        yield "no case has run"
    for record in cases:
        kept = record["verdict"] == "pass" or record["detail"] == MAY_BE_MISSING
        if not kept and record["case"] not in pending:
            yield f"{record['case']}: {record['verdict']}: {record['detail']}"


def main():
    lines = Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()
    found = list(problems([json.loads(line) for line in lines], read_pending(FOLDER / "pending.txt")))
    for problem in found:
        print(f"check_visit: {problem}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
