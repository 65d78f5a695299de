"""What the tests of the probe's doors share: how a program is run and counted."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DEVICE = ROOT / "tests" / "device"
sys.path.insert(0, str(DEVICE))
import compare_doors

STEPS = 5
OPTIONS = argparse.Namespace()


def clean_environment(**more):
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("TIDEPOOL_", "LD_PRELOAD", "TP_"))}
    return {**kept, **more}


def run(command, environment, code=0):
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=50)
    if result.returncode != code:
        raise AssertionError(f"{command[0]}: {result.returncode}, not {code}: {result.stderr[-2000:]}")
    return result.stdout


class Doors(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.scratch = Path(scratch.name)

    def files(self, pattern):
        return [str(path) for path in self.scratch.glob(pattern)]

    def variables(self, faults="", **more):
        usual = {
            "LD_LIBRARY_PATH": str(OPTIONS.build / "lib" / "recording_driver"),
            "LD_PRELOAD": str(OPTIONS.build / "lib" / "libtidepool-count.so"),
            "TIDEPOOL_COUNT_FILE": str(self.scratch / "door.%p"),
            "TP_RECORD_FILE": str(self.scratch / "driver.%p"),
            "TP_RECORDING_FAULTS": faults,
        }
        return clean_environment(**{**usual, **more})

    def count(self, *words, faults="", steps=STEPS, code=0, reference="driver", **more):
        """Runs door_steps on the recording driver and gives (door, reference, truth)."""
        for path in self.scratch.iterdir():
            path.unlink()
        out = run([str(OPTIONS.build / "tests" / "door_steps"), str(steps), *words], self.variables(faults, **more), code)
        sides = [compare_doors.side(self.files(f"{side}.*")) for side in ("door", reference)]
        return (*sides, json.loads(out) if out else {})

    def answers(self, sides):
        return compare_doors.compare("door_steps", *sides)

    def named(self, found, name):
        return [record for record in found if record["name"] == name]
