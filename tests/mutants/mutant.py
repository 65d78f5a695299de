"""The text form of a mutant (README.md) and how it is applied."""

from dataclasses import dataclass, field
from pathlib import Path


class MutantError(Exception):
    """The mutant itself is wrong: its text, or the place it names."""


@dataclass
class Edit:
    path: str
    search: str
    replace: str


@dataclass
class Mutant:
    name: str
    why: str = ""
    tests: str = ""
    build: list = field(default_factory=list)
    edits: list = field(default_factory=list)


def parse(name, text):
    mutant = Mutant(name)
    why, path, block, where = [], None, None, None
    for number, line in enumerate(text.splitlines(), 1):
        if where == "search":
            if line == "====":
                where = "replace"
            else:
                block[0].append(line)
        elif where == "replace":
            if line == ">>>>":
                search, replace = ("".join(part + "\n" for part in side) for side in block)
                mutant.edits.append(Edit(path, search, replace))
                where = None
            else:
                block[1].append(line)
        elif line.startswith("#"):
            why.append(line[1:].strip())
        elif line.startswith("tests:"):
            mutant.tests = line.removeprefix("tests:").strip()
        elif line.startswith("build:"):
            mutant.build = line.removeprefix("build:").split()
        elif line.startswith("file:"):
            path = line.removeprefix("file:").strip()
        elif line == "<<<<":
            if path is None:
                raise MutantError(f"{name}:{number}: <<<< without file: before it")
            block, where = ([], []), "search"
        elif line.strip():
            raise MutantError(f"{name}:{number}: '{line}' is none of #, tests:, build:, file:, <<<<")
    if where is not None:
        raise MutantError(f"{name}: the last block has no >>>>")
    mutant.why = " ".join(why)
    for missing, wrong in (("tests:", not mutant.tests), ("a block", not mutant.edits), ("a # line", not why)):
        if wrong:
            raise MutantError(f"{name}: {missing} is missing")
    if any(not edit.search.strip() for edit in mutant.edits):
        raise MutantError(f"{name}: an empty text to search for")
    return mutant


def load(path):
    return parse(Path(path).stem, Path(path).read_text())


def count_whole_lines(text, search):
    """How often `search`, which is whole lines, stands in `text` at the start of a line."""
    return ("\n" + text).count("\n" + search)


def mutated_files(root, mutant):
    """path -> new text, for all files that the mutant changes."""
    texts = {}
    for edit in mutant.edits:
        file = Path(root) / edit.path
        if edit.path not in texts:
            if not file.is_file():
                raise MutantError(f"{mutant.name}: {edit.path} does not exist")
            texts[edit.path] = file.read_text()
        text = texts[edit.path]
        found = count_whole_lines(text, edit.search)
        if found != 1:
            raise MutantError(f"{mutant.name}: its text stands {found} times in {edit.path}, want once:\n{edit.search}")
        texts[edit.path] = ("\n" + text).replace("\n" + edit.search, "\n" + edit.replace)[1:]
    return texts
