#!/usr/bin/env python3
"""Applies mutants to a copy of the sources and demands that the tests notice each one (README.md)."""

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import conformance_mutants
import mutant as mutants

FOLDER = Path(__file__).resolve().parent
SKIPPED_FOLDERS = {".git", ".cache", "build", "__pycache__"}
FAILED_TEST = re.compile(r"^\s*\d+ - (.*) \(([^()]*)\)\s*$")


def sync_tree(source, copy):
    """Makes `copy` equal to `source`, touching only what differs so that builds stay incremental."""
    wanted = set()
    for folder, folders, names in os.walk(source):
        folders[:] = [name for name in folders if name not in SKIPPED_FOLDERS]
        for name in names:
            path = (Path(folder) / name).relative_to(source)
            wanted.add(path)
            target = copy / path
            content = (source / path).read_bytes()
            if not target.is_file() or target.read_bytes() != content:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)
                shutil.copymode(source / path, target)
    for folder, _, names in os.walk(copy):
        for name in names:
            path = (Path(folder) / name).relative_to(copy)
            if path not in wanted:
                (copy / path).unlink()


class Workshop:
    """The scratch copy: sources, a build folder, and how to build and test in it."""

    def __init__(self, source, scratch, configure, jobs):
        self.tree, self.build, self.jobs = scratch / "source", scratch / "build", str(jobs)
        self.source, self.configure = source, configure

    def prepare(self):
        sync_tree(self.source, self.tree)
        command = ["cmake", "-S", self.tree, "-B", self.build, "-G", "Ninja", *self.configure]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    def make(self, targets):
        """Empty, or the end of the compiler's output."""
        command = ["cmake", "--build", self.build, "--parallel", self.jobs]
        if targets:
            command += ["--target", *targets]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        return "" if result.returncode == 0 else "\n".join((result.stdout + result.stderr).splitlines()[-15:])

    def failing_tests(self, regex):
        """Names of the tests that fail, and which of them took too long; all of them pass: empty. No test at all is an
        error."""
        command = ["ctest", "--test-dir", self.build, "-R", regex, "--no-tests=error", "--parallel", self.jobs]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode == 0:
            return []
        _, _, list_text = result.stdout.partition("The following tests FAILED:")
        failures = [match.groups() for match in map(FAILED_TEST.match, list_text.splitlines()) if match]
        names = [name + " (out of time)" * (why == "Timeout") for name, why in failures]
        if not names:
            raise mutants.MutantError(f"ctest -R '{regex}' did not run: {(result.stdout + result.stderr).strip()}")
        return names

    def write(self, texts):
        for path, text in texts.items():
            (self.tree / path).write_text(text)


def judge(workshop, mutant):
    """None if the mutant was caught, else why not. Prints who caught it."""
    texts = mutants.mutated_files(workshop.tree, mutant)
    output = workshop.make(mutant.build)
    if output:
        raise mutants.MutantError(f"the sources do not build without {mutant.name}:\n{output}")
    before = workshop.failing_tests(mutant.tests)
    if before:
        raise mutants.MutantError(f"these fail already without {mutant.name}: {', '.join(before)}")
    originals = {path: (workshop.tree / path).read_text() for path in texts}
    started = time.monotonic()
    try:
        workshop.write(texts)
        output = workshop.make(mutant.build)
        if output:
            raise mutants.MutantError(f"{mutant.name} does not build:\n{output}")
        failing = workshop.failing_tests(mutant.tests)
    finally:
        workshop.write(originals)
    if not failing:
        return f"{mutant.name} was not noticed by '{mutant.tests}': {mutant.why}"
    print(f"{mutant.name}: caught by {', '.join(failing)} ({time.monotonic() - started:.0f} s)")
    return None


def run(source, scratch, files, configure, jobs):
    workshop = Workshop(source, scratch, configure, jobs)
    problems = []
    chosen = [mutants.load(file) for file in files]
    workshop.prepare()
    for mutant in chosen:
        try:
            problem = judge(workshop, mutant)
        except mutants.MutantError as error:
            problem = str(error)
        if problem:
            problems.append(problem)
    return problems


def stale(source, files):
    """What is wrong with the mutants themselves, without building anything."""
    problems = []
    for file in files:
        try:
            mutants.mutated_files(source, mutants.load(file))
        except mutants.MutantError as error:
            problems.append(str(error))
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", type=Path, default=FOLDER.parents[1], help="top folder of the project")
    parser.add_argument("--scratch", type=Path, help="folder for the copy and its build; kept")
    parser.add_argument("--check", action="store_true", help="only see that every text is found exactly once")
    parser.add_argument("--mutants", type=Path, help="folder of the .mutant files (default: this one)")
    parser.add_argument("--simgpu", action="store_true",
                        help="mutants of the simulated device against the conformance suite; writes the table")
    parser.add_argument("--table", type=Path, default=conformance_mutants.TABLE, help="where --simgpu writes it")
    parser.add_argument("--configure", action="append", default=[], metavar="ARG", help="argument for cmake")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("names", nargs="*", metavar="NAME", help="mutants to run (default: all)")
    arguments = parser.parse_args()
    folder = arguments.mutants or (FOLDER / "simgpu" if arguments.simgpu else FOLDER)
    files = {file.stem: file for file in sorted(folder.glob("*.mutant"))}
    unknown = [name for name in arguments.names if name not in files]
    if unknown:
        parser.error(f"unknown mutant {unknown[0]}; there are: {', '.join(files)}")
    named = [files[name] for name in arguments.names]
    chosen = named or list(files.values())
    if arguments.check:
        problems = stale(arguments.source, chosen)
        print("\n".join(problems))
        sys.exit(1 if problems else 0)
    if arguments.scratch is None:
        parser.error("--scratch is needed")
    arguments.scratch.mkdir(parents=True, exist_ok=True)
    try:
        if arguments.simgpu:
            configure = arguments.configure or conformance_mutants.CONFIGURE
            workshop = Workshop(arguments.source, arguments.scratch.resolve(), configure, arguments.jobs)
            problems = conformance_mutants.main(workshop, named, list(files.values()), arguments.jobs,
                                                arguments.table)
        else:
            problems = run(arguments.source, arguments.scratch.resolve(), chosen, arguments.configure, arguments.jobs)
    except mutants.MutantError as error:
        problems = [str(error)]
    print("\n".join(problems))
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
