"""The scripts of the conformance suite tell kept promises from broken ones."""

import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "mutants"))

import check_visit
import conformance_mutants
import run_suite


def record(case, verdict, detail=""):
    return {"case": case, "verdict": verdict, "detail": detail}


class Verdicts(unittest.TestCase):
    def problems(self, records, pending=()):
        verdicts = run_suite.Verdicts()
        verdicts.add(1, records)
        return list(verdicts.problems(dict.fromkeys(pending, "why")))

    def test_what_is_kept_is_no_problem(self):
        self.assertEqual(self.problems([record("a.b", "pass")]), [])

    def test_what_is_not_kept_is_one(self):
        self.assertIn("a.b is not kept", self.problems([record("a.b", "fail", "so")])[0])

    def test_what_is_skipped_is_one(self):
        self.assertIn("a.b is not kept", self.problems([record("a.b", "skipped", "the device has no pools")])[0])

    def test_but_one_device_may_be_all_there_is(self):
        self.assertEqual(self.problems([record("a.b", "skipped", "there is one device")]), [])

    def test_what_is_pending_fails(self):
        self.assertEqual(self.problems([record("a.b", "fail")], ["a.b"]), [])
        self.assertIn("take it out", self.problems([record("a.b", "pass")], ["a.b"])[0])

    def test_the_list_is_named_that_a_case_has_outgrown(self):
        verdicts = run_suite.Verdicts()
        verdicts.add(1, [record("a.b", "pass")])
        self.assertEqual(list(verdicts.problems({"a.b": "why"}, "x.txt")), ["a.b passes; take it out of x.txt"])

    def test_every_exception_under_tidepool_has_a_reason(self):
        self.assertTrue(run_suite.read_pending(run_suite.FOLDER / "under_tidepool.txt"))

    def test_one_bad_seed_is_enough(self):
        verdicts = run_suite.Verdicts()
        verdicts.add(1, [record("a.b", "pass")])
        verdicts.add(2, [record("a.b", "fail", "so")])
        self.assertEqual(list(verdicts.problems({})), ["a.b is not kept: seed 2: fail: so"])

    def test_pending_lines_have_a_reason(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "pending.txt"
            path.write_text("# text\na.b  why\n", encoding="utf-8")
            self.assertEqual(run_suite.read_pending(path), {"a.b": "why"})
            path.write_text("a.b\n", encoding="utf-8")
            self.assertRaises(SystemExit, run_suite.read_pending, path)


class Visit(unittest.TestCase):
    START = {"simulated": True}

    def test_a_whole_one(self):
        self.assertEqual(list(check_visit.problems([self.START, record("a.b", "pass")], {})), [])

    def test_an_empty_or_failed_one(self):
        self.assertTrue(list(check_visit.problems([], {})))
        self.assertTrue(list(check_visit.problems([self.START], {})))
        self.assertTrue(list(check_visit.problems([self.START, record("a.b", "fail")], {})))
        self.assertEqual(list(check_visit.problems([self.START, record("a.b", "fail")], {"a.b": "why"})), [])


class Table(unittest.TestCase):
    CASES = [{"case": "a.one", "section": "S"}, {"case": "a.two", "section": "S"}, {"case": "a.three", "section": "S"}]

    def test_it_says_what_stands_behind_each_case(self):
        with tempfile.TemporaryDirectory() as folder:
            results = conformance_mutants.Results(Path(folder) / "none.json")
        results.mutants = {"m": {"why": "W.", "killed_by": ["a.one"]}, "n": {"why": "V.", "killed_by": []}}
        text = conformance_mutants.table(self.CASES, results, {"a.two": "pass (card)"})
        self.assertIn("| a.one | S | `m` |  |", text)
        self.assertIn("| a.two | S |  | pass (card) |", text)
        self.assertIn("| a.three | S | *unverified* |  |", text)
        self.assertIn("| `n` | V. | *nobody* |", text)
        self.assertIn("2 cases verified, 1 unverified", text)


if __name__ == "__main__":
    unittest.main()
