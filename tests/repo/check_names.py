"""Nothing under shim/, allocator/ or planner/ names the simulated device, a workload or a job."""

import re
from pathlib import Path

import project

PRODUCT_FOLDERS = ("shim", "allocator", "planner")
PROGRAM = re.compile(r"\b(?:add_executable|tp_add_workload)\s*\(\s*(\w+)")


def forbidden_names(root):
    """simgpu, and every program that tools/workloads builds."""
    names = {"simgpu"}
    listing = Path(root) / "tools/workloads/CMakeLists.txt"
    if listing.is_file():
        names |= set(PROGRAM.findall(listing.read_text()))
    return sorted(names)


def violations(root):
    pattern = re.compile("|".join(map(re.escape, forbidden_names(root))), re.IGNORECASE)
    found = []
    for folder in PRODUCT_FOLDERS:
        for path in project.files(root, under=folder):
            if pattern.search(path.name):
                found.append(f"{path}: the file's name")
            for number, line in enumerate((project.read_text(root, path) or "").splitlines(), 1):
                match = pattern.search(line)
                if match:
                    found.append(f"{path}:{number}: names {match.group(0)}")
    return found


if __name__ == "__main__":
    project.run_check(violations, __doc__)
