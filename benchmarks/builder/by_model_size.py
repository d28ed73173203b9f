"""What the builder takes by model size: seconds and peak memory of each Job, with TensorRT-RTX on a CPU.

    python benchmarks/builder/by_model_size.py [--megabytes 1,10,100,400]

Runs the real program, once to prepare and once to build, over a real S3 server in this process, on two kinds of
generated models whose weights are random: an MLP and a convolutional network. Prints a Markdown table.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from enginery_store.manifest import BuildOptions, ShapeProfile, Target
from enginery_store.requests import BuildRequest, PrepareRequest
from onnx import TensorProto, helper, numpy_helper
from support.builder_runs import Workbench
from support.s3_servers import moto_server
from support.tensorrt_models import profile

TARGET = Target(accelerator="GPU", compute_capability="8.6", product="NVIDIA-A10")
MIB = 1 << 20
LAYERS = 8

LAUNCHER = """
import pathlib, resource, subprocess, sys
code = subprocess.call(sys.argv[2:])
pathlib.Path(sys.argv[1]).write_text(str(1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))
sys.exit(code)
"""
"""Stands between: a process counts the memory of the one that started it as its own, and this one has little."""


@dataclass(frozen=True)
class Taken:
    """What one Job took."""

    seconds: float
    peak_bytes: int
    """Most resident memory of the process, as the kernel counts it."""


def mlp(size_bytes: int) -> onnx.ModelProto:
    """Square products of which each holds its share of the weights; input [N, width]."""
    width = max(64, round((size_bytes / 4 / LAYERS) ** 0.5))
    nodes, weights = [], []
    for layer in range(LAYERS):
        weights.append(_weight(layer, (width, width)))
        nodes.append(helper.make_node("MatMul", [f"t{layer}", f"w{layer}"], [f"p{layer}"]))
        nodes.append(helper.make_node("Relu", [f"p{layer}"], [f"t{layer + 1}"]))
    return _model(nodes, weights, ["N", width], ["N", width])


def cnn(size_bytes: int) -> onnx.ModelProto:
    """3x3 convolutions at 28x28; input [N, channels, 28, 28]."""
    channels = max(16, round((size_bytes / 4 / 9 / LAYERS) ** 0.5))
    nodes, weights = [], []
    for layer in range(LAYERS):
        weights.append(_weight(layer, (channels, channels, 3, 3)))
        nodes.append(helper.make_node("Conv", [f"t{layer}", f"w{layer}"], [f"p{layer}"], pads=[1, 1, 1, 1]))
        nodes.append(helper.make_node("Relu", [f"p{layer}"], [f"t{layer + 1}"]))
    return _model(nodes, weights, ["N", channels, 28, 28], ["N", channels, 28, 28])


MODELS: dict[str, Callable[[int], onnx.ModelProto]] = {"MLP": mlp, "CNN": cnn}


def _weight(layer: int, shape: tuple[int, ...]) -> onnx.TensorProto:
    """Every layer has values of its own, as the compiler keeps equal weights once."""
    fan_in = int(np.prod(shape[1:])) if len(shape) > 2 else shape[0]
    values = np.random.default_rng(layer).standard_normal(shape, np.float32) * np.float32((2 / fan_in) ** 0.5)
    return numpy_helper.from_array(values, f"w{layer}")


def _model(
    nodes: list[onnx.NodeProto], weights: list[onnx.TensorProto], x: list[int | str], y: list[int | str]
) -> onnx.ModelProto:
    inputs = [helper.make_tensor_value_info("t0", TensorProto.FLOAT, x)]
    outputs = [helper.make_tensor_value_info(f"t{LAYERS}", TensorProto.FLOAT, y)]
    graph = helper.make_graph(nodes, "generated", inputs, outputs, weights)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    made.ir_version = 8
    return made


def run(bench: Workbench, request: PrepareRequest | BuildRequest) -> Taken:
    """One Job as a process of its own; its log is thrown away."""
    peak = bench.folder / "peak"
    bench.launcher = (sys.executable, "-c", LAUNCHER, str(peak))
    started = time.monotonic()
    ended = bench.run(request)
    assert ended.code == 0, ended.message
    return Taken(time.monotonic() - started, int(peak.read_text()))


def batches_of(model: onnx.ModelProto) -> ShapeProfile:
    """Batch 1 to 8, tuned for 4."""
    inner = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim[1:]]
    return profile(t0=([1, *inner], [4, *inner], [8, *inner]))


def row(kind: str, megabytes: int, bench: Workbench) -> str:
    """One line of the table."""
    model = MODELS[kind](megabytes * MIB)
    data = model.SerializeToString()
    profiles = [batches_of(model)]
    prepare = bench.prepare_request(bench.upload("m/model.onnx", data), profiles, timeout_seconds=1800)
    preparing = run(bench, prepare)
    outcome = bench.outcome(prepare.key)
    assert outcome is not None
    build = bench.build_request(
        outcome.prepared_key, profiles, timeout_seconds=1800, target=TARGET, options=BuildOptions(),
        backend="TensorRTRTX", backend_version="1.7.1",
    )  # fmt: skip
    building = run(bench, build)
    engine = bench.engine(build.key)
    cells = (
        kind,
        f"{len(data) / MIB:.0f}",
        f"{preparing.seconds:.1f}",
        f"{preparing.peak_bytes / MIB:.0f}",
        f"{building.seconds:.1f}",
        str(engine.build_seconds),
        f"{building.peak_bytes / MIB:.0f}",
        f"{engine.file.size_bytes / MIB:.0f}",
    )
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", default="1,10,100,400", help="sizes of the weights")
    sizes = [int(size) for size in parser.parse_args().megabytes.split(",")]
    print(
        "| model | ONNX MiB | prepare s | prepare peak MiB | build s | of it compile s | build peak MiB | engine MiB |"
    )
    print("|---|---|---|---|---|---|---|---|")
    with moto_server() as server:
        for kind in MODELS:
            for megabytes in sizes:
                with tempfile.TemporaryDirectory() as folder:
                    print(row(kind, megabytes, Workbench(Path(folder), server.bucket())), flush=True)


if __name__ == "__main__":
    main()
