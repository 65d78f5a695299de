"""Host code passes clang-tidy 14 with the project's .clang-tidy.

All checks take 5 to 15 seconds a file. --quick runs a few that are cheap, and only on what is part of a user's
program or command: allocator, shim, tools/tidepool. simgpu, workloads and tests wait for the nightly run.

A file that passed is not looked at again while nothing that its verdict depends on has changed: its own text,
the project headers it reaches, its compile command, .clang-tidy and the tool. The memory is a folder of empty
files under $XDG_CACHE_HOME/tidepool/tidy; without it everything is checked.
"""

import concurrent.futures
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

import project

INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
FOLDERS = ("allocator", "shim", "planner", "ssd_backend", "tools", "tests")
QUICK_FOLDERS = ("allocator", "shim", "planner", "ssd_backend", "tools/tidepool")
QUICK_CHECKS = (
    "-*,readability-identifier-naming,bugprone-use-after-move,misc-unused-using-decls,modernize-use-override,"
    "performance-for-range-copy,bugprone-suspicious-semicolon"
)


def cache_folder():
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "tidepool" / "tidy"


def reached_text(root, path, seen):
    """Collects the file and the project files it includes, directly or not."""
    if path in seen or not (Path(root) / path).is_file():
        return
    text = (Path(root) / path).read_text(errors="replace")
    seen[path] = text
    for name in INCLUDE.findall(text):
        for base in ("", "tools/simgpu/include/"):
            reached_text(root, base + name, seen)


def key_of(root, entry, tool):
    """Names everything that the verdict on one compile command depends on; `tool`: its version and options."""
    path = os.path.relpath(entry["file"], root)
    seen = {}
    reached_text(root, path, seen)
    digest = hashlib.sha256(tool.encode())
    digest.update((Path(root) / ".clang-tidy").read_bytes())
    # Only what changes the meaning: not where the build folder lies.
    command = entry.get("command") or shlex.join(entry["arguments"])
    words = [word for word in shlex.split(command) if word.startswith(("-D", "-std", "-f", "-W"))]
    digest.update("\0".join(sorted(words)).encode())
    for name in sorted(seen):
        digest.update(f"\0{name}\0{seen[name]}".encode())
    return digest.hexdigest()


def own_entries(root, build, folders=FOLDERS):
    """Compile commands of the project's own .cpp files, one for each file."""
    entries = {}
    for entry in json.loads((Path(build) / "compile_commands.json").read_text()):
        path = Path(os.path.relpath(entry["file"], root))
        if path.suffix == ".cpp" and any(path.is_relative_to(folder) for folder in folders):
            entries.setdefault(path, entry)
    return entries


def without_precompiled(entry):
    """The same compile command for clang, which cannot read what gcc precompiled; the files include all they need."""
    words = entry.get("arguments") or shlex.split(entry["command"])
    kept = []
    for word in words:
        if word.endswith("cmake_pch.hxx") and kept and kept[-1] == "-include":
            kept.pop()
        elif word != "-Winvalid-pch":
            kept.append(word)
    return {"directory": entry["directory"], "file": entry["file"], "arguments": kept}


def check_one(command, root, path):
    # -Wconversion of clang means more than that of gcc, for which the sources are written.
    options = ("-Wno-unknown-warning-option", "-Wno-sign-conversion")
    command = [*command, *(f"--extra-arg={option}" for option in options), str(path)]
    result = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if result.returncode == 0:
        return []
    lines = [line for line in result.stdout.splitlines() if line.strip()]
    return lines or [f"{path}: {result.stderr.strip()}"]


def violations(root, build, quick=False):
    with tempfile.TemporaryDirectory() as commands:
        entries = json.loads((Path(build) / "compile_commands.json").read_text())
        text = json.dumps([without_precompiled(entry) for entry in entries])
        (Path(commands) / "compile_commands.json").write_text(text)
        return violations_by(root, commands, quick)


def violations_by(root, commands, quick):
    tool = shutil.which("clang-tidy-14") or shutil.which("clang-tidy")
    if tool is None:
        return ["clang-tidy-14 is not installed"]
    version = subprocess.run([tool, "--version"], capture_output=True, text=True, check=True).stdout
    command = [tool, "--quiet", "-p", commands]
    if quick:
        command.append(f"--checks={QUICK_CHECKS}")
    cache = cache_folder()
    cache.mkdir(parents=True, exist_ok=True)
    entries = own_entries(root, commands, QUICK_FOLDERS if quick else FOLDERS)
    todo = {}
    for path, entry in entries.items():
        key = key_of(root, entry, version + " ".join(command[4:]))
        if not (cache / key).exists():
            todo[path] = key
    found = []
    with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count() or 2) as pool:
        checks = {pool.submit(check_one, command, root, path): path for path in sorted(todo)}
        for check in concurrent.futures.as_completed(checks):
            lines = check.result()
            found += lines
            if not lines:
                (cache / todo[checks[check]]).touch()
    print(f"{len(todo)} of {len(entries)} files checked, the rest is known to pass")
    return found


if __name__ == "__main__":
    project.run_check(violations, __doc__.splitlines()[0], with_build=True, flags=("quick",))
