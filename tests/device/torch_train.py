#!/usr/bin/env python3
"""A training job in PyTorch that needs gigabytes: what it prints on stdout is the same however much memory it has.

    torch_train.py [--model mlp|transformer] [--width N] [--layers N] [--batch N] [--steps N] [--amp] [--graph]

Prints each loss exactly, then a digest of all parameters; on stderr what PyTorch counted of memory and the time of the
last steps. Exit code 77, with the reason on stderr, where PyTorch or a GPU is missing.
"""

import argparse
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


def digest(model):
    whole = hashlib.sha256()
    for parameter in model.parameters():
        whole.update(parameter.detach().float().cpu().numpy().tobytes())
    return whole.hexdigest()


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
    model, inputs = (make_mlp if options.model == "mlp" else make_transformer)(torch, options)
    model = model.cuda()
    inputs, labels = inputs.cuda(), torch.randint(0, 10, (options.batch,)).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, capturable=options.graph)

    def step():
        optimizer.zero_grad(set_to_none=not options.graph)
        with torch.autocast("cuda", torch.bfloat16, enabled=options.amp):
            loss = torch.nn.functional.cross_entropy(model(inputs).float(), labels)
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
    print(f"digest {digest(model)}")
    print(f"torch_train: {min(times):.3f} s a step; allocated {torch.cuda.max_memory_allocated() >> 20} MiB, "
          f"reserved {torch.cuda.max_memory_reserved() >> 20} MiB at most", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(parse(sys.argv[1:])))
