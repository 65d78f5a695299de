#!/usr/bin/env python3
"""Tests of what judges calls that fail, without a device."""

import unittest

import run_calls
from run_calls import Case, Job, storm_run

JOB = Job("work", 4 << 20, ())
CASE = Case("cuMemMap", 10, 999, JOB)


def run(**changes):
    fields = {"command": [], "code": 0, "out": "5 rounds of work\n", "peaks": [4 << 20], "faults": 1, **changes}
    return storm_run.Run(**fields)


class Judging(unittest.TestCase):
    def wrong(self, **changes):
        return run_calls.wrong(run(**changes), CASE, 5)

    def test_what_is_survived_is_right(self):
        self.assertIsNone(self.wrong())
        self.assertIsNone(self.wrong(err="told cuMemAlloc_v2 999\n"))
        self.assertIsNone(self.wrong(err="told cuMemAlloc_v2 2\n"))
        self.assertIsNone(self.wrong(files=[run_calls.KEPT]))

    def test_each_fault_is_named(self):
        faults = {
            "hang": {"code": None},
            "exit 5": {"code": run_calls.WRONG_BYTES},
            "exit -11": {"code": -11},
            "the call was not made": {"faults": 0},
            "another error is told": {"err": "told cuMemAlloc_v2 1\n"},
            "after a second try": {"code": 4, "err": "told cuMemAlloc_v2 999\ntold cuMemAlloc_v2 999\n"},
            "a check failed": {"err": "tidepool 0.1s E TP3002 an internal check failed"},
            "files are left": {"files": ["tidepool-run-x"]},
            "the peak is": {"peaks": [5 << 20]},
            "the output is another": {"out": "4 rounds of work\n"},
            "2 races": {"races": 2},
            "7 bytes are left": {"left": 7},
        }
        for what, changes in faults.items():
            self.assertIn(what, self.wrong(**changes) or "nothing")


class Table(unittest.TestCase):
    FAILED = {("a", nth) for nth in run_calls.TIMES} | {("b", 1)}

    def problems(self, names, listed):
        return run_calls.table(names, self.FAILED, run_calls.not_failed(listed), {"absent"})[1]

    def test_every_name_is_failed_or_listed(self):
        self.assertEqual(self.problems(["a", "b", "absent"], "# why\nb 10,100 once is all\n"), [])

    def test_what_is_in_neither_is_a_problem(self):
        self.assertEqual(len(self.problems(["a", "b"], "")), 1)
        self.assertEqual(len(self.problems(["a", "c"], "")), 1)

    def test_what_is_listed_and_failed_is_a_problem(self):
        self.assertEqual(len(self.problems(["a"], "a 100 it is not called so often\n")), 1)
        self.assertEqual(len(self.problems(["a"], "gone 1,10,100 it is in no table any more\n")), 1)


if __name__ == "__main__":
    unittest.main()
