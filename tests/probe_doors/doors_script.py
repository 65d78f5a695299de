"""What tests/device/doors.sh and its programs print, whole and cut off."""

import contextlib
import io
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from door_case import DEVICE, OPTIONS, Doors, clean_environment, run
import read_probe
import torch_step


class Script(Doors):
    def test_what_is_missing_is_skipped_with_a_reason(self):
        out = run(["bash", str(DEVICE / "doors.sh"), str(OPTIONS.build), "--quick"],
                  clean_environment(TIDEPOOL_PROBE_PYTHON="/nonexistent/python3"))
        records = [json.loads(line) for line in out.splitlines()]
        self.assertEqual([records[0]["kind"], records[-1]["kind"]], ["start", "end"])
        skipped = {record["name"]: record["why"] for record in records if record["kind"] == "skipped"}
        self.assertIn("torch_step", skipped)
        self.assertTrue(all(skipped.values()), skipped)

    def build_with(self, *script):
        """A build folder whose static_steps is door_steps, or a script that may run it as "$steps"."""
        if OPTIONS.cupti is None:
            self.skipTest("libtidepool-cupti.so was not built")
        build = self.scratch / "build"
        (build / "lib" / "probe").mkdir(parents=True)
        for name in ("libtidepool-count.so", "libtidepool-cupti.so"):
            (build / "lib" / name).symlink_to(OPTIONS.build / "lib" / name)
        program, steps = build / "lib" / "probe" / "static_steps", OPTIONS.build / "tests" / "door_steps"
        if script:
            program.write_text("\n".join(("#!/usr/bin/env bash", f"steps={steps}", *script, "")))
            program.chmod(0o755)
        else:
            program.symlink_to(steps)
        (self.scratch / "tmp").mkdir()
        return build

    def environment(self):
        libraries = f"{OPTIONS.build / 'lib' / 'recording_driver'}:{OPTIONS.fake_cupti.parent}"
        return clean_environment(LD_LIBRARY_PATH=libraries, CUDA_HOME="/nonexistent", TMPDIR=str(self.scratch / "tmp"),
                                 TIDEPOOL_PROBE_PYTHON="/nonexistent/python3")

    def script(self, build, *options):
        return [json.loads(line)
                for line in run(["bash", str(DEVICE / "doors.sh"), str(build), *options], self.environment()).splitlines()]

    def waiting_build(self):
        """A build folder whose program never ends by itself once its steps are done."""
        fifo = self.scratch / "fifo"
        os.mkfifo(fifo)
        writer = os.open(fifo, os.O_RDWR)
        self.addCleanup(os.close, writer)
        return self.build_with(f'exec "$steps" "$@" later <{fifo}')

    def check_cut_off(self, records):
        launches = self.named(records, "launches pass the door")
        self.assertEqual([(row["door"], row["agrees"], row["final"]) for row in launches], [(60, None, False)])
        self.assertTrue(self.named(records, "parameter layouts"))
        self.assertEqual(list((self.scratch / "tmp").iterdir()), [])

    def test_a_program_is_counted_alone_then_with_cupti_then_for_longer(self):
        start, *records = self.script(self.build_with())
        self.assertEqual((start["device"], start["simulated"]), ("recording driver", False))
        found = [record for record in records if "static_steps" in record.get("program", "")]
        launches = [record for record in found if record["name"] == "launches pass the door"]
        self.assertEqual([(row["program"], row["door"], row["reference"], row["agrees"]) for row in launches],
                         [("static_steps", 60, None, None), ("static_steps, with CUPTI", 60, 60, True),
                          ("static_steps, with CUPTI, its door without as reference", 60, 60, True)])
        self.assertTrue(launches[0]["door_is_true"] and launches[1]["reference_is_true"])
        self.assertEqual([(row["door"], row["reference"]) for row in self.named(found, "launches per step")],
                         [(3, None), (3, 3)])
        of_names = [record for record in found if record["name"].startswith(("asked", "parameter"))]
        self.assertEqual({record["program"] for record in of_names}, {"static_steps"})
        self.assertEqual([row["answered_by"] for row in self.named(found, "parameter layouts")], ["cuFuncGetParamInfo"])

    def test_a_program_that_dies_of_being_asked_is_asked_less(self):
        found = self.script(self.build_with("ulimit -c 0", '[ "$TIDEPOOL_COUNT_ASK" = none ] || kill -SEGV $$',
                                            'exec "$steps" "$@"'), "--quick")
        died = self.named(found, "the program ends by a signal")
        self.assertEqual([(row["asked_about_kernels"], row["value"]) for row in died], [("both", "139"), ("function", "139")])
        self.assertEqual([row["answered_by"] for row in self.named(found, "parameter layouts")], ["neither"])
        self.assertEqual([row["agrees"] for row in self.named(found, "launches pass the door")], [None, True, True])

    def test_what_was_counted_is_told_when_the_time_is_up(self):
        began = time.monotonic()
        found = self.script(self.waiting_build(), "--seconds", "4")
        self.assertLess(time.monotonic() - began, 20)
        self.check_cut_off(found)
        self.assertIn("did not end within its time", self.named(found, "static_steps")[0]["why"])

    def test_what_was_counted_is_told_when_the_script_is_ended(self):
        command = ["bash", str(DEVICE / "doors.sh"), str(self.waiting_build())]
        with subprocess.Popen(command, env=self.environment(), stdout=subprocess.PIPE, text=True) as script:
            deadline = time.monotonic() + 30
            while not self.files("tmp/*/static_steps.door.*[0-9]") and time.monotonic() < deadline:
                time.sleep(0.05)
            (counted,) = self.files("tmp/*/static_steps.door.*[0-9]")
            script.terminate()
            out, _ = script.communicate(timeout=20)
        self.assertEqual(script.returncode, 143)
        self.check_cut_off([json.loads(line) for line in out.splitlines()])
        self.assertFalse(Path("/proc", counted.rsplit(".", 1)[1]).exists(), "its program is still there")

    def test_an_empty_build_folder_is_skipped_too(self):
        out = run(["bash", str(DEVICE / "doors.sh"), str(self.scratch)], clean_environment())
        self.assertEqual([json.loads(line)["kind"] for line in out.splitlines()], ["start", "skipped", "end"])

    def test_the_training_step_says_what_it_lacks(self):
        result = subprocess.run([sys.executable, "-B", "-S", str(DEVICE / "torch_step.py"), "1"], env=clean_environment(),
                                capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 77)
        self.assertIn("PyTorch", result.stderr)

    def test_the_markers_of_the_training_step_are_shown(self):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            torch_step.mark("warm", loss=1.5)
        name, _, value, details = read_probe.rows_of(json.loads(out.getvalue()))
        self.assertEqual((name, value), ("marker", "warm"))
        self.assertIn("loss=1.5", details)

    def test_the_start_says_why_there_is_no_device(self):
        (self.scratch / "libcuda.so.1").write_text("no library")
        out = run([sys.executable, "-B", str(DEVICE / "start_record.py"), "doors", "steps", "4"],
                  clean_environment(LD_LIBRARY_PATH=str(self.scratch)))
        record = json.loads(out)
        self.assertEqual((record["kind"], record["section"], record["steps"], record["device"]), ("start", "doors", "4", None))
        self.assertIn("libcuda.so.1", record["why"])
