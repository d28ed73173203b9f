"""Does every tensor fit into memory at the largest shapes that the profiles allow? Parsers take terabytes silently."""

from collections.abc import Sequence

from enginery_store.errors import FinalError
from enginery_store.manifest import ShapeProfile, TensorSpec
from enginery_store.reasons import Reason
from enginery_store.wording import quoted

from enginery_builder.check.structure import Structure
from enginery_builder.shapes import DEFAULT_PROFILE, Shapes, free_shapes, profile_shapes

LARGEST_ACTIVATION_BYTES = 32 << 30
"""One tensor between operators, or an output. An operator needs what it reads and what it writes at once, so no device
of today (up to 180 GiB) runs a model with much larger ones."""


def require_bounded(structure: Structure, inputs: Sequence[TensorSpec], profiles: Sequence[ShapeProfile]) -> None:
    """Raises FinalError (InvalidShapes) that names profile, node, tensor and size.

    Sizes that depend on data are unknown and not judged.
    """
    for name, shapes in _largest(inputs, profiles):
        sizes = structure.sizes_at(shapes)
        tensor = max(sizes, key=lambda key: sizes[key], default="")
        if tensor and sizes[tensor] > LARGEST_ACTIVATION_BYTES:
            node = structure.maker_of(tensor)
            raise FinalError(
                f"spec.shapes.profiles {quoted(name)}: at max, {quoted(node.op_type)} (node {quoted(node.name)}) makes"
                f" tensor {quoted(tensor)} of {sizes[tensor]} bytes, {LARGEST_ACTIVATION_BYTES} are allowed; lower max",
                reason=Reason.INVALID_SHAPES,
            )


def bytes_of_run(structure: Structure, shapes: Shapes) -> int:
    """All tensors that nodes make in one run, together: more than the most that is alive at once."""
    return sum(structure.sizes_at(shapes).values())


def _largest(inputs: Sequence[TensorSpec], profiles: Sequence[ShapeProfile]) -> list[tuple[str, Shapes]]:
    if profiles:
        return [(profile.name, profile_shapes(inputs, profile, "max")) for profile in profiles]
    return [(DEFAULT_PROFILE, free_shapes(inputs, 1, 1))]
