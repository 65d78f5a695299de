"""tidepool-probe on the simulated device: what it writes is well formed, and says what is known to be true there."""

import argparse
import json
import os
import signal
import subprocess
import tempfile
from pathlib import Path

from probe_output import Output, Runner, check_record


def check_vmm(runner):
    out = runner.run("vmm")
    assert out.skipped() == set(), out.skipped()
    for handle in (2 << 20, 8 << 20, 32 << 20, 128 << 20):
        for load in ("idle", "gemm"):
            for call in ("create", "map", "set_access", "unmap", "release"):
                (result,) = out.results(call, handle_bytes=handle, load=load)
                assert result["unit"] == "ns"
        out.results("unmap_alone", handle_bytes=handle, load="gemm")
    windows = {("none", 0)} | {
        (calls, handle)
        for calls in ("create, release", "map, set_access, unmap", "unmap")
        for handle in (2 << 20, 8 << 20, 32 << 20, 128 << 20)
    }
    for calls, handle in windows:
        (period,) = out.results("gemm_period", calls=calls, handle_bytes=handle)
        answers = {
            name: r["value"]
            for name in ("gemm_period_p99", "gemm_excess_over_median")
            for r in out.of("answer", name)
            if (r["params"]["calls"], r["params"]["handle_bytes"]) == (calls, handle)
        }
        assert period["p90"] <= answers["gemm_period_p99"] <= period["max"], (period, answers)
        assert answers["gemm_excess_over_median"] >= period["max"] - period["p50"] - 1, (period, answers)
    assert len(out.of("result", "gemm_period")) == len(windows)
    for calls in ("one", "one for each"):
        out.results("set_access_many", calls=calls)
        out.results("unmap_many", calls=calls)
    assert out.value("unmap_over_several_mappings") is True
    assert out.value("map_smaller_than_handle") is False
    assert out.value("map_from_inside_handle") is False
    assert out.value("set_access_over_unmapped_gap") is True
    assert out.value("granularity_minimum") == 2 << 20


def check_aliasing(runner):
    for seed in (1, 2, 3):
        out = runner.run("aliasing", seed=seed)
        assert out.skipped() == set(), out.skipped()
        assert out.value("mappings_made") == 48
        assert out.value("wrong_words_over_all_mappings") == 0
        finds = {r["params"]["checker"]: (r["value"], r["params"]["handle_bytes"]) for r in out.of("answer", "checker_finds")}
        assert finds == {checker: ((2 << 20) // 8, 2 << 20) for checker in ("kernel", "host")}, finds
        for chain in ("programmatic_chain", "plain_chain"):
            out.results(chain, launches=4)
        assert out.value("wrong_words_in_chains") == 0
        wrong = out.of("answer", "wrong_words")
        assert all(r["params"]["rounds"] == 2 for r in wrong), wrong
        assert all(r["value"] == 0 for r in wrong), wrong
        cases = {
            tuple(r["params"][k] for k in ("write", "read", "stream", "programmatic", "alias")) for r in wrong
        }
        plain = {
            (write, read, stream, False, alias)
            for write in ("kernel", "copy")
            for read in ("kernel", "copy")
            for stream in ("same", "other")
            for alias in (True, False)
        }
        programmatic = {
            (write, read, stream, True, alias)
            for write, read, stream, _, alias in plain
            if "kernel" in (write, read)
        }
        assert cases == plain | programmatic, cases
        for mappings, handles in ((1, 1), (48, 6)):
            out.results("read_many_mappings", mappings=mappings, handles=handles, bytes=96 << 20)
        for mapping in ("only", "first of two", "second of two, shuffled"):
            out.results("read_kernel", mapping=mapping)
            out.results("write_kernel", mapping=mapping)


def check_scrubbing(out):
    # The simulated device puts noise into new memory.
    assert out.values("share_of_words_still_marked") == [0, 0, 0]
    assert all(share > 0.99 for share in out.values("share_of_words_not_zero"))


def check_sharing(runner):
    for seed in (1, 2, 3, 4):
        check_imports(runner.run("sharing", seed=seed))


def check_sharing_less(runner):
    """Behind a driver that cannot export, and one that never gives imported memory back."""
    preload = {"LD_PRELOAD": runner.preload}
    out = runner.run("sharing", environment=preload | {"TP_TEST_NO_EXPORT": "1"})
    check_scrubbing(out)
    assert out.skipped() == {("import", "the driver has no cuMemExportToShareableHandle")}, out.skipped()
    kept = runner.run("sharing", environment=preload | {"TP_TEST_KEEP_IMPORTS": "1"})
    assert kept.value("memory_returns_at") == "neither"
    assert kept.value("free_bytes_gained_after_release") == 0
    assert not kept.of("result", "free_bytes_settled_after_release")


def check_imports(out):
    check_scrubbing(out)
    assert out.skipped() == set(), out.skipped()
    for handle in (2 << 20, 8 << 20):
        for call in ("import", "map_imported", "set_access_imported"):
            out.results(call, handle_bytes=handle)
    assert out.value("checker_finds") == (10 << 20) // 8
    assert out.value("wrong_words_while_exporter_lives") == 0
    assert out.value("wrong_words_after_exporter_was_killed") == 0
    assert out.value("free_bytes_gained_after_kill") == 0
    assert out.value("free_bytes_gained_after_release") == out.value("shared_bytes") == 10 << 20
    assert out.value("exporter_end") == "ended by signal 9"
    assert out.value("exporter_overhead_bytes") == 0
    assert not out.of("result", "free_bytes_settled_after_kill")  # nothing changed
    out.results("free_bytes_settled_after_release")
    assert out.value("memory_returns_at") == "release by importer"


def check_preloaded(runner):
    """It says whether the hooks are in front and at work, and works with them."""
    budget = {"TIDEPOOL_DEVICE_BUDGET": str(256 << 20)}
    preload = {"LD_PRELOAD": runner.preload}
    for environment, hooks in (
        ({}, "none"),
        (budget, "none"),
        (budget | preload, "active"),
        (preload, "unclear"),
        (budget | preload | {"TIDEPOOL_DISABLE": "1"}, "passthrough"),
        (budget | preload | {"TIDEPOOL_STRICT": "1", "TIDEPOOL_MIN_BLOCK": "none"}, "passthrough"),
    ):
        out = runner.run("launch", environment=environment)
        assert out.records[0]["preloaded"] is ("LD_PRELOAD" in environment)
        assert out.records[0]["simulated"] is True
        assert out.value("hooks") == hooks, (environment, out.value("hooks"))
        for name in ("launch", "launch_and_synchronize", "event_record", "event_query", "event_elapsed"):
            assert all(r["params"]["hooks"] == hooks for r in out.results(name)), name
        out.results("launch", pointers=8)


def check_rates(runner):
    out = runner.run("rates")
    assert out.skipped() == {("copy", "pieces of more than 2 MiB take too long for --quick")}, out.skipped()
    assert out.values("hash_is_as_defined") == [True] * 5
    for direction in ("to device", "to host", "both"):
        for piece in (256 << 10, 1 << 20, 2 << 20):
            (result,) = out.results("copy", direction=direction, piece_bytes=piece)
            assert result["unit"] == "B/s"
    for name in ("device_read", "device_copy", "device_hash"):
        out.results(name)
    for touched in (True, False):
        out.results("register", touched_before=touched)


# The simulated device may run work at once, so that no query finds it under way.
NO_QUERY_PENDING = ("event_query", "no query came before the work had ended")


def check_launch(runner):
    out = runner.run("launch")
    assert out.skipped() <= {NO_QUERY_PENDING}, out.skipped()
    for name in ("clock", "event_record", "event_query", "event_elapsed", "launch_and_synchronize"):
        out.results(name)
    for pointers in (0, 8):
        out.results("launch", pointers=pointers)


def check_faults(runner):
    out = runner.run("faults")
    assert out.skipped() == set(), out.skipped()
    check_fault_cases(out)


def check_fault_cases(out):
    cases = [f"{place}_{access}" for place in ("unmapped", "past_mapping", "after_unmap") for access in ("read", "write")]
    order = ["unmapped_write", "created_context_write", "after_unmap_read", "unmapped_read", "past_mapping_write",
             "past_mapping_read", "after_unmap_write"]
    assert sorted(order) == sorted([*cases, "created_context_write"])
    assert [r["name"] for r in out.records if r.get("name", "").endswith("_error")] == [f"{case}_error" for case in order]
    for case in order:
        names = [r["name"] for r in out.records if r.get("name", "").startswith(case)]
        assert names.index(f"{case}_recovery_begins") + 1 == names.index(f"{case}_lost_context_can_be_ended"), names
        (sticky,) = out.of("answer", f"{case}_sticky")
        assert "; cuMemGetInfo: " in sticky["detail"], sticky
        assert out.value(f"{case}_error") == "CUDA_ERROR_ILLEGAL_ADDRESS"
        # As an H200 answered (docs/reference/hardware): the device is lost to the process, and to no other.
        for true in ("sticky", "process_survives", "other_process_works", "thread_can_switch_context",
                     "lost_context_can_be_ended"):
            assert out.value(f"{case}_{true}") is True, (case, true)
        for false in ("other_context_works", "works_again_in_a_new_context", "other_context_works_after_recovery"):
            assert out.value(f"{case}_{false}") is False, (case, false)


def check_planted_fault(runner):
    """What a driver answers that loses the whole process by one kernel, and computes nothing."""
    environment = {"LD_LIBRARY_PATH": runner.driver, "TP_RECORDING_FAULTS": "illegal_kernel=tidepool_probe_read_one"}
    out = runner.run_bare("faults", environment)
    for case in ("unmapped_read", "past_mapping_read", "after_unmap_read"):
        assert out.value(f"{case}_error") == "CUDA_ERROR_ILLEGAL_ADDRESS"
        assert out.value(f"{case}_sticky") is True
        for false in ("other_context_works", "thread_can_switch_context", "lost_context_can_be_ended",
                      "works_again_in_a_new_context"):
            assert out.value(f"{case}_{false}") is False, (case, false)
        assert out.value(f"{case}_process_survives") is True
    for case in ("unmapped_write", "past_mapping_write", "after_unmap_write", "created_context_write"):
        assert out.value(f"{case}_error") == "CUDA_SUCCESS"  # nothing was planted there
    assert out.records[0]["simulated"] is False


def check_small_device(runner):
    """What does not fit is skipped with its size as the reason, and everything else is done."""
    def too_large(*names_and_bytes):
        return {(name, f"{size} bytes are more than a quarter of the device") for name, size in names_and_bytes}

    large = [size << 20 for size in (8, 32, 128)]
    expected = {
        "vmm": too_large(*[(part, size) for part in ("calls_idle", "calls_beside_gemm") for size in large],
                         ("many_at_once", 8 << 20)),
        "aliasing": too_large(("many_mappings", 12 << 20), ("speed_of_kernels", 8 << 20)),
        "sharing": {("import", "the handles are more than a quarter of the device")},
        "rates": {("hash", "four buffers of 2 MiB are more than a quarter of the device"),
                  ("copy", "pieces of more than 2 MiB take too long for --quick")},
        "launch": set(),
        "faults": set(),
    }
    held = ("bytes", "handle_bytes", "piece_bytes", "total_bytes")
    for section, skipped in expected.items():
        out = runner.run(section, memory="16MiB")
        assert out.skipped() - {NO_QUERY_PENDING} == skipped, (section, out.skipped())
        measured = [r for r in out.records if r["kind"] in ("result", "answer")]
        assert measured, section
        for record in measured:
            sizes = [size for key, size in record.get("params", {}).items() if key in held]
            assert all(size <= 4 << 20 for size in sizes), record
    check_fault_cases(out)


def check_no_driver(runner):
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "libcuda.so.1").write_text("no library")
        environment = dict(os.environ, LD_LIBRARY_PATH=folder)
        for section in ("vmm", "faults"):
            done = subprocess.run(
                [runner.probe, section], capture_output=True, text=True, timeout=60, check=False, env=environment
            )
            assert done.returncode == 0, done
            out = Output(section, done.stdout)
            ((name, why),) = out.skipped()
            assert name == "all" and "libcuda.so.1" in why, why
    done = subprocess.run(runner.words("vmm", "--device", "7"), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done
    assert Output("vmm", done.stdout).skipped() == {("all", "there is no device 7; the driver sees 1")}, done.stdout


def check_cut_off(runner):
    """What was measured is out at once."""
    words = runner.words("vmm", "--seconds", "60")
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, start_new_session=True)
    lines = [process.stdout.readline() for _ in range(6)]
    assert process.poll() is None, "the section was over before it was cut off"
    os.killpg(process.pid, signal.SIGKILL)
    rest = process.stdout.read()
    process.wait(timeout=60)
    for number, line in enumerate(lines):
        check_record("vmm", json.loads(line), number == 0)
    assert '"kind":"end"' not in rest


def check_words(runner):
    def refused(words, line):
        done = subprocess.run([runner.probe, *words], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 125, done
        assert done.stdout == "", done
        assert done.stderr == f"tidepool-probe: error: {line}\n", done.stderr

    refused([], "a section is missing; see tidepool-probe --list")
    refused(["alising"], "unknown section 'alising' (did you mean 'aliasing'?)")
    refused(["weather"], "unknown section 'weather'; see tidepool-probe --list")
    refused(["vmm", "--quik"], "unknown option --quik (did you mean '--quick'?)")
    refused(["vmm", "--device"], "option --device needs a value")
    refused(["vmm", "--device", "-1"], "--device -1: want a number from 0 to 1023")
    refused(["vmm", "--seconds", "nan"], "--seconds nan: want seconds from 0.1 to 3600")
    refused(["vmm", "rates"], "one section at a time: 'vmm' or 'rates'")
    bench = [runner.probe, "link", "--table", "--seconds", "x"]  # as `tidepool bench link` calls it
    done = subprocess.run(bench, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (125, ""), done
    assert done.stderr == "tidepool: bench: --seconds x: want seconds from 0.1 to 3600\n", done.stderr
    for word in ("--help", "--list"):
        done = subprocess.run([runner.probe, word], capture_output=True, text=True, timeout=60, check=True)
        assert all(section in done.stdout for section in ("vmm", "aliasing", "sharing", "rates", "launch", "faults")), done


CHECKS = {
    "vmm": check_vmm,
    "aliasing": check_aliasing,
    "sharing": check_sharing,
    "sharing_less": check_sharing_less,
    "preloaded": check_preloaded,
    "rates": check_rates,
    "launch": check_launch,
    "faults": check_faults,
    "planted_fault": check_planted_fault,
    "small_device": check_small_device,
    "no_driver": check_no_driver,
    "cut_off": check_cut_off,
    "words": check_words,
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--simgpu", required=True, help="the command")
    parser.add_argument("--probe", required=True, help="the program")
    parser.add_argument("--preload", default="", help="the library to preload")
    parser.add_argument("--driver", default="", help="folder of a stand-in driver")
    parser.add_argument("check", choices=CHECKS)
    arguments = parser.parse_args()
    CHECKS[arguments.check](Runner(arguments.simgpu, arguments.probe, arguments.preload, arguments.driver))
