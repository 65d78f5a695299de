"""Shell scripts pass shellcheck; documents pass codespell."""

import shutil
import subprocess
from pathlib import Path

import project

IGNORED_WORDS = Path(__file__).with_name("codespell_ignore.txt")


def run(command, root, what):
    if shutil.which(command[0]) is None:
        return [f"{command[0]} is not installed"]
    result = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    output = (result.stdout + result.stderr).strip().splitlines()
    return output or [f"{what} failed"] if result.returncode != 0 else []


def violations(root):
    found = []
    scripts = [str(path) for path in project.files(root) if project.is_script(root, path)]
    if scripts:
        found += run(["shellcheck", "--format=gcc", "--external-sources", *scripts], root, "shellcheck")
    documents = [str(path) for path in project.files(root, {".md", ".def"})]
    if documents:
        found += run(["codespell", "--ignore-words", str(IGNORED_WORDS), *documents], root, "codespell")
    return found


if __name__ == "__main__":
    project.run_check(violations, __doc__)
