"""CMake targets link along the same arrows as the includes."""

import re
from pathlib import Path

import layers
import project

LINK_ONLY = re.compile(r"^\$<(?:LINK_ONLY|BUILD_INTERFACE):([^<>]+)>$")


def read_targets(build):
    """The list that the configure step wrote: name -> (folder, linked names)."""
    targets = {}
    for line in (Path(build) / "targets.tsv").read_text().splitlines():
        name, folder, libraries = line.split("\t")
        targets[name] = (Path(folder), [item for item in libraries.split(" ") if item])
    return targets


def violations(root, build):
    del root
    targets = read_targets(build)
    found = []
    for name, (folder, libraries) in sorted(targets.items()):
        user = layers.PUBLIC_TARGETS.get(name) or layers.layer_of(folder)
        if user is None:
            if libraries:
                found.append(f"{name}: target in {folder}, which is in no folder of tests/repo/layers.py")
            continue
        outside = layers.LAYERS[user][1]
        for item in libraries:
            item = LINK_ONLY.sub(r"\1", item)
            if item.startswith(("-", "$<")):
                continue
            if item == "tp_cuda_headers":
                if not layers.may_use_cuda(folder):
                    found.append(f"{name}: links tp_cuda_headers, but {folder} may not see CUDA headers")
            elif item in targets:
                used = layers.PUBLIC_TARGETS.get(item) or layers.layer_of(targets[item][0])
                if used is None or not layers.may_use(user, used):
                    found.append(f"{name}: {user} may not link {item} of {used}")
            elif item not in outside and layers.ALL not in outside:
                found.append(f"{name}: {user} may not link {item}")
    return found


if __name__ == "__main__":
    project.run_check(violations, __doc__, with_build=True)
