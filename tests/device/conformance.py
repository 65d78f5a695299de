"""Runs the suites that say what we believe of CUDA against the driver that the system finds; JSON lines on stdout.

    python3 tests/device/conformance.py BUILD

Each case runs in a process of its own: one that breaks its context costs nothing else.
"""

import json
import subprocess
import sys
import time
from pathlib import Path

from start_record import ask_apart

SUITES = ("device_contract_driver_test",)  # programs of BUILD/tests that use no driver but the system's
CASE_SECONDS = 20


def say(kind, **fields):
    print(json.dumps({"section": "conformance", "kind": kind, **fields}), flush=True)


def cases_of(program):
    """Names of a Catch2 program's cases; its exit code is their number."""
    listed = subprocess.run([program, "--list-test-names-only"], capture_output=True, text=True, check=False)
    return [line for line in listed.stdout.splitlines() if line.strip()]


def run_case(program, case):
    """Returns ("passed" or what else, the last lines of what it said)."""
    # Catch2 takes commas and brackets in a name for its own unless they are escaped.
    wanted = case.replace("\\", "\\\\").replace(",", "\\,").replace("[", "\\[")
    try:
        done = subprocess.run([program, wanted], capture_output=True, text=True, check=False, timeout=CASE_SECONDS)
    except subprocess.TimeoutExpired:
        return f"still running after {CASE_SECONDS} s", ""
    said = (done.stdout + done.stderr).strip()
    if done.returncode == 0 and "All tests passed" in said:
        return "passed", ""
    return f"failed (exit {done.returncode})", " / ".join(said.splitlines()[-12:])[-800:]


def main():
    if len(sys.argv) != 2:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    started = time.monotonic()
    driver = ask_apart()
    say("start", unix_seconds=int(time.time()), **driver)
    if driver["device"] is None:
        say("skipped", why=driver.get("why", "there is no device"))
        say("end", seconds=0)
        return 0
    passed = 0
    count = 0
    for suite in SUITES:
        program = str(Path(sys.argv[1]).resolve() / "tests" / suite)
        if not Path(program).exists():
            say("skipped", name=suite, why="it is not built")
            continue
        for case in cases_of(program):
            verdict, detail = run_case(program, case)
            count += 1
            passed += verdict == "passed"
            if verdict != "passed":
                say("answer", name=case, params={"suite": suite}, value=verdict, detail=detail)
    say("answer", name="cases passed", value=f"{passed} of {count}")
    say("end", seconds=round(time.monotonic() - started, 1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
