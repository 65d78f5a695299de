"""Every driver function through which memory can be named is intercepted, or is listed with a reason."""

import argparse
import re
import sys
from pathlib import Path

# Device addresses, and structures that hold some. CUdeviceptr_v1 is the 32-bit address of CUDA 3.1 and before:
# nothing that is managed has one.
NAMES_MEMORY = re.compile(
    r"\b(CUdeviceptr|CUDA_MEMCPY(?:2D|3D|3D_PEER|3D_BATCH_OP|_NODE_PARAMS)|CUDA_RESOURCE_DESC|CUDA_LAUNCH_PARAMS"
    r"|CUlaunchConfig|CUstreamBatchMemOpParams|CUmemDecompressParams|CUgraphNodeParams"
    r"|CUDA_(?:KERNEL|MEMSET|BATCH_MEM_OP)_NODE_PARAMS)(?:_v[2-9])?\b"
)
# Functions that name memory by other means: kernel parameters, plain pointers, what a capture records.
BY_NAME = re.compile(r"^cu(Launch|GraphLaunch|Param|TensorMap|Pointer|StreamBeginCapture|GraphCreate|IpcGetMem)")


def without_comments(text):
    return re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.DOTALL)


def renames(text):
    """What cuda.h's macros make of the names in its main part: {plain: exported}."""
    found = {}
    pattern = r"^[ \t]*#define[ \t]+(cu\w+)[ \t]+(?:__CUDA_API_PT[SD][SZ]\()?(cu\w+)\)?[ \t]*$"
    for plain, exported in re.findall(pattern, text, re.MULTILINE):
        found[plain] = exported
    return found


def functions(header):
    """{exported symbol: parameters} of a cuda.h, the driver's older versions at its end included."""
    text = without_comments(header)
    # From here on the macros are undone and names stand for themselves.
    start = re.search(r"^[ \t]*#undef[ \t]+cu\w+", text, re.MULTILINE)
    split = start.start() if start else len(text)
    exported = renames(text[:split])
    found = {}
    for match in re.finditer(r"\bCUresult\s+CUDAAPI\s+(cu\w+)\s*\(([^;]*)\)\s*;", text):
        name = match.group(1)
        if match.start() < split:
            name = exported.get(name, name)
        found[name] = " ".join(match.group(2).split())
    return found


def hooked(table):
    found = set()
    for macro, name in re.findall(r"^TP_HOOK(_\w+)?\((\w+),", table, re.MULTILINE):
        found |= {name, name + macro.lower()}
    return found


def exceptions(text):
    """{name: reason} from lines "name: reason"; lines with # are comments."""
    found = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, _, reason = line.partition(":")
            found[name] = reason.strip()
    return found


def violations(header, table, listed):
    doors = {
        name for name, parameters in functions(header).items() if NAMES_MEMORY.search(parameters) or BY_NAME.match(name)
    }
    # The last version that main part and macros agree on is enough to know that the header was understood.
    found = [] if "cuMemAlloc_v2" in doors else ["cuda.h was not understood: it has no cuMemAlloc_v2"]
    rows, reasons = hooked(table), exceptions(listed)
    for name in sorted(doors - rows - set(reasons)):
        found.append(f"{name} can name memory: it needs a row in hooks.def, or a reason in not_hooked.txt")
    found += [f"{name} is in not_hooked.txt and in hooks.def" for name in sorted(set(reasons) & rows)]
    found += [f"{name} is in not_hooked.txt but is no such function" for name in sorted(set(reasons) - doors)]
    found += [f"{name} has no reason in not_hooked.txt" for name, reason in sorted(reasons.items()) if not reason]
    return found


def self_test():
    header = (
        "#define cuMemAlloc cuMemAlloc_v2\n#define cuNew __CUDA_API_PTSZ(cuNew_v2)\n"
        "/* CUresult CUDAAPI cuNo(CUdeviceptr a); */ CUresult CUDAAPI cuMemAlloc(CUdeviceptr *a, size_t b);\n"
        "CUresult CUDAAPI cuNew(int a,\n CUdeviceptr b);\nCUresult CUDAAPI cuOther(int a);\n"
        "#undef cuMemAlloc\nCUresult CUDAAPI cuNew(CUdeviceptr b);\nCUresult CUDAAPI cuMemAlloc(CUdeviceptr_v1 *a);\n"
    )
    table = "TP_HOOK(cuMemAlloc_v2, kManage)\nTP_HOOK_PTSZ(cuNew, kGate)\n"
    assert violations(header, table, "cuNew_v2: because") == []
    assert violations(header, table, "")[0].startswith("cuNew_v2 can name memory")
    assert violations(header, table, "cuNew_v2:")[0].startswith("cuNew_v2 has no reason")
    assert violations(header, table, "cuNew_v2: x\ncuOther: x")[0].startswith("cuOther is in not_hooked.txt but")
    assert violations(header, table, "cuNew_v2: x\ncuNew: x")[0].startswith("cuNew is in not_hooked.txt and")
    assert violations("", table, "")[0].startswith("cuda.h was not understood")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--header", type=Path, required=True, help="cuda.h")
    parser.add_argument("--hooks", type=Path, required=True, help="shim/hooks.def")
    parser.add_argument("--listed", type=Path, required=True, help="not_hooked.txt")
    arguments = parser.parse_args()
    self_test()
    findings = violations(
        arguments.header.read_text(encoding="utf-8", errors="replace"),
        arguments.hooks.read_text(encoding="utf-8"),
        arguments.listed.read_text(encoding="utf-8"),
    )
    print("\n".join(findings))
    sys.exit(1 if findings else 0)
