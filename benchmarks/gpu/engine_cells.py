"""Enginery's half of the comparison: the builder's own steps make engines, and the runtime's sessions run them.

    python benchmarks/gpu/engine_cells.py --work WORK --results RESULTS/engines.json [--prepare] [--budget SECONDS]

WORK holds the models that torch_cells.py exported. `--prepare` does only what needs no GPU. Every cell (model,
precision) is a process of its own; its prepared model, its engine and the timing cache that all share stay in WORK, so
that a run that was cut short goes on where it was. A new cell is begun only within the budget, and ended with it.
"""

import argparse
import fcntl
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from enginery_builder.backend import CompileOrder
from enginery_builder.tensorrt.backend import TensorRTBackend
from enginery_store.manifest import BuildOptions, DeviceFacts, InputRange, ShapeProfile
from enginery_tensorrt import cuda
from enginery_tensorrt.device import device_facts, target_of
from enginery_tensorrt.library import load
from enginery_tensorrt.session import EngineSession
from matrix import MODELS, ROUNDS, Model, done, merge, runs_for
from prepared import prepared_model

TIMING_CACHE = "timing.cache"
LEAST_SECONDS = 60.0
"""No cell is begun with less left."""


def prepare(model: Model, precision: str, work: Path) -> tuple[Path, float]:
    """The ONNX file to compile, and the seconds that making it took; from WORK where it has been made before."""
    folder = work / f"{model.name}-{precision}"
    folder.mkdir(parents=True, exist_ok=True)
    record = folder / "prepared.json"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # --prepare may be at it beside us
        if not record.exists():
            began = time.monotonic()
            path = prepared_model(model, precision, work, folder)
            record.write_text(json.dumps({"path": str(path), "seconds": time.monotonic() - began}))
    kept = json.loads(record.read_text())
    print(f"{model.name} {precision} prepared in {kept['seconds']:.1f} s", flush=True)
    return Path(kept["path"]), kept["seconds"]


def build(model: Model, precision: str, work: Path, facts: DeviceFacts) -> tuple[Path, dict[str, Any]]:
    """The engine, and what building it took; from WORK where it has been built before."""
    folder = work / f"{model.name}-{precision}"
    record = folder / "build.json"
    if record.exists():
        kept = json.loads(record.read_text())
        return folder / kept["file"], kept
    prepared, prepare_seconds = prepare(model, precision, work)
    cache = work / TIMING_CACHE
    order = CompileOrder(
        model=prepared,
        folder=folder,
        name="engine",
        profiles=[_profile(model, batch) for batch in model.batches],
        options=BuildOptions(),
        precision=precision,
        target=target_of(facts),
        timing_cache=cache.read_bytes() if cache.exists() else None,
    )
    began = time.monotonic()
    compiled = TensorRTBackend().compile(order)
    seconds = time.monotonic() - began
    if compiled.timing_cache is not None:
        cache.write_bytes(compiled.timing_cache)
    kept = {
        "file": compiled.files[0].name,
        "prepare_seconds": prepare_seconds,
        "build_seconds": seconds,
        "timing_cache": compiled.timing_cache_state,
        "layers": dict(compiled.layers),
    }
    record.write_text(json.dumps(kept))
    print(f"built in {seconds:.1f} s, layers {kept['layers']}", flush=True)
    return compiled.files[0], kept


def _profile(model: Model, batch: int) -> ShapeProfile:
    shape = model.shape(batch)
    return ShapeProfile(name=f"batch-{batch}", inputs=[InputRange(name=model.input, min=shape, opt=shape, max=shape)])


def measure(model: Model, precision: str, plan: Path, built: dict[str, Any], work: Path) -> dict[str, Any]:
    """One cell: every batch size of one engine."""
    with np.load(work / f"{model.name}.npz") as data:
        samples, outputs = data["samples"], data["outputs"]
    free = cuda.free_bytes()
    began = time.monotonic()
    session = EngineSession(plan, load("TensorRT"))
    loaded = {"load_seconds": time.monotonic() - began, "device_memory_taken": free - cuda.free_bytes()}
    batches = {}
    for batch in model.batches:
        feeds = {model.input: np.resize(samples, model.shape(batch))}
        batches[batch] = {
            "gpu_ms": _device_milliseconds(session, feeds),
            "host_ms": _host_milliseconds(lambda feeds=feeds: session.run(feeds)),
        }
        print(model.name, precision, batch, batches[batch], flush=True)
    largest = max(batch for batch in model.batches if batch <= len(samples))
    engine_outputs = session.run({model.input: samples[:largest]})[model.output]
    (work / f"{model.name}-{precision}" / "layers.json").write_text(session.layers_json())
    cell = {
        "model": model.name,
        "contender": f"Enginery {precision}",
        "batches": batches,
        **built,
        **loaded,
        "engine_bytes": plan.stat().st_size,
        "device_memory_bytes": session.device_memory_bytes,
        "graphs": session.recorded_graphs,
        "cosine": _cosine(engine_outputs, outputs[:largest]),
    }
    session.close()
    return cell


def _device_milliseconds(session: EngineSession, feeds: dict[str, Any]) -> float:
    """Of one run on the device, as torch_cells.milliseconds counts it."""
    runs = runs_for(statistics.mean(session.time_gpu(feeds, 5)))
    session.time_gpu(feeds, runs)
    return statistics.median(statistics.mean(session.time_gpu(feeds, runs)) for _ in range(ROUNDS))


def _host_milliseconds(run: Callable[[], Any]) -> float:
    """The median of one run from arrays to arrays, copies both ways included."""
    times = []
    end = time.perf_counter() + 1.0
    while time.perf_counter() < end or len(times) < 10:
        began = time.perf_counter()
        run()
        times.append(1000 * (time.perf_counter() - began))
    return statistics.median(times)


def _cosine(ours: "np.ndarray[Any, Any]", theirs: "np.ndarray[Any, Any]") -> float:
    """The worst item's cosine similarity with PyTorch's FP32 outputs."""
    one, other = (array.reshape(len(array), -1).astype(np.float64) for array in (ours, theirs))
    scale = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
    return float(np.min(np.sum(one * other, axis=1) / scale))


def run_cell(model: Model, precision: str, work: Path, results: Path) -> None:
    """Build and measure one cell in this process."""
    facts = device_facts()
    plan, built = build(model, precision, work, facts)
    cell = measure(model, precision, plan, built, work)
    merge(results, cell | {"device": facts.model_dump(), "tensorrt": load("TensorRT").version})


def run_all(options: argparse.Namespace) -> None:
    """Every cell that is not there yet, in processes of their own, until the budget is used up."""
    end = time.monotonic() + options.budget
    for model in MODELS.values():
        for precision in model.precisions:
            left = end - time.monotonic()
            wanted = not options.only or f"{model.name}-{precision}" in options.only or model.name in options.only
            if not wanted or done(options.results, model.name, f"Enginery {precision}"):
                continue
            if left < LEAST_SECONDS:
                print(f"no time left for {model.name} {precision}", flush=True)
                return
            print(f"== {model.name} {precision}, {left:.0f} s left", flush=True)
            command = [sys.executable, __file__, "--work", options.work, "--results", options.results]
            try:
                ended = subprocess.run([*command, "--cell", model.name, precision], timeout=left, check=False)
            except subprocess.TimeoutExpired:
                print("cut by the budget", flush=True)
                return
            if ended.returncode:
                print(f"!! {model.name} {precision} ended with {ended.returncode}", flush=True)


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--work", type=Path, required=True)
    arguments.add_argument("--results", type=Path, required=True)
    arguments.add_argument("--budget", type=float, default=1500.0)
    arguments.add_argument("--prepare", action="store_true")
    arguments.add_argument("--only", nargs="*", default=[], help="models (bert-large) or cells (bert-large-FP16)")
    arguments.add_argument("--cell", nargs=2, metavar=("MODEL", "PRECISION"))
    options = arguments.parse_args()
    if options.cell:
        run_cell(MODELS[options.cell[0]], options.cell[1], options.work, options.results)
    elif options.prepare:
        for model in MODELS.values():
            for precision in model.precisions:
                prepare(model, precision, options.work)
    else:
        run_all(options)


if __name__ == "__main__":
    main()
