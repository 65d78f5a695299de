"""docs/contributing/peer-bugs.md has a row for each report, and the tests that it names exist."""

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
    for number, _, _, here in ROW.findall(text):
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
