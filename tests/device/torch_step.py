#!/usr/bin/env python3
"""A small training job in PyTorch whose driver calls are to be counted: an MLP (cuBLAS) behind one convolution
(cuDNN), and one Triton kernel where Triton imports. One warm-up step, then STEPS equal ones.

Prints a marker line for each stage. Exit code 77, with the reason on stderr, where PyTorch or a GPU is missing.
"""

import json
import sys

NOTHING_TO_COUNT = 77


def give_up(reason):
    print(f"torch_step: {reason}", file=sys.stderr)
    sys.exit(NOTHING_TO_COUNT)


def mark(stage, **fields):
    print(json.dumps({"schema": "tidepool.probe/1", "section": "doors", "kind": "answer", "name": "marker",
                      "value": stage, "program": "torch_step", **fields}), flush=True)


def find_triton_scale():
    """The function that launches the Triton kernel, or the reason why there is none."""
    try:
        from triton_scale import scale
    except Exception as error:  # a broken installation raises anything
        return None, f"{type(error).__name__}: {error}"
    return scale, None


def make_model(torch):
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 3, padding=1), torch.nn.ReLU(), torch.nn.Flatten(),
        torch.nn.Linear(16 * 16 * 16, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10),
    ).cuda()


def main(steps):
    try:
        import torch
    except Exception as error:
        give_up(f"PyTorch does not import ({type(error).__name__}: {error})")
    if not torch.cuda.is_available():
        give_up("PyTorch sees no GPU")
    mark("start", torch=torch.__version__, cuda=torch.version.cuda, cudnn=torch.backends.cudnn.version(), steps=steps)
    torch.manual_seed(1)
    scale, why_not = find_triton_scale()
    model = make_model(torch)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    images = torch.randn(32, 3, 16, 16).pin_memory()
    labels = torch.randint(0, 10, (32,)).pin_memory()

    def step():
        nonlocal scale, why_not
        values, wanted = images.cuda(non_blocking=True), labels.cuda(non_blocking=True)
        if scale is not None:
            try:
                scale(values)
            except Exception as error:  # no compiler, no Python headers: only found out at the first launch
                scale, why_not = None, f"{type(error).__name__}: {error}"
        loss = torch.nn.functional.cross_entropy(model(values), wanted)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return loss.item()

    first = step()
    mark("warm", loss=first, triton=why_not or "launched")
    last = first
    for _ in range(steps):
        last = step()
    torch.cuda.synchronize()
    mark("end", loss=last, peak_bytes=torch.cuda.max_memory_allocated())


if __name__ == "__main__":
    if len(sys.argv) != 2 or not sys.argv[1].isdigit():
        print("usage: torch_step.py STEPS", file=sys.stderr)
        sys.exit(2)
    main(int(sys.argv[1]))
