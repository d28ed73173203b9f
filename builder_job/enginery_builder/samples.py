"""Generated inputs: the same for the same seed. Called by `check` to try shapes and by `measure` to time and compare.

Nobody knows what an integer input means: a token, a length, an axis. So integers stay within 0..1, and the next
attempts are tamer still; a model that takes none of them is not measured on generated inputs.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from enginery_store.manifest import ShapeProfile, TensorSpec

from enginery_builder.backend import NUMPY_TYPES, Array, Tensors
from enginery_builder.shapes import Shapes


@dataclass(frozen=True)
class Temper:
    """How bold generated values are: standard deviation of floats, largest integer, smallest integer."""

    scale: float
    lowest: int
    highest: int


TEMPERS = (Temper(1.0, 0, 1), Temper(0.01, 1, 1), Temper(0.0, 0, 0))
"""Tried in this order until the model runs."""


def seed_of(key: str) -> int:
    """A seed from a hexadecimal key."""
    return int(key[:16] or "0", 16)


def can_generate(inputs: Sequence[TensorSpec]) -> bool:
    """Whether numpy has a type for every input."""
    return all(spec.datatype in NUMPY_TYPES for spec in inputs)


def attempts(
    inputs: Sequence[TensorSpec], shapes: Shapes, seed: int, sizes: Tensors | None = None
) -> Iterator[Tensors]:
    """Feeds of these shapes, the boldest first; none when an input has a type numpy lacks.

    `sizes` are given as they are: inputs whose values are sizes, of which chance knows nothing.
    """
    if can_generate(inputs):
        for temper in TEMPERS:
            yield {**feeds(inputs, shapes, seed, temper), **(sizes or {})}


def sizes_of(
    inputs: Sequence[TensorSpec], shape_inputs: Collection[str], profile: ShapeProfile, end: str
) -> dict[str, Array]:
    """Inputs whose values are sizes, with the values at one end (`min`, `opt` or `max`) of a profile."""
    specs = {spec.name: spec for spec in inputs}
    return {
        item.name: np.asarray(getattr(item, end), NUMPY_TYPES[specs[item.name].datatype]).reshape(
            specs[item.name].shape
        )
        for item in profile.inputs
        if item.name in shape_inputs
    }


def feeds(inputs: Sequence[TensorSpec], shapes: Shapes, seed: int, temper: Temper) -> Tensors:
    """One array per input."""
    source = np.random.default_rng(seed)
    return {spec.name: _values(source, spec.datatype, shapes[spec.name], temper) for spec in inputs}


def _values(source: np.random.Generator, datatype: str, shape: tuple[int, ...], temper: Temper) -> Array:
    kind = NUMPY_TYPES[datatype]
    if kind.kind == "O":
        return np.full(shape, "a", dtype=object)
    if kind.kind == "f":
        return np.asarray(source.standard_normal(shape, dtype=np.float32) * np.float32(temper.scale), kind)
    return np.asarray(source.integers(temper.lowest, temper.highest, shape, endpoint=True), kind)
