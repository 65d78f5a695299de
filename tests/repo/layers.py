"""Folders and arrows: which part of the project may use which. docs/explanation/architecture.md draws it."""

ALL = "*"

# folder: (folders it may include from and link to, libraries from outside it may link)
SYSTEM = {"Threads::Threads", "pthread", "dl", "rt", "m"}
LAYERS = {
    "allocator/support": (set(), SYSTEM),
    "planner/plan": ({"allocator/support"}, SYSTEM),
    "planner": ({"planner/plan", "allocator/support"}, SYSTEM | {"lemon", "emon", "Cbc", "CbcSolver"}),
    "ssd_backend/store": ({"allocator/support"}, SYSTEM | {"uring"}),
    "ssd_backend/model": ({"allocator/support"}, SYSTEM),
    "allocator": ({"planner/plan", "ssd_backend/store", "allocator/support"}, SYSTEM),
    "allocator/cuda": ({"allocator", "allocator/support"}, SYSTEM),
    "shim": (
        {"allocator", "allocator/cuda", "planner/plan", "ssd_backend/store", "allocator/support"},
        SYSTEM,
    ),
    "tools/tidepool": (
        {"planner", "planner/plan", "ssd_backend/model", "allocator/support"},
        SYSTEM | {"CLI11::CLI11", "tomlplusplus::tomlplusplus", "nlohmann_json::nlohmann_json"},
    ),
    "tools/probe": (
        {"allocator", "allocator/cuda", "allocator/support", "tools/simgpu/include"},
        SYSTEM | {ALL},
    ),
    # Counts calls at the shim's own door: compiled from its sources, linked to nothing of it.
    "tools/probe/doors": ({"shim", "allocator/cuda", "allocator", "allocator/support"}, SYSTEM),
    "tools/workloads": ({"tools/simgpu/include", "allocator/support"}, SYSTEM | {ALL}),
    # Of the shim it reads the table of hooks; nothing is linked.
    "tools/gen": ({"tools/tidepool", "shim", "allocator/support"}, SYSTEM),
    "tools/broker": ({"allocator/support"}, SYSTEM),
    "tools/simgpu": (
        {"tools/simgpu/fatbin", "tools/simgpu/include", "allocator/support"},
        SYSTEM | {"tomlplusplus::tomlplusplus"},
    ),
    "tools/simgpu/fatbin": (set(), SYSTEM | {"zstd::static", "lz4::static"}),
    "tools/simgpu/include": (set(), SYSTEM),
    "tests/oracles": (set(), SYSTEM),
    "tests": ({ALL}, {ALL}),
}

# Targets that are the public face of a folder below the one that declares them.
PUBLIC_TARGETS = {"simgpu_kernel": "tools/simgpu/include"}

# Folders whose files may include CUDA headers, and whose targets may link tp_cuda_headers.
CUDA_FOLDERS = ("shim", "allocator/cuda", "tools/simgpu", "tools/workloads", "tools/probe", "tests")

# Names that may stand in the top folder.
TOP_LEVEL = {
    ".ci", ".clang-format", ".clang-tidy", ".editorconfig", ".gitignore", ".git", ".github", ".cache", "build",
    "CHANGELOG.md", "CMakeLists.txt", "CMakePresets.json", "CONTRIBUTING.md", "LICENSE", "README.md",
    "allocator", "docs", "planner", "shim", "ssd_backend", "tests", "tools",
}


def layer_of(path):
    """The folder of LAYERS that holds this file or folder, the deepest one; None outside all of them."""
    text = path.as_posix() + "/"
    best = None
    for folder in LAYERS:
        if text.startswith(folder + "/") and (best is None or len(folder) > len(best)):
            best = folder
    return best


def may_use(user, used):
    """True where files of folder `user` may use files of folder `used`."""
    return user == used or ALL in LAYERS[user][0] or used in LAYERS[user][0]


def may_use_cuda(path):
    """True where this file or folder may see CUDA headers."""
    text = path.as_posix() + "/"
    return any(text.startswith(folder + "/") for folder in CUDA_FOLDERS)
