"""Operations of published traces: what a program asked its device to do, in order.

Each is a tuple: ("launch", kernel, grid), ("alloc", bytes), ("free", bytes), ("copy", direction, bytes).
"""

import gzip
import json
import pickle

LAUNCHES = ("cudaLaunchKernel", "cudaLaunchKernelExC", "cuLaunchKernel", "cuLaunchKernelEx", "hipLaunchKernel")


def load_json(path):
    with gzip.open(path, "rt") as file:
        return json.load(file)


def device_work(events):
    """By correlation id: what a runtime call put on the device."""
    work = {}
    for event in events:
        category = event.get("cat", "").lower()
        arguments = event.get("args", {})
        correlation = arguments.get("correlation")
        if correlation is None or "ts" not in event:
            continue
        if category == "kernel":
            work[correlation] = ("launch", event["name"], json.dumps([arguments.get("grid"), arguments.get("block")]))
        elif category in ("memcpy", "gpu_memcpy"):
            work[correlation] = ("copy", event["name"].split(" (")[0], arguments.get("bytes", 0))
        elif category in ("memset", "gpu_memset"):
            work[correlation] = ("copy", "Memset", arguments.get("bytes", 0))
    return work


def of_kineto(path):
    """Launches, copies, allocations and frees of a PyTorch profiler trace, in the order of the host's calls."""
    events = load_json(path)["traceEvents"]
    work = device_work(events)
    calls = []
    for index, event in enumerate(events):
        arguments = event.get("args", {})
        if event.get("cat", "").lower() in ("runtime", "cuda_runtime", "cuda_driver"):
            done = work.get(arguments.get("correlation"))
            if done is not None:
                calls.append((float(event["ts"]), index, done))
        elif event.get("name") == "[memory]" and arguments.get("Device Type") == 1:
            size = arguments["Bytes"]
            calls.append((float(event["ts"]), index, ("alloc", size) if size > 0 else ("free", -size)))
    calls.sort()
    return [call for _, _, call in calls]


def of_dtr(path):
    """One forward and backward pass of a DTR log, with exact lifetimes."""
    operations = []
    storage_of, references, sizes = {}, {}, {}
    last_call = None
    started = False

    def drop(tensor):
        storage = storage_of.pop(tensor, None)
        if storage is None:
            return
        references[storage] -= 1
        if references[storage] == 0 and started:
            operations.append(("free", sizes.get(storage, 0)))

    def share(tensor, storage):
        storage_of[tensor] = storage
        references[storage] = references.get(storage, 0) + 1

    with gzip.open(path, "rt") as file:
        for line in file:
            entry = json.loads(line)
            what = entry["INSTRUCTION"]
            if what == "ANNOTATE" and entry["ANNOTATION"] == "START":
                started = True
            elif what == "CALL":
                last_call = entry
                if started:
                    operations.append(("launch", entry["NAME"], ""))
            elif what == "MEMORY":
                sizes[entry["NAME"]] = int(entry["MEMORY"])
            elif what == "ALIAS":
                alias = int(entry["ALIAS"])
                name = entry["NAME"]
                if alias >= 0:
                    share(name, storage_of.get(last_call["ARGS"][alias], name))
                else:
                    share(name, name)
                    if started:
                        operations.append(("alloc", sizes.get(name, 0)))
            elif what == "CONSTANT":
                share(entry["NAME"], entry["NAME"])
            elif what == "COPY":
                share(entry["DST"], storage_of.get(entry["SRC"], entry["SRC"]))
            elif what == "COPY_FROM":
                drop(entry["DST"])
                share(entry["DST"], storage_of.get(entry["SRC"], entry["SRC"]))
            elif what == "RELEASE":
                drop(entry["NAME"])
    return operations


class PlainUnpickler(pickle.Unpickler):
    """Containers and numbers only: a pickle could otherwise run anything."""

    def find_class(self, module, name):
        raise pickle.UnpicklingError(f"{module}.{name} is not plain data")


def of_snapshot(path):
    """Allocations and frees of a torch.cuda.memory snapshot."""
    with gzip.open(path, "rb") as file:
        snapshot = PlainUnpickler(file).load()
    names = {"alloc": "alloc", "free_completed": "free"}
    events = snapshot["device_traces"][0]
    return [(names[event["action"]], event["size"]) for event in events if event["action"] in names]
