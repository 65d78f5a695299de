"""Looks for iterations in published traces of training and inference, and holds what is found against what is known
of them (research notes beside the data: how many steps, how many kernels in each)."""

import argparse
import os
import subprocess
import sys
from pathlib import Path

import operations

SKIPPED = 77
COPIES = {"Memcpy HtoD": 1, "Memcpy DtoH": 2, "Memcpy DtoD": 3, "Memset": 4}


def lines_of(trace):
    numbers = {}

    def number(text):
        return numbers.setdefault(text, len(numbers) + 1)

    for operation in trace:
        kind, *rest = operation
        if kind == "launch":
            yield f"launch {number(rest[0])} {number('grid ' + rest[1])}"
        elif kind == "copy":
            yield f"copy {COPIES.get(rest[0], 0)} {rest[1]}"
        else:
            yield f"{kind} {rest[0]}"


def judge(program, trace):
    text = "\n".join(lines_of(trace)) + "\n"
    result = subprocess.run([program], input=text, capture_output=True, text=True, check=True)
    first, words = result.stdout.splitlines()
    values = dict(pair.split("=") for pair in first.split())
    return {key: float(value) for key, value in values.items()}, words


def launches_in(trace, verdict):
    begin = int(verdict["first"])
    return sum(operation[0] == "launch" for operation in trace[begin:begin + int(verdict["period"])])


class Suite:
    def __init__(self, program, data):
        self.program, self.data, self.failures = program, data, []

    def check(self, name, holds, words):
        print(f"{'ok  ' if holds else 'FAIL'} {name}: {words}")
        if not holds:
            self.failures.append(name)

    def periodic(self, name, trace, kernels, iterations, confidence):
        """`kernels` in one iteration, at least so many iterations, at least this confidence."""
        verdict, words = judge(self.program, trace)
        found = launches_in(trace, verdict)
        holds = (verdict["reason"] == 0 and found == kernels and verdict["iterations"] >= iterations
                 and verdict["confidence"] >= confidence)
        self.check(name, holds, f"{words}; {found} kernels in one")

    def refused(self, name, trace):
        verdict, words = judge(self.program, trace)
        self.check(name, verdict["reason"] != 0 and verdict["period"] == 0, words)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", type=Path, required=True, help="judge_operations")
    program = parser.parse_args().program
    data = os.environ.get("TIDEPOOL_TEST_DATA", "")
    if not data:
        print("skipped: TIDEPOOL_TEST_DATA does not name the folder of real inputs")
        return SKIPPED
    suite = Suite(program, Path(data))
    pairs, kineto = suite.data / "et_kineto_pairs", suite.data / "kineto"

    linear = operations.of_kineto(pairs / "linear20x1024_bs512_2080ti/kineto.json.gz")
    suite.periodic("linear20x1024", linear, 220, 37, 0.99)
    resnet = operations.of_kineto(pairs / "resnet18_bs128_fp32_2080ti/kineto.json.gz")
    suite.periodic("resnet18", resnet, 321, 25, 0.9)
    ddp = operations.of_kineto(kineto / "hta_ddp2_V100_mem_addr_5steps.json.gz")
    suite.periodic("hta_ddp2", ddp, 3874, 3, 0.9)
    resnet50 = operations.of_kineto(kineto / "tb_resnet50_bs32_V100_nw0_mem_stack_6steps.json.gz")
    suite.periodic("tb_resnet50", resnet50, 1462, 4, 0.9)

    for name in ("resnet32-56", "unet-6", "tv_densenet121-84", "lstm-128"):
        once = operations.of_dtr(suite.data / f"dtr/{name}.log.gz")
        suite.refused(f"dtr {name}, one step", once)
        steps = [operation for _ in range(6) for operation in once]
        kernels = sum(operation[0] == "launch" for operation in once)
        suite.periodic(f"dtr {name}, six steps", steps, kernels, 5, 0.99)
    for context in ("128", "512"):
        name = f"gpt_medium24L_bs4_ctx{context}_train_torch2.11.pickle.gz"
        suite.refused(f"snapshot gpt ctx{context}, one step", operations.of_snapshot(suite.data / "snapshots" / name))
    # Of one pass nothing can tell that its equal layers are not the whole; of six the pass is found.
    for name, layer in (("bert_small", 12), ("vit", 36)):
        once = operations.of_kineto(kineto / f"tl_infer_{name}_H100_mem.json.gz")
        suite.periodic(f"inference {name}, one pass", once, layer, 3, 0.8)
        kernels = sum(operation[0] == "launch" for operation in once)
        suite.periodic(f"inference {name}, six passes", [each for _ in range(6) for each in once], kernels, 4, 0.99)
    return 1 if suite.failures else 0


if __name__ == "__main__":
    sys.exit(main())
