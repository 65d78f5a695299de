"""What the repository checks share: the files of the project and how findings are printed."""

import argparse
import os
import sys
from pathlib import Path

SKIPPED_FOLDERS = {".git", ".cache", "build", "corpus", "__pycache__"}
CXX = {".h", ".cpp", ".cu", ".cuh"}


def files(root, suffixes=None, under=None):
    """Yields the project's files, as paths relative to `root`, in a fixed order."""
    start = Path(root) / under if under else Path(root)
    found = []
    for folder, folders, names in os.walk(start):
        folders[:] = [name for name in folders if name not in SKIPPED_FOLDERS]
        for name in names:
            path = (Path(folder) / name).relative_to(root)
            if suffixes is None or path.suffix in suffixes:
                found.append(path)
    return sorted(found)


def read_text(root, path):
    """The text of a file, or None where it is not text."""
    try:
        return (Path(root) / path).read_bytes().decode("utf-8")
    except UnicodeDecodeError:
        return None


def is_script(root, path):
    """True for shell scripts, by suffix or by their first line."""
    if path.suffix in {".sh", ".bats"}:
        return True
    if path.suffix:
        return False
    with open(Path(root) / path, "rb") as file:
        first = file.readline(80)
    return first.startswith(b"#!") and (b"sh\n" in first)


def run_check(violations, description, with_build=False, flags=()):
    """The main() of a check: prints what `violations(root[, build])` finds; the exit status is the verdict.

    `flags` become options without value, and keyword arguments.
    """
    parser = argparse.ArgumentParser(description=description)
    default_root = Path(__file__).resolve().parents[2]
    parser.add_argument("--root", type=Path, default=default_root, help="top folder of the project")
    if with_build:
        parser.add_argument("--build", type=Path, required=True, help="a configured build folder")
    for flag in flags:
        parser.add_argument(f"--{flag}", action="store_true")
    arguments = parser.parse_args()
    folders = (arguments.root, arguments.build) if with_build else (arguments.root,)
    found = violations(*folders, **{flag: getattr(arguments, flag) for flag in flags})
    for line in found:
        print(line)
    if found:
        print(f"{len(found)} found. {description}")
    sys.exit(1 if found else 0)
