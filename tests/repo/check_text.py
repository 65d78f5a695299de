"""Sources stay short; text is clean and names no machine of ours."""

import re

import project

MAX_LINES = 400
COUNTED = project.CXX | {".py", ".sh", ".cmake", ".bats"}
TEXT = COUNTED | {".txt", ".md", ".def", ".json", ".toml", ".yml", ".yaml", ".in", ".map", ""}
# A file that must keep another form, and why.
EXEMPT = {"LICENSE": "is given as it is"}

MACHINE_PATH = re.compile(r"(?<![\w./$}-])/(?:work|root|home/(?!user\b)\w+|tmp/build)(?![\w-])")
REGISTRY = re.compile(
    r"\b(?:pypi\.org|pythonhosted\.org|registry\.npmjs\.org|crates\.io|proxy\.golang\.org|deb\.debian\.org|"
    r"archive\.ubuntu\.com|conda\.anaconda\.org|docker\.io)\b"
)


def check_file(path, text):
    found = []
    lines = text.split("\n")
    if (path.suffix in COUNTED or path.name == "CMakeLists.txt") and len(lines) - 1 > MAX_LINES:
        found.append(f"{path}: {len(lines) - 1} lines; the limit is {MAX_LINES}")
    if text and not text.endswith("\n"):
        found.append(f"{path}: no newline at the end")
    if text.endswith("\n\n"):
        found.append(f"{path}: empty lines at the end")
    for number, line in enumerate(lines, 1):
        where = f"{path}:{number}"
        if line != line.rstrip():
            found.append(f"{where}: whitespace at the end")
        if "\t" in line and path.suffix in project.CXX:
            found.append(f"{where}: a tab")
        for pattern, what in ((MACHINE_PATH, "path of one machine"), (REGISTRY, "package registry")):
            match = pattern.search(line)
            if match:
                found.append(f"{where}: {what}: {match.group(0)}")
    return found


def violations(root):
    found = []
    for path in project.files(root, TEXT):
        text = project.read_text(root, path)
        if text is not None and path.name not in EXEMPT:
            found += check_file(path, text)
    return found


if __name__ == "__main__":
    project.run_check(violations, __doc__)
