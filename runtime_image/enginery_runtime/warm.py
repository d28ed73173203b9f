"""Runs the engine before anybody else does. Last step of `startup`: only an engine that answered may turn ready."""

import numpy as np
from enginery_store.manifest import EngineManifest, ShapeProfile, TensorSpec

from enginery_runtime.backend import Backend
from enginery_runtime.datatypes import DTYPES, Array
from enginery_runtime.errors import EngineLoadError
from enginery_runtime.infer import ModelShape

SETTLING_RUNS = 2
"""A backend that records what it runs (CUDA graphs) does so when a shape comes the second time."""


def warm(backend: Backend, manifest: EngineManifest, shape: ModelShape, runs: int) -> dict[str, Array]:
    """Run every profile, then the largest batch; returns an input that was answered.

    Each at least SETTLING_RUNS times, whatever the spec says. Raises EngineLoadError when a run fails, or when a batch
    does not come back with as many rows as went in (then requests must not be merged).
    """
    profiles = [_best(manifest, profile) for profile in manifest.profiles]
    feeds = profiles or [_input(manifest, {}, rows=1)]
    known_good = feeds[0]
    try:
        for index in range(max(runs, SETTLING_RUNS * len(feeds))):
            backend.infer(feeds[index % len(feeds)])
        if shape.batches:
            base = {name: list(array.shape) for name, array in known_good.items()}
            largest = _input(manifest, base, rows=shape.max_rows)
            for _ in range(SETTLING_RUNS):
                _require_rows(backend.infer(largest), shape.max_rows)
    except EngineLoadError:
        raise
    except Exception as error:
        raise EngineLoadError(f"the warm-up inference failed: {error}") from error
    return known_good


def _best(manifest: EngineManifest, profile: ShapeProfile) -> dict[str, Array]:
    """An input of the sizes that the profile is best at; where an input's values are sizes, with those values."""
    best = {entry.name: entry.opt for entry in profile.inputs}
    given = _input(manifest, {name: sizes for name, sizes in best.items() if name not in manifest.shape_inputs})
    for name in manifest.shape_inputs:
        if name in best:
            given[name] = np.asarray(best[name], given[name].dtype).reshape(given[name].shape)
    return given


def _input(manifest: EngineManifest, sizes: dict[str, list[int]], rows: int | None = None) -> dict[str, Array]:
    return {spec.name: _zeros(spec, sizes.get(spec.name, spec.shape), rows) for spec in manifest.inputs}


def _zeros(spec: TensorSpec, sizes: list[int], rows: int | None) -> Array:
    """Zeros are valid for every datatype, as indices and as lengths too; a free size without a profile is 1."""
    shape = [max(1, size) for size in sizes]
    if rows is not None and spec.shape and spec.shape[0] == -1:
        shape[0] = rows
    if spec.datatype == "BYTES":
        return np.full(shape, b"", np.object_)
    return np.zeros(shape, DTYPES[spec.datatype])


def _require_rows(outputs: dict[str, Array], rows: int) -> None:
    for name, array in outputs.items():
        if array.ndim == 0 or array.shape[0] != rows:
            raise EngineLoadError(
                f"output {name!r} has shape {list(array.shape)} for a batch of {rows}: this model cannot be batched;"
                " set batching.maxBatchSize to 1"
            )
