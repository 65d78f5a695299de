#!/usr/bin/env python3
"""Tests of what judges and shrinks random programs, without a device."""

import time
import unittest

import run_storm
import shrink
import storm_run

MIB = 1 << 20


def run(**changes):
    fields = {"command": [], "code": 0, "out": "same", "peaks": [4 * MIB], **changes}
    return storm_run.Run(**fields)


class Shrinking(unittest.TestCase):
    def test_numbers_are_told_as_ranges(self):
        self.assertEqual(shrink.ranges([5, 1, 2, 3, 7]), "1-3,5,7")
        self.assertEqual(shrink.ranges([]), "")

    def test_two_steps_that_fail_together_remain(self):
        program = {"steps": 50, "threads": 4, "streams": 3, "features": ["a", "b", "c"], "dropped": []}

        def fails(some):
            left = set(range(some["steps"])) - set(some["dropped"])
            return {11, 30} <= left and "b" in some["features"] and some["threads"] >= 2

        smallest = shrink.shrink(program, fails, 60)
        self.assertEqual(smallest["steps"], 31)
        self.assertEqual(set(range(31)) - set(smallest["dropped"]), {11, 30})
        self.assertEqual((smallest["threads"], smallest["streams"]), (2, 1))
        self.assertEqual(smallest["features"], ["b"])

    def test_time_that_is_over_leaves_the_program_as_it_is(self):
        program = {"steps": 9, "threads": 2, "streams": 2, "features": ["a"], "dropped": []}
        self.assertEqual(shrink.shrink(program, lambda some: True, 0), program)

    def test_nothing_is_kept_that_need_not_be(self):
        kept = shrink.fewest_of(range(20), lambda some: sum(some) >= 30, time.monotonic() + 60)
        self.assertGreaterEqual(sum(kept), 30)
        for item in kept:
            self.assertLess(sum(kept) - item, 30)


class Judging(unittest.TestCase):
    def wrong(self, small, may_refuse=False, may_race=False):
        return storm_run.wrong_under_tidepool(small, run(), 4 * MIB, may_refuse=may_refuse, may_race=may_race)

    def test_the_same_is_right(self):
        self.assertIsNone(self.wrong(run()))

    def test_each_fault_is_named(self):
        faults = {
            "hang": run(code=None),
            "exit 1": run(code=1),
            "the output is another": run(out="other"),
            "a check failed: TP3002": run(err="tidepool 0.1s E TP3002 an internal check failed"),
            "a check failed: TP3004, TP3008": run(err="tidepool 0.1s E TP3004 a\ntidepool 0.1s E TP3008 two"),
            f"the peak is above the budget: {4 * MIB + 1} of {4 * MIB}": run(peaks=[4 * MIB + 1]),
            "2 errors of the device": run(errors=2),
            "1 races": run(races=1),
            "8 bytes are left": run(left=8),
            "3 descriptors are left": run(err="storm: 3 descriptors more than at the start"),
        }
        for text, small in faults.items():
            self.assertEqual(self.wrong(small), text)

    def test_a_refusal_needs_leave_and_a_reason(self):
        refused = run(code=storm_run.OUT_OF_MEMORY, out="", err="E TP2102 90.0 MiB must be on the device")
        self.assertEqual(self.wrong(refused), "exit 3")
        self.assertIsNone(self.wrong(refused, may_refuse=True))
        silent = run(code=storm_run.OUT_OF_MEMORY, out="")
        self.assertEqual(self.wrong(silent, may_refuse=True), "exit 3")

    def test_races_are_passed_over_only_on_request(self):
        self.assertIsNone(self.wrong(run(races=1), may_race=True))

    def test_a_program_that_is_wrong_by_itself_is_told(self):
        self.assertIsNone(storm_run.wrong_by_itself(run()))
        for bad in (run(code=None), run(code=1), run(races=1), run(errors=1), run(left=1)):
            self.assertIsNotNone(storm_run.wrong_by_itself(bad))


class Arguments(unittest.TestCase):
    def test_features_are_read_as_storm_reads_them(self):
        self.assertEqual(run_storm.chosen_features("copy,legacy"), ["copy", "legacy"])
        self.assertNotIn("async", run_storm.chosen_features("default,-async"))
        self.assertNotIn("graph", run_storm.chosen_features("default"))
        self.assertIn("graph", run_storm.chosen_features("all"))
        with self.assertRaises(SystemExit):
            run_storm.chosen_features("copy,nosuch")

    def test_a_program_is_told_by_its_command_line(self):
        program = {"seed": 3, "steps": 9, "threads": 2, "streams": 1, "features": [], "dropped": [0, 1]}
        self.assertEqual(
            storm_run.arguments(program),
            ["--seed", "3", "--steps", "9", "--threads", "2", "--streams", "1", "--features", ",", "--drop", "0-1"],
        )


if __name__ == "__main__":
    unittest.main()
