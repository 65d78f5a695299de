"""docs/contributing/peer-bugs.md has a row for each report; the tests that it names exist, and name the report."""

import re

import project

PAGE = "docs/contributing/peer-bugs.md"
ROWS = 71
ROW = re.compile(r"^\| (\d+) \| (.*?) \| (.*?) \| (.*) \|$", re.MULTILINE)
CASE = re.compile(r'TEST_CASE\(\s*"((?:[^"\\]|\\.)*)"')
COMMAND = re.compile(r"\btp_add_\w*(?:test|check)\(\s*([\w.$]+(?:\{\w+\})?[\w.${}]*)")
# Words between backticks that are meant as a test: "area: what it promises", or a name with a label in front.
NAMED_CASE = re.compile(r"^[a-z][a-z ]*: ")
NAMED_COMMAND = re.compile(r"^(?:abi|data|docs|lint|perf|process|repo|sim|unit)\.\w+$")
# "HAMi-core PR#215", and "#279" for another of the same project; "TMS 07ded68" is a commit.
REPORT = re.compile(r"(?:\b([A-Za-z][\w-]*) ?)?(PR#\d+|#\d+|\b[0-9a-f]{7}\b)")


def reports(text, projects=None):
    """What a text names of upstream reports, as "project number"; a number alone is of the project before it on its line or, in
    comments, on the line before. `projects`: words that are one."""
    found, project = set(), None
    for line in text.splitlines():
        if projects and not line.lstrip().startswith(("//", "#")):
            project = None
        for name, number in REPORT.findall(line):
            if name and (not projects or name in projects):
                project = name
            if project:
                found.add(f"{project} {number}")
    return found


def named_by_tests(root, projects):
    found = set()
    for path in project.files(root, {".cpp", ".cu", ".h", ".py", ".txt", ".mutant"}, under="tests"):
        found |= reports(project.read_text(root, path) or "", projects)
    return found


def tests(root):
    """Names of test cases, and patterns for the names of command tests."""
    cases, commands = set(), []
    for path in project.files(root, {".cpp", ".cu", ".txt"}, under="tests"):
        text = project.read_text(root, path) or ""
        cases |= {name.replace('\\"', '"') for name in CASE.findall(text)}
        for name in COMMAND.findall(text):
            # Functions of a folder put a label in front ("abi.${name}"), and variables stand for a word.
            pattern = re.sub(r"\\\$\\\{\w+\\\}", r"\\w+", re.escape(name))
            commands.append(re.compile(rf"(?:\w+\.)?(?:real_)?{pattern}$"))
    return cases, commands


def violations(root):
    text = project.read_text(root, PAGE) if (root / PAGE).is_file() else ""
    cases, commands = tests(root)
    found = []
    numbers = [int(row[0]) for row in ROW.findall(text)]
    if numbers != list(range(1, ROWS + 1)):
        found.append(f"{PAGE}: the rows are not 1 to {ROWS}")
    mutants = {path.stem for path in project.files(root, {".mutant"}, under="tests/mutants")}
    rows = [(number, reports(told), here) for number, told, _, here in ROW.findall(text)]
    projects = {report.split()[0] for _, told, _ in rows for report in told}
    named = named_by_tests(root, projects)
    for number, told, here in rows:
        has_test = any(NAMED_CASE.match(word) or NAMED_COMMAND.match(word) for word in re.findall(r"`([^`]+)`", here))
        if has_test and told and not here.startswith("not here: ") and not told & named:
            found.append(f"{PAGE}: row {number}: no test names {', '.join(sorted(told))}")
        for word in re.findall(r"`([^`]+)`", here):
            if NAMED_CASE.match(word) and word not in cases:
                found.append(f"{PAGE}: row {number} names a test that is not there: {word}")
            if NAMED_COMMAND.match(word) and not any(name.match(word) for name in commands):
                found.append(f"{PAGE}: row {number} names a test that is not there: {word}")
        for word in re.findall(r"mutants `(\w+)` and `(\w+)`", here):
            found += [f"{PAGE}: row {number} names a mutant that is not there: {name}" for name in word if name not in mutants]
        if not re.search(r"`|the same test|not here: |refused|open: |there is", here):
            found.append(f"{PAGE}: row {number} says neither which test nor why there is none")
    return found


if __name__ == "__main__":
    project.run_check(violations, __doc__)
