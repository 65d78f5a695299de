"""Prints a section's "start" record, which says whose driver the figures are of, for sections that are no program of
ours: start_record.py SECTION [KEY VALUE]...

The driver is asked in a process of its own, which may crash or hang. No memory of the device is taken.
"""

import ctypes
import json
import subprocess
import sys
import time

ASK_SECONDS = 20


def ask():
    """What the system's libcuda.so.1 says of itself."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        return {"device": None, "why": str(error)}
    found = {"device": None, "simulated": hasattr(driver, "simgpuLibrarySetBody")}
    version = ctypes.c_int(0)
    if driver.cuDriverGetVersion(ctypes.byref(version)) == 0:
        found["driver_version"] = version.value
    device = ctypes.c_int(0)
    name = ctypes.create_string_buffer(256)
    for call, arguments in (("cuInit", (0,)), ("cuDeviceGet", (ctypes.byref(device), 0)),
                            ("cuDeviceGetName", (name, len(name), device))):
        result = getattr(driver, call)(*arguments)
        if result != 0:
            return {**found, "why": f"{call} failed with {result}"}
    return {**found, "device": name.value.decode(errors="replace")}


def ask_apart():
    """The same, whatever becomes of the process that asks."""
    try:
        asked = subprocess.run([sys.executable, "-B", __file__], capture_output=True, text=True, check=False,
                               timeout=ASK_SECONDS)
    except subprocess.TimeoutExpired:
        return {"device": None, "why": f"the driver did not answer within {ASK_SECONDS} s"}
    try:
        return json.loads(asked.stdout)
    except ValueError:
        said = asked.stderr.strip().splitlines()[-1:]
        return {"device": None, "why": " ".join([f"asking ended with {asked.returncode}", *said])}


def main(words):
    if not words:
        print(json.dumps(ask()))
        return
    section, *rest = words
    print(json.dumps({"schema": "tidepool.probe/1", "section": section, "kind": "start", "name": section, **ask_apart(),
                      "unix_seconds": int(time.time()), **dict(zip(rest[::2], rest[1::2]))}))


if __name__ == "__main__":
    main(sys.argv[1:])
