"""What the reader makes of whole, torn and missing sections."""

import io
import json
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import read_probe  # noqa: E402

RESULT = {"section": "vmm", "kind": "result", "name": "create", "params": {"handle_bytes": 33554432, "load": "idle"},
          "unit": "ns", "n": 200, "min": 900, "p50": 12345, "p90": 20000, "max": 2500000}


class ReadProbe(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def write(self, section, *lines):
        texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
        (Path(self.folder.name) / f"{section}.jsonl").write_text("\n".join(texts), encoding="utf-8")

    def shown(self):
        out = io.StringIO()
        read_probe.table(read_probe.read_folder(self.folder.name), out)
        return out.getvalue()

    def test_a_whole_section(self):
        self.write("vmm", {"section": "vmm", "kind": "start", "device": "a card", "driver_version": 13000,
                            "simulated": False}, RESULT,
                   {"section": "vmm", "kind": "end", "seconds": 12.25})
        text = self.shown()
        self.assertIn("vmm  [12.2 s]  a card · 13000", text)
        self.assertIn("create  handle=32MiB load=idle  12.35 us  900 ns .. 2.5 ms, n=200", text)

    def test_what_was_simulated_says_so(self):
        self.write("vmm", {"section": "vmm", "kind": "start", "device": "a card", "simulated": True}, RESULT)
        self.assertIn("SIMULATED, says nothing of hardware · a card", self.shown())
        self.write("vmm", {"section": "vmm", "kind": "start", "device": "a card"}, RESULT)
        self.assertIn("unknown driver · a card", self.shown())

    def test_what_is_merged_is_simulated_if_any_section_says_so(self):
        hardware = {"section": "vmm", "kind": "start", "simulated": False}
        merged = Path(self.folder.name) / "merged.json"
        for other, expected in (({"simulated": False}, False), ({"simulated": True}, True), ({}, False)):
            self.write("vmm", hardware)
            self.write("doors", {"section": "doors", "kind": "start", **other})
            sys.argv = ["read_probe", self.folder.name, "--quiet", "--merge", str(merged)]
            self.assertEqual(read_probe.main(), 0)
            self.assertEqual(json.loads(merged.read_text())["simulated"], expected)
        self.write("vmm", {"section": "vmm", "kind": "start", "device": None})
        self.write("doors")
        self.assertEqual(read_probe.main(), 0)
        self.assertIsNone(json.loads(merged.read_text())["simulated"])
        self.assertEqual(list(read_probe.read_folder(merged)), ["doors", "vmm"])

    def test_what_is_merged_has_a_record_a_line_and_is_read_as_it_was(self):
        start = {"section": "vmm", "kind": "start", "device": "a card", "simulated": False}
        self.write("vmm", start, RESULT)
        self.write("doors")
        merged = Path(self.folder.name) / "merged.json"
        sys.argv = ["read_probe", self.folder.name, "--quiet", "--merge", str(merged)]
        self.assertEqual(read_probe.main(), 0)
        text = merged.read_text(encoding="utf-8")
        self.assertEqual(json.loads(text)["sections"], {"doors": [], "vmm": [start, RESULT]})
        self.assertEqual([json.loads(line.rstrip(",")) for line in text.splitlines() if '"kind"' in line], [start, RESULT])

    def test_what_is_merged_names_no_folder_of_the_machine(self):
        self.write("conformance", {"section": "conformance", "kind": "answer", "name": "a case", "value": "failed",
                                   "detail": "/some/where/tide.pool/tests/contract/a_test.cpp:65: FAILED: / with /usr/lib/libcuda.so"})
        merged = Path(self.folder.name) / "merged.json"
        sys.argv = ["read_probe", self.folder.name, "--quiet", "--merge", str(merged)]
        self.assertEqual(read_probe.main(), 0)
        (record,) = json.loads(merged.read_text())["sections"]["conformance"]
        self.assertEqual(record["detail"], "tests/contract/a_test.cpp:65: FAILED: / with /usr/lib/libcuda.so")

    def test_a_second_run_that_was_cut_off_is_not_hidden_by_the_first(self):
        start = {"section": "launch", "kind": "start", "device": "a card", "simulated": False}
        self.write("launch", start, {"section": "launch", "kind": "end", "seconds": 1}, start)
        self.assertIn("launch  [cut off]", self.shown())
        self.write("launch", {"section": "launch", "kind": "skipped", "why": "no time was left"})
        self.assertIn("launch  [not run]", self.shown())

    def test_a_section_without_a_device_says_why(self):
        self.write("doors", {"section": "doors", "kind": "start", "device": None, "why": "no libcuda.so.1"}, RESULT)
        self.assertIn("doors  [cut off]  no driver · no libcuda.so.1", self.shown())

    def test_a_section_that_was_cut_off_shows_what_it_has(self):
        self.write("vmm", RESULT, '{"section": "vmm", "kind": "resu')
        text = self.shown()
        self.assertIn("vmm  [cut off, 1 torn line]", text)
        self.assertIn("12.35 us", text)

    def test_an_empty_file_and_no_file(self):
        self.write("faults")
        self.assertIn("faults  [nothing came of it]", self.shown())
        self.assertEqual(read_probe.read_folder(self.folder.name + "/none"), {})

    def test_records_that_lack_a_field_or_are_none_do_not_stop_it(self):
        self.write("rates", {"section": "rates", "kind": "result", "name": "copy"}, "[1, 2]", '{"no": "kind"}', RESULT)
        text = self.shown()
        self.assertIn("a record that is none", text)
        self.assertIn("2 torn lines", text)
        self.assertIn("12.35 us", text)

    def test_answers_and_what_was_skipped(self):
        self.write("faults", {"section": "faults", "kind": "answer", "name": "read", "value": "CUDA_ERROR_X"},
                   {"section": "faults", "kind": "skipped", "why": "no time was left"})
        text = self.shown()
        self.assertIn("CUDA_ERROR_X", text)
        self.assertIn("(all)", text)
        self.assertIn("no time was left", text)

    def test_fields_of_an_answer_that_are_its_own_are_shown_and_cut(self):
        self.write("doors", {"section": "doors", "kind": "answer", "name": "launches", "value": True, "door": 12,
                             "names": ["x" * 300]})
        text = self.shown()
        self.assertIn("launches    true  door=12; names=[", text)
        self.assertLess(max(len(line) for line in text.splitlines()), 250)

    def test_known_sections_come_in_their_order_and_others_behind(self):
        for name in ("zebra", "faults", "doors"):
            self.write(name, {"section": name, "kind": "end", "seconds": 1})
        self.assertEqual(list(read_probe.read_folder(self.folder.name)), ["doors", "faults", "zebra"])

    def test_units(self):
        self.assertEqual(read_probe.show_number(3.1e12, "B/s"), "3.1 TB/s")
        self.assertEqual(read_probe.show_number(0, "ns"), "0 ns")
        self.assertEqual(read_probe.show_number(7, "words"), "7 words")


if __name__ == "__main__":
    unittest.main()
