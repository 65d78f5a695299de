"""Includes follow the arrows; CUDA and third-party headers stay where they belong; the top folder is tidy."""

import os
import re
from pathlib import Path

import layers
import project

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
CUDA_HEADER = re.compile(
    r"^(cuda|cuda_.*|cuda[A-Z]\w*|cudart_\w+|driver_types|driver_functions|vector_types|vector_functions|"
    r"device_launch_parameters|nvml|cublas\w*|cudnn\w*|nvrtc|nvtx3/.*|cooperative_groups.*|library_types|"
    r"texture_types|surface_types|host_defines|channel_descriptor|builtin_types|math_constants|fatbinary\w*|"
    r"crt/.*)(\.h|\.hpp)$"
)
# Their types and macros must not reach whoever includes one of our headers.
HIDDEN_LIBRARIES = ("spdlog/", "fmt/", "CLI/", "nlohmann/", "toml++/", "boost/", "lemon/", "liburing")
# Public include folders, besides the top folder.
INCLUDE_ROOTS = ("", "tools/simgpu/include")


def resolve(root, name):
    """The project file an include names, or None."""
    for base in INCLUDE_ROOTS:
        candidate = Path(base) / name
        if (Path(root) / candidate).is_file():
            return candidate
    return None


def check_file(root, path, text):
    user = layers.layer_of(path)
    if user is None:
        return [f"{path}: lies in no folder of the table in tests/repo/layers.py"]
    found = []
    for match in INCLUDE.finditer(text):
        line = text.count("\n", 0, match.start(2)) + 1
        where, quoted, name = f"{path}:{line}", match.group(1) == '"', match.group(2)
        if CUDA_HEADER.match(name):
            if not layers.may_use_cuda(path):
                found.append(f"{where}: CUDA header {name} outside {', '.join(layers.CUDA_FOLDERS)}")
        elif quoted:
            target = resolve(root, name)
            if target is None:
                found.append(f'{where}: "{name}" is not a path from the top folder')
            elif not layers.may_use(user, layers.layer_of(target) or ""):
                found.append(f"{where}: {user} may not include from {layers.layer_of(target)}")
        elif resolve(root, name) is not None:
            found.append(f"{where}: own header {name} is included with <>")
        hidden = name.startswith(HIDDEN_LIBRARIES) or name == "toml.hpp"
        if hidden and path.suffix == ".h" and not path.as_posix().startswith(("tools/", "tests/")):
            found.append(f"{where}: {name} in a header; include it in the .cpp")
    return found


def violations(root):
    found = []
    for name in sorted(os.listdir(root)):
        if name not in layers.TOP_LEVEL:
            found.append(f"{name}: not one of the names that may stand in the top folder")
    for folder in ("allocator", "planner", "shim", "ssd_backend", "tools", "tests"):
        for path in project.files(root, project.CXX | {".def", ".inc"}, folder):
            found += check_file(root, path, project.read_text(root, path) or "")
    return found


if __name__ == "__main__":
    project.run_check(violations, __doc__)
