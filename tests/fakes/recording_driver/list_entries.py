"""Lists every function of a cuda.h, and some that no cuda.h has, as TP_RECORDED(name) lines."""

import argparse
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "shim"))
import check_doors  # the one reader of cuda.h

# A way to launch that came with a driver newer than the table of hooks.
NOVEL = ["cuLaunchNovel"]


def entries(header, tables):
    names = set(check_doors.functions(header)) | set(NOVEL)
    for table in tables:
        names |= check_doors.hooked(table)
        names |= set(re.findall(r"^TP_DRIVER\((\w+)\)", table, re.MULTILINE))
    return sorted(names)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--header", type=Path, required=True, help="cuda.h")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("tables", type=Path, nargs="*", help="hooks.def, driver.def")
    arguments = parser.parse_args()
    found = entries(
        arguments.header.read_text(encoding="utf-8", errors="replace"),
        [table.read_text(encoding="utf-8") for table in arguments.tables],
    )
    arguments.out.write_text("".join(f"TP_RECORDED({name})\n" for name in found), encoding="utf-8")
