"""PyTorch's half of the comparison: exports the models to ONNX, then measures eager and compiled on the same device.

    python3 benchmarks/gpu/torch_cells.py --work WORK --results RESULTS/torch.json [--budget SECONDS]

Runs under the interpreter that has torch. Everything already in WORK and RESULTS is kept; a new cell is begun only
within the budget.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networks
import numpy as np
import torch
from matrix import MODELS, ROUNDS, SAMPLES, TORCH, Model, done, merge, runs_for
from torch import Tensor, nn

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def export(model: Model, network: nn.Module, folder: Path) -> None:
    """Write `<model>.onnx` and, last, `<model>.npz` with inputs and what PyTorch makes of them in FP32."""
    if (folder / f"{model.name}.npz").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    for module in network.modules():
        module.plain = True
    example = networks.inputs(model.name, 2, DEVICE)
    free = {0: "batch"}
    torch.onnx.export(
        network,
        (example,),
        str(folder / f"{model.name}.onnx"),
        input_names=[model.input],
        output_names=[model.output],
        dynamic_axes={model.input: free, model.output: free},
        opset_version=17,
        dynamo=False,
    )
    samples = networks.inputs(model.name, SAMPLES, DEVICE)
    with torch.inference_mode():
        outputs = network(samples)
    for module in network.modules():
        module.plain = False
    np.savez(folder / f"{model.name}.npz", samples=samples.cpu().numpy(), outputs=outputs.cpu().numpy())


def contender(network: nn.Module, name: str) -> nn.Module:
    """The network as one contender runs it."""
    torch._dynamo.reset()  # noqa: SLF001 - as PyTorch's own documentation has it
    network = network.float() if name.endswith("FP32") else network.half()
    return torch.compile(network, mode="reduce-overhead", dynamic=False) if name.startswith("compile") else network


def milliseconds(run: Callable[[], Any]) -> float:
    """Of one run on the device, runs queued one behind the other: the median of several rounds."""
    for _ in range(3):
        run()
    runs = runs_for(_round(run, 5))
    _round(run, runs)
    return statistics.median(_round(run, runs) for _ in range(ROUNDS))


def _round(run: Callable[[], Any], runs: int) -> float:
    if DEVICE == "cpu":
        began = time.perf_counter()
        run()
        return 1000 * (time.perf_counter() - began)
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(runs):
        run()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) / runs


def measure(model: Model, network: nn.Module, name: str) -> dict[str, Any]:
    """One cell: every batch size of one contender."""
    module = contender(network, name)
    batches = {}
    began = time.monotonic()
    for batch in model.batches:
        data: Tensor = networks.inputs(model.name, batch, DEVICE)
        if data.is_floating_point() and name.endswith("FP16"):
            data = data.half()
        with torch.inference_mode():
            batches[batch] = {"gpu_ms": milliseconds(lambda data=data: module(data))}
        print(model.name, name, batch, batches[batch], flush=True)
    return {"model": model.name, "contender": name, "batches": batches, "seconds": time.monotonic() - began}


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--work", type=Path, required=True)
    arguments.add_argument("--results", type=Path, required=True)
    arguments.add_argument("--budget", type=float, default=600.0)
    options = arguments.parse_args()
    end = time.monotonic() + options.budget
    loaded = {}
    for name, model in MODELS.items():
        began = time.monotonic()
        loaded[name] = networks.NETWORKS[name](DEVICE)
        export(model, loaded[name], options.work)
        print("exported", name, f"{time.monotonic() - began:.1f} s", flush=True)
    for contender_name in TORCH:
        for name, model in MODELS.items():
            if done(options.results, name, contender_name) or time.monotonic() > end:
                continue
            merge(options.results, measure(model, loaded[name], contender_name))


if __name__ == "__main__":
    main()
