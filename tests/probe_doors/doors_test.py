"""What is counted at the door, held against what the driver under it saw.

The recording driver stands in for hardware and for CUPTI: on it the counts agree exactly, and every difference that
is planted is found and named. On the simulated device they equal its own report.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
import unittest
from collections import Counter
from pathlib import Path

from door_case import DEVICE, OPTIONS, STEPS, Doors, clean_environment, compare_doors, run
from doors_script import Script  # a group of its own


class Recording(Doors):
    def test_counts_agree_with_the_driver_and_with_the_truth(self):
        found = self.answers(self.count())
        self.assertEqual({record["class"] for record in found},
                         {"launches", "allocations", "frees", "copies", "memsets"})
        for record in found:
            self.assertTrue(record["agrees"] and record["door_is_true"] and record["reference_is_true"], record)

    def test_two_runs_give_the_calls_of_one_step(self):
        twice = self.count(steps=2 * STEPS)
        once = self.count()
        short, long = ({"door": run[0], "reference": run[1]} for run in (once, twice))
        found = compare_doors.step_answers("p", STEPS, short, long)
        self.assertEqual({record["class"]: record["door"] for record in found},
                         {"launches": 3, "allocations": 2, "frees": 2, "copies": 2, "memsets": 1})
        for record in found:
            self.assertEqual(record["reference"], record["door"], record)

    def test_every_entry_is_counted_under_its_own_name(self):
        door, driver, _ = self.count()
        self.assertEqual({entry: driver.calls[entry] for entry in door.calls}, dict(door.calls))
        self.assertEqual(door.calls["cuLaunchKernel_ptsz"], STEPS)

    def test_a_launch_by_a_door_that_the_table_lacks_is_named(self):
        found = self.answers(self.count("novel"))
        launches = next(record for record in found if record.get("class") == "launches")
        self.assertEqual((launches["door"], launches["reference"]), (3 * STEPS, 4 * STEPS))
        self.assertFalse(launches["agrees"] or launches["door_is_true"])
        different = self.named(found, "counted differently")
        self.assertEqual([(row["entry"], row["door"], row["reference"]) for row in different],
                         [("cuLaunchNovel", 0, STEPS)])

    def test_names_that_the_table_lacks_are_listed_with_who_asked(self):
        door, _, _ = self.count("novel")
        known = {"cuDevicePrimaryCtxRetain", "cuCtxSetCurrent"}
        *each, rest = compare_doors.asked_answers("p", door, {"cuDevicePrimaryCtxRetain": "harmless"}, known)
        asked = {record["entry"]: record for record in each}
        self.assertEqual(asked["cuLaunchNovel"]["calls_of"], "launches")
        self.assertTrue(asked["cuLaunchNovel"]["had"])
        self.assertEqual(asked["cuDevicePrimaryCtxRetain"]["reason"], "harmless")
        self.assertFalse(asked["cuLaunchNovel"]["in_header"])
        self.assertIn("cuCtxSetCurrent", rest["names"])
        self.assertEqual(rest["callers"], ["door_steps"])
        self.assertNotIn("cuMemAlloc", asked)
        self.assertNotIn("cuLaunchKernel", asked)

    def test_a_version_that_only_lookups_know_is_found(self):
        sides = self.count(faults="newer=cuMemAlloc")
        asked = compare_doors.asked_answers("p", sides[0], {})
        self.assertIn(("cuMemAlloc", "version"), [(row.get("entry"), row.get("lacks")) for row in asked])
        called = self.named(asked, "called in a version that hooks.def lacks")
        self.assertEqual([(row["entry"], row["calls"]) for row in called], [("cuMemAlloc", STEPS)])
        different = self.named(self.answers(sides), "counted differently")
        self.assertIn(("cuMemAlloc_v9", 0, STEPS), [(row["entry"], row["door"], row["reference"]) for row in different])

    def layouts(self, *words, **options):
        door, _, _ = self.count(*words, **options)
        (found,) = compare_doors.layout_answers("p", door)
        self.assertEqual((found["kernels"], found["launches"], found["loading"]), (1, 3 * STEPS, "lazy"))
        return found

    def test_parameters_of_a_function(self):
        found = self.layouts()
        self.assertEqual((found["handle"], found["answered_by"], found["most_bytes"], found["owner"]),
                         ("CUfunction", "cuFuncGetParamInfo", 20, "door_steps"))
        self.assertEqual((found["function_end"], found["kernel_result"], found["loaded_before"]), (1, 400, 0))

    def test_parameters_of_a_kernel_handle(self):
        found = self.layouts("kernel")
        self.assertEqual((found["handle"], found["answered_by"], found["most_bytes"], found["function_result"]),
                         ("CUkernel", "cuKernelGetParamInfo", 20, 400))

    def test_the_error_of_the_call_that_does_not_answer_is_kept(self):
        found = self.layouts(faults="function_params=step_kernel:801")
        self.assertEqual((found["answered_by"], found["function_result"], found["most_bytes"]),
                         ("cuKernelGetParamInfo", 801, 20))
        found = self.layouts(faults="no_params=step_kernel:3")
        self.assertEqual((found["answered_by"], found["function_result"], found["kernel_result"]), ("neither", 3, 3))

    def test_one_call_is_enough_where_asking_both_is_not_wanted(self):
        found = self.layouts(TIDEPOOL_COUNT_ASK="function")
        self.assertEqual((found["answered_by"], found["kernel_result"]), ("cuFuncGetParamInfo", -1))

    def test_errors_reach_the_program_and_stay(self):
        door, driver, _ = self.count("lost", faults="illegal_sync=1")
        (failed,) = [record for record in door.named("calls") if record["entry"] == "cuMemAlloc_v2"]
        self.assertEqual((failed["calls"], failed["failed"], failed["last_error"]), (1, 1, 700))
        self.assertEqual(driver.calls["cuCtxSynchronize"], 2)
        self.count(faults="illegal_kernel=step_kernel", code=1)

    def test_the_driver_keeps_each_call_with_its_thread_and_arguments(self):
        _, driver, _ = self.count()
        calls = driver.named("call")
        sets = [record for record in calls if record["entry"] == "cuMemsetD8_v2"]
        self.assertEqual([record["arguments"].split()[1:3] for record in sets], [["7", "1000"]] * STEPS)
        self.assertEqual(len({record["thread"] for record in sets}), 1)

    def test_threads_are_counted_together(self):
        sides = self.count("threads", steps=200)
        for record in self.answers(sides):
            self.assertTrue(record["agrees"] and record["door_is_true"], record)
        (found,) = compare_doors.layout_answers("p", sides[0])
        self.assertEqual((found["kernels"], found["launches"]), (1, 4 * 200 * 3))
        self.assertEqual(len({record["thread"] for record in sides[1].named("call")}), 5)

    def test_without_a_file_nothing_is_counted_and_nothing_changes(self):
        out = run([str(OPTIONS.build / "tests" / "door_steps"), "1"], self.variables(TIDEPOOL_COUNT_FILE=""))
        self.assertEqual(json.loads(out)["launches"], 3)
        self.assertEqual(self.files("door*"), [])

    def test_a_run_that_is_killed_has_told_what_it_counted(self):
        program = [str(OPTIONS.build / "tests" / "door_steps"), str(STEPS), "later"]
        with subprocess.Popen(program, env=self.variables(), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
            child.stdout.readline()  # its steps are done
            deadline = time.monotonic() + 30
            while not self.files("door.*[0-9]") and time.monotonic() < deadline:
                time.sleep(0.05)
            child.kill()
        door = compare_doors.side(self.files("door.*"))
        self.assertEqual(door.in_class("launches"), 3 * STEPS)
        self.assertEqual([record["final"] for record in door.records if record["kind"] == "end"], [False])
        self.assertFalse(door.is_final())
        whole, driver, truth = self.count()
        for pair in ((door, driver), (whole, door)):
            for record in compare_doors.compare("p", *pair, truth):
                self.assertIsNone(record["agrees"], record)
                self.assertFalse(record["final"])
        self.assertIsNone(compare_doors.compare("p", door, driver, truth)[0]["door_is_true"])
        self.assertEqual(compare_doors.step_answers("p", STEPS, {"door": door, "reference": None},
                                                    {"door": whole, "reference": None}), [])

    def test_without_a_reference_nothing_agrees(self):
        door, _, truth = self.count()
        for record in compare_doors.compare("p", door, None, truth):
            self.assertIsNone(record["agrees"], record)
            self.assertTrue(record["door_is_true"])

    def test_a_forked_child_does_not_tell_what_its_parent_counted(self):
        self.count("forks")
        self.assertEqual([len(self.files(f"{side}.*")) for side in ("door", "driver")], [1, 1])


class Cupti(Doors):
    def variables(self, faults="", **more):
        environment = super().variables(faults, **more)
        environment["LD_LIBRARY_PATH"] += f":{OPTIONS.fake_cupti.parent}"
        return {"TIDEPOOL_CUPTI_LIBRARY": str(OPTIONS.fake_cupti), **environment,
                "CUDA_INJECTION64_PATH": str(OPTIONS.cupti), "TIDEPOOL_CUPTI_FILE": str(self.scratch / "cupti.%p")}

    def test_what_the_driver_calls_itself_is_kept_apart(self):
        sides = self.count(reference="cupti")
        for record in self.answers(sides):
            self.assertTrue(record["agrees"] and record["reference_is_true"], record)
        copies = next(record for record in self.answers(sides) if record["class"] == "copies")
        self.assertEqual(copies["reference_inner"], STEPS)
        inner = {record["entry"]: (record["calls"], record["inner"]) for record in sides[1].named("calls")}
        self.assertEqual(inner["cuMemcpyHtoDAsync_v2"], (0, STEPS))

    def test_a_launch_that_only_it_sees_is_named(self):
        found = self.answers(self.count("novel", reference="cupti"))
        self.assertEqual([row["entry"] for row in self.named(found, "counted differently")], ["cuLaunchNovel"])

    def test_without_it_the_section_is_skipped_with_the_reason(self):
        sides = self.count(reference="cupti", TIDEPOOL_CUPTI_LIBRARY="/nonexistent/libcupti.so")
        found = self.answers(sides)
        self.assertEqual(found[0]["kind"], "skipped")
        self.assertIn("nonexistent", found[0]["why"])
        self.assertIsNone(found[1]["reference"])
        self.assertIsNone(found[1]["agrees"])

    def test_a_forked_child_does_not_tell_what_its_parent_counted(self):
        for record in self.answers(self.count("forks", reference="cupti")):
            self.assertTrue(record["agrees"] and record["final"], record)
        self.assertEqual(len(self.files("cupti.*")), 1)


class Simgpu(Doors):
    def counted(self, program):
        """(what the door counted, what the simulated device says was called)."""
        for path in self.scratch.iterdir():
            path.unlink()
        report = self.scratch / "report.json"
        environment = clean_environment(LD_PRELOAD=str(OPTIONS.build / "lib" / "libtidepool-count.so"),
                                        TIDEPOOL_COUNT_FILE=str(self.scratch / "door.%p"))
        simgpu = [str(OPTIONS.build / "bin" / "simgpu"), "--memory", "1GiB", "--report", str(report), "--"]
        run([*simgpu, *program], environment)
        return compare_doors.side(self.files("door.*")), Counter(json.loads(report.read_text())["calls"])

    def without_twins(self, calls):
        """The report does not tell a twin from its function."""
        found = Counter()
        for entry, count in calls.items():
            found[entry.removesuffix("_ptsz").removesuffix("_ptds")] += count
        return dict(found)

    def check(self, program, at_least):
        door, called = self.counted(program)
        counted = self.without_twins(door.calls)
        self.assertEqual(counted, {entry: called[entry] for entry in counted})
        device = compare_doors.Side([{"name": "calls", "entry": entry, "calls": calls} for entry, calls in called.items()])
        for name in compare_doors.COMPARED:
            self.assertEqual(door.in_class(name), device.in_class(name), name)
        for name in at_least:
            self.assertGreater(door.in_class(name), 0, name)
        return door

    def test_a_training_program(self):
        door = self.check([str(OPTIONS.build / "bin" / "train_mlp"), "--steps", "3"],
                          ("launches", "allocations", "frees", "copies", "memsets"))
        kernels = door.named("kernel")
        self.assertGreater(len(kernels), 3)
        self.assertEqual(sum(record["launches"] for record in kernels), door.in_class("launches"))
        self.assertEqual({record["owner"] for record in kernels}, {"libcudart.so.13"})
        self.assertTrue(all(record["parameters"] > 0 and record["bytes"] > 0 for record in kernels))

    def test_driver_programs(self):
        self.check([str(OPTIONS.build / "tests" / "door_steps"), "4", "still"],
                   ("allocations", "frees", "copies", "memsets"))
        self.check([str(OPTIONS.build / "tests" / "elf_probe"), "1073741824"], ("allocations",))

    def test_lookups_and_forks_are_as_without_it(self):
        for case in ("dlsym", "lookup", "fork_after_start"):
            environment = clean_environment(LD_PRELOAD=str(OPTIONS.build / "lib" / "libtidepool-count.so"),
                                            TIDEPOOL_COUNT_FILE=str(self.scratch / "door.%p"))
            simgpu = [str(OPTIONS.build / "bin" / "simgpu"), "--device", "h100", "--"]
            out = run([*simgpu, str(OPTIONS.build / "tests" / "door_probe"), case], environment)
            self.assertEqual(out, "as expected\n", case)

    def test_a_static_runtime_is_skipped_with_the_reason(self):
        out = run([str(OPTIONS.build / "bin" / "simgpu"), "--", "bash", str(DEVICE / "doors.sh"), str(OPTIONS.build), "--quick"],
                  clean_environment())
        start, *records = map(json.loads, out.splitlines())
        self.assertEqual((start["kind"], start["simulated"]), ("start", True))
        self.assertTrue(start["device"] and start["driver_version"], start)
        (skipped,) = self.named(records, "static_steps")
        self.assertEqual(skipped["kind"], "skipped")
        self.assertIn("cuGetExportTable", skipped["why"])


class Comparer(unittest.TestCase):
    def test_classes_of_entries(self):
        for entry, name in {
            "cuLaunchKernelEx_ptsz": "launches", "cuLaunchNovel_v3": "launches", "cuLaunchHostFunc": "host functions",
            "cuMemAllocAsync_ptsz": "allocations", "cuMemAllocHost_v2": "host memory", "cuMemFree_v2": "frees",
            "cuMemFreeHost": "host memory", "cuMemcpyDtoHAsync_v2_ptsz": "copies", "cuMemsetD2D32_v2_ptds": "memsets",
            "cuGraphLaunch": "graph launches", "cuMemCreate": "own mappings", "cuMemGetInfo_v2": None, "cuInit": None,
        }.items():
            self.assertEqual(compare_doors.class_of(entry), name, entry)

    def test_a_file_that_was_cut_off_still_tells_something(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "door.1"
            path.write_text('{"name": "calls", "entry": "cuMemFree_v2", "calls": 3}\n{"name": "ca')
            Path(folder, "door.1.part").write_text('{"name": "calls", "entry": "cuMemFree_v2", "calls": 4}\n')
            side = compare_doors.side([str(path), f"{path}.part", f"{path}.missing"])
        self.assertEqual(side.in_class("frees"), 3)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("group", choices=("recording", "cupti", "simgpu", "script", "comparer"))
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--cupti", type=Path, help="libtidepool-cupti.so")
    parser.add_argument("--fake-cupti", type=Path)
    parser.parse_args(namespace=OPTIONS)
    if OPTIONS.group == "cupti" and OPTIONS.cupti is None:
        print("libtidepool-cupti.so was not built: the toolkit has no CUPTI headers")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], OPTIONS.group.capitalize()])
