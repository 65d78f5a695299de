"""Links between documents, and from documents to files, lead somewhere."""

import re
from pathlib import Path

import project

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def violations(root):
    found = []
    for path in project.files(root, {".md"}):
        fenced = False
        for number, line in enumerate((project.read_text(root, path) or "").splitlines(), 1):
            if line.startswith("```"):
                fenced = not fenced
            targets = [] if fenced else LINK.findall(line)
            for target in targets:
                file = target.partition("#")[0]
                if ":" in file or not file:
                    continue
                if not (Path(root) / path.parent / file).exists():
                    found.append(f"{path}:{number}: {target} does not exist")
    return found


if __name__ == "__main__":
    project.run_check(violations, __doc__)
