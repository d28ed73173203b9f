"""Which optimisation profile runs a set of input shapes. Pure; called by `session`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from enginery_tensorrt.errors import InputRefusedError

Shape = tuple[int, ...]
Shapes = Mapping[str, Shape]
"""Shapes by the name of the input."""


@dataclass(frozen=True)
class ProfileRange:
    """The shapes one profile of an engine takes; of an input that holds a shape, its values."""

    least: Shapes
    most: Shapes
    values: frozenset[str] = frozenset()
    """Inputs that hold a shape. TensorRT 8.6 tells the first of their values only: the others are left to it."""

    def fault(self, shapes: Shapes) -> str:
        """Why the shapes do not fit; empty when they do."""
        for name, least in self.least.items():
            most, shape = self.most[name], shapes[name]
            same_rank = len(shape) == len(least) or name in self.values
            if not same_rank or any(
                not low <= size <= high for low, size, high in zip(least, shape, most, strict=False)
            ):
                if least == most:
                    return f"input {name!r} is {list(shape)}, the engine takes {list(least)}"
                return f"input {name!r} is {list(shape)}, the engine takes {list(least)} to {list(most)}"
        return ""

    @property
    def elements(self) -> int:
        """Elements of all inputs at their largest: the smaller, the closer TensorRT has tuned for small shapes."""
        return sum(prod(shape) for shape in self.most.values())


def narrowest(profiles: Sequence[ProfileRange], shapes: Shapes) -> int:
    """Index of the narrowest profile that holds the shapes; the first of equals.

    Raises InputRefusedError that names input, shape and what would fit.
    """
    faults = [profile.fault(shapes) for profile in profiles]
    fitting = [index for index, fault in enumerate(faults) if not fault]
    if not fitting:
        raise InputRefusedError("; or ".join(dict.fromkeys(faults)))
    return min(fitting, key=lambda index: profiles[index].elements)
