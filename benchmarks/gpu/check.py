"""What cannot be tested without a GPU: sessions against numpy, on the device in hand. Ends with "all right".

    python benchmarks/gpu/check.py

Small networks go through the builder's compilation, the shared session, and the runtime's backend.
"""

import tempfile
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from enginery_builder.backend import CompileOrder
from enginery_builder.tensorrt.backend import TensorRTBackend as Builder
from enginery_runtime.device import device_in_hand, pick
from enginery_runtime.errors import EngineLoadError, InvalidRequestError
from enginery_runtime.infer import ModelShape
from enginery_runtime.load import installed_version
from enginery_runtime.load import load as load_engine
from enginery_runtime.verify import require_runnable
from enginery_runtime.warm import warm
from enginery_store.manifest import (
    AccuracyRecord,
    BuildOptions,
    EngineManifest,
    InputRange,
    ShapeProfile,
    StoredFile,
    Target,
    TensorSpec,
)
from enginery_store.requests import EngineRef
from enginery_tensorrt.device import device_facts, target_of
from enginery_tensorrt.errors import EngineRefusedError, InputRefusedError
from enginery_tensorrt.library import load
from enginery_tensorrt.session import EngineSession
from onnx import TensorProto, helper, numpy_helper

RNG = np.random.default_rng(0)
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
Ranges = dict[str, tuple[list[int], list[int], list[int]]]


def same(found: "np.ndarray[Any, Any]", wanted: "np.ndarray[Any, Any]") -> None:
    """Equal within what TF32 loses. numpy.testing needs parts of numpy that slim installations lack."""
    assert found.shape == wanted.shape, (found.shape, wanted.shape)
    assert np.allclose(found, wanted, rtol=2e-2, atol=2e-2), (found, wanted)


def compiled(  # noqa: PLR0917 - the parts of a network, in their order
    folder: Path,
    nodes: Sequence[onnx.NodeProto],
    inputs: dict[str, tuple[int, list[Any]]],
    outputs: dict[str, tuple[int, list[Any]]],
    constants: dict[str, "np.ndarray[Any, Any]"],
    profiles: Sequence[Ranges],
) -> Path:
    """An FP32 engine of a small network; an input is its ONNX type and its shape, a text where that is free."""
    folder.mkdir()
    graph = helper.make_graph(
        list(nodes),
        "graph",
        [helper.make_tensor_value_info(name, *value) for name, value in inputs.items()],
        [helper.make_tensor_value_info(name, *value) for name, value in outputs.items()],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, folder / "model.onnx")
    order = CompileOrder(
        model=folder / "model.onnx",
        folder=folder,
        name="engine",
        profiles=[_profile(index, ranges) for index, ranges in enumerate(profiles)],
        options=BuildOptions(optimization_level=1),
        precision="FP32",
        target=target_of(device_facts()),
    )
    return Builder().compile(order).files[0]


def _spec(name: str, kind: int, shape: Sequence[Any]) -> TensorSpec:
    datatype = "FP32" if kind == FLOAT else "INT64"
    return TensorSpec(name=name, datatype=datatype, shape=[item if isinstance(item, int) else -1 for item in shape])


def _profile(index: int, ranges: Ranges) -> ShapeProfile:
    entries = [InputRange(name=name, min=low, opt=opt, max=high) for name, (low, opt, high) in ranges.items()]
    return ShapeProfile(name=f"p{index}", inputs=entries)


def refused(kind: type[Exception], action: Callable[[], Any]) -> str:
    """The message of the exception that the action raises."""
    try:
        action()
    except kind as error:
        return str(error)
    raise AssertionError(f"no {kind.__name__}")


def affine(folder: Path) -> tuple[Path, "np.ndarray[Any, Any]"]:
    """relu(x @ w) with profiles for 1, up to 8 and up to 32 rows."""
    weights = RNG.standard_normal((64, 16)).astype(np.float32)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["y"])]
    profiles: list[Ranges] = [{"x": ([1, 64], [most, 64], [most, 64])} for most in (1, 8, 32)]
    plan = compiled(
        folder / "affine", nodes, {"x": (FLOAT, ["n", 64])}, {"y": (FLOAT, ["n", 16])}, {"w": weights}, profiles
    )
    return plan, weights


def check_profiles_and_graphs(folder: Path) -> None:
    plan, weights = affine(folder)
    session = EngineSession(plan, load("TensorRT"))
    plain = EngineSession(plan, load("TensorRT"), graphs=False)
    for _ in range(4):
        for rows in (1, 5, 8, 9, 32, 2):
            x = RNG.standard_normal((rows, 64)).astype(np.float32)
            expected = np.maximum(x @ weights, 0)
            for one in (session, plain):
                same(one.run({"x": x})["y"], expected)
    assert session.recorded_graphs == 6, session.recorded_graphs
    assert plain.recorded_graphs == 0
    print("   ", refused(InputRefusedError, lambda: session.run({"x": np.zeros((33, 64), np.float32)})))
    print("    device ms", min(session.time_gpu({"x": x}, 20)), "without graph", min(plain.time_gpu({"x": x}, 20)))
    assert session.layers_json().startswith("{")
    threads = [threading.Thread(target=_hammer, args=(session, weights))]
    threads[0].start()
    threads[0].join()
    session.close()
    plain.close()
    print("   ", refused(EngineRefusedError, lambda: _open_damaged(plan)))


def _hammer(session: EngineSession, weights: "np.ndarray[Any, Any]") -> None:
    """On another thread than the one that opened the session, with answers that tell requests apart."""
    for _ in range(2000):
        x = RNG.standard_normal((int(RNG.integers(1, 33)), 64)).astype(np.float32)
        y = session.run({"x": x})["y"]
        same(y, np.maximum(x @ weights, 0))


def _open_damaged(plan: Path) -> EngineSession:
    damaged = plan.with_suffix(".damaged")
    damaged.write_bytes(plan.read_bytes()[:-100])
    return EngineSession(damaged, load("TensorRT"))


def check_int64(folder: Path) -> None:
    table = RNG.standard_normal((100, 8)).astype(np.float32)
    plan = compiled(
        folder / "gather",
        [helper.make_node("Gather", ["table", "ids"], ["y"])],
        {"ids": (INT64, ["n", 4])},
        {"y": (FLOAT, ["n", 4, 8])},
        {"table": table},
        [{"ids": ([1, 4], [2, 4], [8, 4])}],
    )
    session = EngineSession(plan, load("TensorRT"))
    for rows in (1, 8, 3, 3, 3):
        ids = RNG.integers(0, 100, (rows, 4))
        same(session.run({"ids": ids})["y"], table[ids])
    print("   ", session.inputs, refused(InputRefusedError, lambda: session.run({"ids": ids + 2**40})))
    session.close()


def check_free_output(folder: Path) -> None:
    plan = compiled(
        folder / "nonzero",
        [helper.make_node("NonZero", ["x"], ["y"])],
        {"x": (FLOAT, ["n", 6])},
        {"y": (INT64, [2, "m"])},
        {},
        [{"x": ([1, 6], [4, 6], [16, 6])}],
    )
    session = EngineSession(plan, load("TensorRT"))
    for rows in (1, 16, 4, 4, 4):
        x = (RNG.random((rows, 6)) > 0.5).astype(np.float32)
        same(session.run({"x": x})["y"], np.stack(np.nonzero(x)))
    assert session.recorded_graphs == 0
    session.close()


def check_shape_input(folder: Path) -> None:
    plan = compiled(
        folder / "expand",
        [helper.make_node("Expand", ["x", "size"], ["y"])],
        {"x": (FLOAT, [1, 4]), "size": (INT64, [2])},
        {"y": (FLOAT, ["a", "b"])},
        {},
        [{"size": ([1, 4], [3, 4], [9, 4])}],
    )
    session = EngineSession(plan, load("TensorRT"))
    for rows in (1, 9, 3, 3, 3):
        x = RNG.random((1, 4), np.float32)
        y = session.run({"x": x, "size": np.array([rows, 4])})["y"]
        same(y, np.broadcast_to(x, (rows, 4)))
    session.close()


def check_runtime(folder: Path) -> None:
    plan, weights = affine(folder)
    facts = device_facts()
    manifest = _manifest(plan, target_of(facts))
    cpu = EngineRef(target=Target(accelerator="CPU", architecture=facts.architecture), key="1" * 64)
    gpu = EngineRef(target=manifest.target, key=manifest.key)
    assert pick([cpu, gpu], device_in_hand([cpu, gpu])) == gpu
    assert pick([cpu], device_in_hand([cpu, gpu])) == cpu
    require_runnable(manifest, facts, installed_version("TensorRT"))
    backend = load_engine(manifest, plan, threads=1)
    warm(backend, manifest, ModelShape(manifest, max_batch_size=32), runs=4)
    x = RNG.standard_normal((7, 64)).astype(np.float32)
    same(backend.infer({"x": x})["y"], np.maximum(x @ weights, 0))
    print("   ", refused(InvalidRequestError, lambda: backend.infer({"x": np.zeros((99, 64), np.float32)})))
    backend.close()
    other = manifest.model_copy(update={"inputs": [_spec("z", FLOAT, ["n", 64])]})
    print("   ", refused(EngineLoadError, lambda: load_engine(other, plan, threads=1)))


def _manifest(plan: Path, target: Target) -> EngineManifest:
    return EngineManifest(
        key="a" * 64,
        prepared_key="b" * 64,
        source_digest="sha256:" + "c" * 64,
        target=target,
        backend="TensorRT",
        backend_version=load("TensorRT").version,
        file=StoredFile(name=plan.name, sha256="d" * 64, size_bytes=plan.stat().st_size),
        inputs=[_spec("x", FLOAT, ["n", 64])],
        outputs=[_spec("y", FLOAT, ["n", 16])],
        profiles=[_profile(index, {"x": ([1, 64], [most, 64], [most, 64])}) for index, most in enumerate((1, 8, 32))],
        options=BuildOptions(),
        precision_requested="FP32",
        precision_effective="FP32",
        accuracy=AccuracyRecord(
            metric="MaxAbsError", reference="0", measured="0", degradation="0", samples=1, data_digest="synthetic"
        ),
        latency=[],
        device=device_facts(),
        device_memory_bytes=0,
        build_seconds=0,
        builder_version="0",
        created_at=datetime.now(UTC),
    )


CHECKS = (check_profiles_and_graphs, check_int64, check_free_output, check_shape_input, check_runtime)


def main() -> None:
    print(device_facts(), load("TensorRT").version)
    failed = 0
    for check in CHECKS:
        with tempfile.TemporaryDirectory() as folder:
            print(check.__name__, flush=True)
            try:
                check(Path(folder))
            except Exception as error:  # noqa: BLE001 - the others are of interest too
                failed += 1
                print("  !!", type(error).__name__, error, flush=True)
    print(f"{failed} failed" if failed else "all right")


if __name__ == "__main__":
    main()
