"""Runs a tutorial as a reader would: run_tutorial.py PAGE.md BIN_FOLDER

Each `$ ` line in a ```console block is a command, run by bash in one new folder, with BIN_FOLDER in PATH (lines that set PATH
are passed by). The lines below it must be in what it prints, in that order; numbers that differ from run to run (times, sizes
and counts that are not part of a word) may be others. `[exit N]` as last line: its exit status, 0 if there is none.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

LIMIT_S = 120
# Losses and digests are no such numbers: they must be equal.
NUMBER = re.compile(r"(?<![\w.])\d[\d.:-]*(?=(ms|us|ns|s|MiB|GiB|KiB)?(?![\w]))")


def commands(page):
    """(command, lines it must print, exit status) of each."""
    found = []
    for block in re.findall(r"^```console\n(.*?)^```$", page, re.DOTALL | re.MULTILINE):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], [], [0]))
            elif match := re.fullmatch(r"\[exit (\d+)\]", line):
                found[-1][2][0] = int(match[1])
            else:
                found[-1][1].append(line)
    return [(command, lines, status[0]) for command, lines, status in found if not command.startswith("export PATH=")]


def plain(line):
    return re.sub(r"#(ns|us|ms|s)\b", "#s", NUMBER.sub("#", line.strip()))


def problem(command, wanted, status, folder, environment):
    """What is wrong with one command, None if nothing."""
    done = subprocess.run(["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True,
                          check=False, timeout=LIMIT_S)
    printed = (done.stdout + done.stderr).splitlines()
    if done.returncode != status:
        return f"exit status {done.returncode}, not {status}:\n" + "\n".join(printed)
    # The two streams were read apart: each has its own order.
    left = {"stdout": done.stdout.splitlines(), "stderr": done.stderr.splitlines()}
    for line in wanted:
        for lines in left.values():
            at = next((i for i, text in enumerate(lines) if plain(text).startswith(plain(line))), None)
            if at is not None:
                del lines[: at + 1]
                break
        else:
            return f"does not print (in this order): {line}\nbut:\n" + "\n".join(printed)
    return None


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__.splitlines()[0])
    page = Path(sys.argv[1]).read_text(encoding="utf-8")
    environment = {**os.environ, "PATH": f"{Path(sys.argv[2]).resolve()}:{os.environ['PATH']}"}
    found = commands(page)
    if not found:
        sys.exit(f"{sys.argv[1]}: no command in it")
    with tempfile.TemporaryDirectory(prefix="tutorial-") as folder:
        for command, wanted, status in found:
            wrong = problem(command, wanted, status, folder, environment)
            if wrong:
                sys.exit(f"{sys.argv[1]}: $ {command}\n{wrong}")
    print(f"{sys.argv[1]}: {len(found)} commands do what it says")


if __name__ == "__main__":
    main()
