"""Concrete input shapes to run a model with. Called by `check` (does every profile run?) and `measure`. Pure."""

from collections.abc import Sequence

from enginery_store.manifest import InputRange, ShapeProfile, TensorSpec

Shapes = dict[str, tuple[int, ...]]
"""Shape by input name."""

DEFAULT_PROFILE = "default"
"""Name in records of a model without profiles."""

GUESSES = (8, 1, 32, 224)
"""Sizes tried, in this order, for free inner dimensions that no profile bounds."""


def profile_shapes(inputs: Sequence[TensorSpec], profile: ShapeProfile, end: str, guess: int = 1) -> Shapes:
    """Shapes at one end (`min`, `opt` or `max`) of a profile; inputs it leaves out are as `free_shapes` says.

    An input of fixed shape keeps it: where its values are sizes, its range holds those.
    """
    ranges: dict[str, InputRange] = {item.name: item for item in profile.inputs}
    plain = free_shapes(inputs, 1, guess)
    return {
        spec.name: tuple(getattr(ranges[spec.name], end))
        if spec.name in ranges and -1 in spec.shape
        else plain[spec.name]
        for spec in inputs
    }


def free_shapes(inputs: Sequence[TensorSpec], batch: int, guess: int) -> Shapes:
    """Fixed dimensions as they are; a free leading one becomes `batch`, other free ones `guess`."""
    return {
        spec.name: tuple(
            size if size != -1 else (batch if axis == 0 else guess) for axis, size in enumerate(spec.shape)
        )
        for spec in inputs
    }


def with_batch(inputs: Sequence[TensorSpec], shapes: Shapes, batch: int) -> Shapes:
    """The same shapes with another leading dimension wherever that is free."""
    free = {spec.name for spec in inputs if spec.shape and spec.shape[0] == -1}
    return {name: (batch, *shape[1:]) if name in free else shape for name, shape in shapes.items()}


def batch_of(inputs: Sequence[TensorSpec], shapes: Shapes) -> int:
    """Samples in one run: the leading dimension of the first input where it is free, or where all inputs share it."""
    for spec in inputs:
        if spec.shape and spec.shape[0] == -1:
            return shapes[spec.name][0]
    leading = {shape[0] if shape else 1 for shape in shapes.values()}
    return leading.pop() if len(leading) == 1 else 1
