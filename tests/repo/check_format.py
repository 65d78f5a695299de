"""C++ and CUDA sources are as clang-format 14 writes them (run: clang-format-14 -i FILE)."""

import re
import shutil
import subprocess

import project

FINDING = re.compile(r"^(.*?):(\d+):\d+: (?:error|warning): code should be clang-formatted")


def violations(root):
    tool = shutil.which("clang-format-14") or shutil.which("clang-format")
    if tool is None:
        return ["clang-format-14 is not installed"]
    sources = [str(path) for path in project.files(root, project.CXX)]
    if not sources:
        return []
    result = subprocess.run(
        [tool, "--dry-run", "-Werror", *sources], cwd=root, capture_output=True, text=True, check=False
    )
    first = {}
    for match in filter(None, map(FINDING.match, result.stderr.splitlines())):
        first.setdefault(match.group(1), match.group(2))
    found = [f"{path}:{line}: not formatted" for path, line in first.items()]
    if result.returncode != 0 and not found:
        found.append(result.stderr.strip())
    return found


if __name__ == "__main__":
    project.run_check(violations, __doc__)
