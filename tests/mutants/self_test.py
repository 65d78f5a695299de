"""The mutant runner tells caught, unnoticed and wrong mutants apart; a small project of its own is the victim."""

import contextlib
import io
import tempfile
import unittest
from pathlib import Path

import conformance_mutants
import mutant
import run_mutants

TEXT = """# Sums must count every element.
tests: ^sum$
build: sum_test
file: sum.cpp
<<<<
  for (int i = 0; i < n; ++i) total += i;
====
  for (int i = 1; i < n; ++i) total += {first};
>>>>
"""
SOURCE = """int sum(int n) {
  int total = 0;
  for (int i = 0; i < n; ++i) total += i;
  return total;
}
int main() { return sum(4) == 6 ? 0 : 1; }
"""
PROJECT = """cmake_minimum_required(VERSION 3.25)
project(victim LANGUAGES CXX)
enable_testing()
add_executable(sum_test sum.cpp)
add_test(NAME sum COMMAND sum_test)
add_test(NAME already_broken COMMAND sum_test)
set_tests_properties(already_broken PROPERTIES WILL_FAIL ON)
add_test(NAME slow COMMAND ${CMAKE_COMMAND} -E sleep 20)
set_tests_properties(slow PROPERTIES TIMEOUT 0.1)
"""


class Format(unittest.TestCase):
    def test_reads_every_part(self):
        read = mutant.parse("x", TEXT)
        self.assertEqual((read.tests, read.build, read.why), ("^sum$", ["sum_test"], "Sums must count every element."))
        self.assertEqual(read.edits[0].search, "  for (int i = 0; i < n; ++i) total += i;\n")

    def test_refuses_what_is_incomplete(self):
        for part, word in (("tests: ^sum$\n", "tests:"), ("# Sums must count every element.\n", "#"), (">>>>\n", ">>>>")):
            with self.subTest(part), self.assertRaisesRegex(mutant.MutantError, word):
                mutant.parse("x", TEXT.replace(part, ""))
        with self.assertRaisesRegex(mutant.MutantError, "x:1: 'test: y' is none of"):
            mutant.parse("x", "test: y\n" + TEXT)

    def test_wants_its_text_once_and_in_whole_lines(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "sum.cpp"
            read = mutant.parse("x", TEXT)
            file.write_text(SOURCE)
            changed = mutant.mutated_files(folder, read)["sum.cpp"]
            self.assertEqual(changed.count("int i = 1"), 1)
            for count, text in ((0, SOURCE.replace("++i", "i++")), (2, SOURCE * 2), (0, SOURCE.replace("  for", "   for"))):
                file.write_text(text)
                with self.subTest(count), self.assertRaisesRegex(mutant.MutantError, f"stands {count} times"):
                    mutant.mutated_files(folder, read)


class KeptResults(unittest.TestCase):
    def test_hold_until_the_mutant_or_its_source_changes(self):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            file, source, kept = root / "x.mutant", root / "sum.cpp", root / "kept.json"
            file.write_text(TEXT)
            source.write_text(SOURCE)

            def has():
                return conformance_mutants.Results(kept).has(root, file)

            self.assertFalse(has())
            conformance_mutants.Results(kept).put(root, file, mutant.load(file), {"a.case"})
            self.assertTrue(has())
            source.write_text(SOURCE + "// more\n")
            self.assertFalse(has())
            source.write_text(SOURCE)
            file.write_text(TEXT.replace("i = 1", "i = 2"))
            self.assertFalse(has())
            file.write_text(TEXT)
            conformance_mutants.Results(kept).put(root, file, mutant.load(file), set())
            self.assertFalse(has(), "what nobody noticed is judged again")


class Runner(unittest.TestCase):
    def test_tells_the_cases_apart(self):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            source, scratch = root / "victim", root / "scratch"
            for path, text in (("sum.cpp", SOURCE), ("CMakeLists.txt", PROJECT)):
                source.mkdir(exist_ok=True)
                (source / path).write_text(text)
            cases = {
                "caught": TEXT.format(first="i + 1"),
                "unnoticed": TEXT.format(first="i"),
                "does_not_build": TEXT.format(first="no_such_name"),
                "no_such_test": TEXT.format(first="i").replace("^sum$", "^some$"),
                "fails_anyway": TEXT.format(first="i").replace("^sum$", "already_broken"),
                "takes_too_long": TEXT.format(first="i").replace("^sum$", "slow"),
                "stale": TEXT.format(first="i").replace("i < n", "i <= n"),
            }
            files = []
            for name, text in cases.items():
                files.append(root / f"{name}.mutant")
                files[-1].write_text(text)
            wrong = run_mutants.stale(source, files)
            self.assertEqual(len(wrong), 1, wrong)
            self.assertIn("stale: its text stands 0 times", wrong[0])
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                problems = run_mutants.run(source, scratch, files, [], 2)
            self.assertIn("caught: caught by sum", output.getvalue())
            wanted = ("unnoticed was not noticed", "does_not_build does not build", "did not run", ": already_broken",
                      ": slow (out of time)", "stands 0")
            self.assertEqual(len(problems), len(wanted), problems)
            for problem, fragment in zip(problems, wanted):
                self.assertIn(fragment, problem)
            # The copy is clean again.
            self.assertEqual((scratch / "source/sum.cpp").read_text(), SOURCE)


if __name__ == "__main__":
    unittest.main()
