#!/usr/bin/env python3
"""A training job in PyTorch that needs gigabytes: what it prints on stdout is the same however much memory it has.

    torch_train.py [--model mlp|transformer] [--width N] [--layers N] [--batch N] [--steps N] [--amp] [--graph]
                   [--compile] [--workers N]

Prints each loss exactly, then a digest of all parameters; on stderr what PyTorch counted of memory and the time of the
fastest step. Exit code 77, with the reason on stderr, where PyTorch or a GPU is missing.
"""

import argparse
import contextlib
import hashlib
import os
import sys
import time

NOTHING_TO_TRAIN = 77


def parse(words):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=("mlp", "transformer"), default="mlp")
    parser.add_argument("--width", type=int, default=4096)
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--batch", type=int, default=2048)
    parser.add_argument("--sequence", type=int, default=512)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--amp", action="store_true", help="bfloat16 by autocast")
    parser.add_argument("--graph", action="store_true", help="capture a step after two and replay it")
    parser.add_argument("--compile", action="store_true", help="the model by torch.compile")
    parser.add_argument("--workers", type=int, default=0, help="processes that load the samples, into pinned memory")
    parser.add_argument("--on-device", action="store_true", help="draw the first parameters on the device")
    return parser.parse_args(words)


def make_mlp(torch, options):
    nn = torch.nn

    class Residual(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.LayerNorm(options.width)
            self.linear = nn.Linear(options.width, options.width)

        def forward(self, values):
            return values + nn.functional.gelu(self.linear(self.norm(values)))

    model = nn.Sequential(*(Residual() for _ in range(options.layers)), nn.Linear(options.width, 10))
    return model, torch.randn(options.batch, options.width)


def make_transformer(torch, options):
    nn = torch.nn
    layer = nn.TransformerEncoderLayer(options.width, 16, 4 * options.width, dropout=0.0, batch_first=True,
                                       norm_first=True)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = nn.TransformerEncoder(layer, options.layers, enable_nested_tensor=False)
            self.head = nn.Linear(options.width, 10)

        def forward(self, values):
            return self.head(self.encoder(values).mean(dim=1))

    return Model(), torch.randn(options.batch, options.sequence, options.width)


def digest(torch, model):
    """Of the bits of all parameters and where they stand, added up on the device: whole numbers, in any order."""
    piece = 1 << 22
    places = torch.arange(1, piece + 1, device="cuda")
    whole = hashlib.sha256()
    for parameter in model.parameters():
        for bits in parameter.detach().view(-1).view(torch.int32).split(piece):
            whole.update(str((bits.long() * places[: len(bits)]).sum().item()).encode())
    return whole.hexdigest()


def batches(torch, options, inputs, labels):
    """The batch of each step, on the device: always the same, or as processes bring its samples."""
    if options.workers == 0:
        inputs, labels = inputs.cuda(), labels.cuda()
        while True:
            yield inputs, labels
    data = torch.utils.data.TensorDataset(inputs, labels)
    loader = torch.utils.data.DataLoader(data, options.batch // 4, num_workers=options.workers, pin_memory=True)
    while True:
        for some, wanted in loader:
            yield some.cuda(non_blocking=True), wanted.cuda(non_blocking=True)


def main(options):
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    try:
        import torch
    except Exception as error:  # a broken installation raises anything
        print(f"torch_train: PyTorch does not import ({type(error).__name__}: {error})", file=sys.stderr)
        return NOTHING_TO_TRAIN
    if not torch.cuda.is_available():
        print("torch_train: PyTorch sees no GPU", file=sys.stderr)
        return NOTHING_TO_TRAIN
    torch.manual_seed(1)
    torch.use_deterministic_algorithms(True)
    with torch.device("cuda") if options.on_device else contextlib.nullcontext():
        model, inputs = (make_mlp if options.model == "mlp" else make_transformer)(torch, options)
    model = model.cuda()
    feed = batches(torch, options, inputs, torch.randint(0, 10, (options.batch,)))
    forward = torch.compile(model) if options.compile else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, capturable=options.graph)

    def step():
        optimizer.zero_grad(set_to_none=not options.graph)
        inputs, labels = next(feed)
        with torch.autocast("cuda", torch.bfloat16, enabled=options.amp):
            loss = torch.nn.functional.cross_entropy(forward(inputs).float(), labels)
        loss.backward()
        optimizer.step()
        return loss

    times = []
    graph = kept = None
    for index in range(options.steps):
        began = time.perf_counter()
        if options.graph and index == 2:
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                kept = step()
        if graph is not None:
            graph.replay()
            loss = kept
        elif options.graph:  # as PyTorch asks: what comes before a capture runs beside the default stream
            beside = torch.cuda.Stream()
            beside.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(beside):
                loss = step()
            torch.cuda.current_stream().wait_stream(beside)
        else:
            loss = step()
        print(f"step {index} loss {loss.item().hex()}", flush=True)
        times.append(time.perf_counter() - began)
    print(f"digest {digest(torch, model)}")
    print(f"torch_train: {min(times):.3f} s a step; allocated {torch.cuda.max_memory_allocated() >> 20} MiB, "
          f"reserved {torch.cuda.max_memory_reserved() >> 20} MiB at most", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(parse(sys.argv[1:])))
