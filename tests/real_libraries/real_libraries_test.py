"""The vendor's own libraries under libtidepool.so, as far as they go without a device.

Over a driver that records its calls and over the simulated one, which knows versions: whatever a library asks the driver
for comes back right. Hooked names come back as our entry of the driver's very symbol, all others as the driver's pointer,
results and symbolStatus as the driver's. The library then does what it did without us.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

# What each is asked to do: the first thing that makes it look for the driver's functions. How many names it asks for
# at least: a little less than those of toolkit 13.0 do.
LIBRARIES = {
    "libcudart.so.13": (["cudaGetDeviceCount", "cudaFree"], 340),
    "libcublas.so.13": (["cublasCreate_v2"], 340),
    "libcublasLt.so.13": (["cublasLtCreate"], 340),
    "libcudnn.so.9": (["cudnnCreate"], 340),
    "libnccl.so.2": (["ncclGetUniqueId", "ncclCommInitAll"], 340),
    "libcurand.so.10": (["curandCreateGenerator"], 340),
    "libcusolver.so.12": (["cusolverDnCreate"], 340),
    "libcusparse.so.12": (["cusparseCreate"], 340),
    "libcufft.so.12": (["cufftCreate"], 20),
}
# Names that every program with a CUDA runtime asks for.
CERTAIN = {"cuMemAlloc", "cuMemFree", "cuMemAllocAsync", "cuLaunchKernel", "cuLaunchKernelEx", "cuMemcpyHtoDAsync",
           "cuStreamBeginCapture", "cuGetExportTable", "cuGetProcAddress", "cuInit"}
LINE = re.compile(r"(\w+) (\S+) (\d+) (\d+) (-?\d+) (-?\d+) (\S+) (\S+) ([01]) \| (-?\d+) (-?\d+) (\S+)")


def hooked(table):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "abi"))
    import elf  # noqa: PLC0415

    return elf.hook_names(table)


def run(words, driver, libraries, preload, log=""):
    environment = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "LD_PRELOAD": ":".join(map(str, preload)),
                   "LD_LIBRARY_PATH": f"{driver}:{libraries}", "TP_LOOKUP_FILE": str(log)}
    done = subprocess.run([str(word) for word in words], env=environment, capture_output=True, text=True, timeout=50, check=False)
    return done.returncode, done.stdout, done.stderr


def wrong(line, names):
    """Why a lookup did not come back right; empty if it did."""
    match = LINE.fullmatch(line)
    if match is None:
        return "not understood"
    _, name, _, _, result, status, module, symbol, same, own_result, own_status, own_symbol = match.groups()
    if (result, status) != (own_result, own_status):
        return f"answered {result}, status {status}; the driver answers {own_result}, {own_status}"
    if own_symbol in names:
        # The very version and twin that the driver chose.
        if not module.startswith("libtidepool") or symbol != own_symbol:
            return f"{own_symbol} is hooked, but {symbol} in {module} came back"
        return ""
    if same != "1":
        return f"is not hooked, but {symbol} in {module} came back for {own_symbol}"
    if name == "cuGetExportTable" and not module.startswith("libcuda.so"):
        return f"cuGetExportTable lies in {module}"
    return ""


def check(options, words, least, certain):
    names = hooked(options.hooks)
    found = []
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "lookups"
        # The driver alone: a runtime of the same name may lie beside it.
        driver = Path(folder) / "driver"
        driver.mkdir()
        (driver / "libcuda.so.1").symlink_to(options.driver / "libcuda.so.1")
        plain = run(words, driver, options.libraries, [])
        under = run(words, driver, options.libraries, [options.lookup_log, options.library], log)
        lines = log.read_text().splitlines() if log.exists() else []
    if plain != under:
        found.append(f"without Tidepool: {plain}\nunder it: {under}")
    asked = {match.group(2) for match in map(LINE.match, lines) if match}
    if len(asked) < least:
        found.append(f"{len(asked)} names were asked for, want {least} at least")
    found += [f"{name} was not asked for" for name in sorted(certain - asked)]
    found += [f"{line}: {why}" for line in lines if (why := wrong(line, names))]
    returned = sum("libtidepool" in line for line in lines)
    if returned < min(least, 50) // 5:
        found.append(f"only {returned} of {len(lines)} answers were ours")
    print(f"{options.what}: {len(lines)} lookups of {len(asked)} names, {returned} answered by us")
    print("\n".join(found))
    return 1 if found else 0


def self_test():
    names = {"cuMemAlloc_v2"}
    right = "asked cuMemAlloc 2000 0 0 0 libtidepool.so cuMemAlloc_v2 0 | 0 0 cuMemAlloc_v2"
    assert wrong(right, names) == ""
    assert "hooked" in wrong(right.replace("libtidepool.so cuMemAlloc_v2 0", "libcuda.so.1 cuMemAlloc_v2 1"), names)
    assert "hooked" in wrong(right.replace("so cuMemAlloc_v2 0", "so cuMemFree_v2 0"), names)
    assert "status" in wrong(right.replace(" 0 0 libt", " 0 2 libt"), names)
    other = "asked cuInit 2000 0 0 0 libcuda.so.1 cuInit 1 | 0 0 cuInit"
    assert wrong(other, names) == ""
    assert "not hooked" in wrong(other.replace("cuInit 1", "cuInit 0"), names)
    assert wrong("asked cuGetExportTable 2000 0 0 0 libx.so - 1 | 0 0 -", names) != ""
    assert wrong("what", names) != ""


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", help=f"one of {', '.join(LIBRARIES)}, or the path of a program")
    parser.add_argument("--driver", type=Path, required=True, help="folder of a libcuda.so.1")
    parser.add_argument("--libraries", type=Path, required=True, help="folder of the vendor's libraries")
    parser.add_argument("--library", type=Path, required=True, help="libtidepool.so")
    parser.add_argument("--hooks", type=Path, required=True, help="shim/hooks.def")
    parser.add_argument("--lookup-log", type=Path, required=True)
    parser.add_argument("--probe", type=Path, required=True, help="library_probe")
    arguments = parser.parse_args()
    self_test()
    if arguments.what in LIBRARIES:
        if not (arguments.libraries / arguments.what).exists():
            print(f"{arguments.what} is not in {arguments.libraries}")
            sys.exit(77)
        functions, least = LIBRARIES[arguments.what]
        certain = CERTAIN if least >= 340 else set()
        sys.exit(check(arguments, [arguments.probe, arguments.what, *functions], least, certain))
    sys.exit(check(arguments, [arguments.what, "1"], 340, CERTAIN))
