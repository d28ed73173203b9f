"""Does ONNX Runtime take the model, and does the model run at the ends of its profiles? The last of the checks.

A batch baked into a Reshape, or two inputs whose sizes must agree, show only when the model runs. Values are generated,
and a model may refuse those; so a profile is at fault only if the model runs at one of its ends and not at another.
"""

import logging
import math
from collections.abc import Collection, Sequence
from pathlib import Path

import onnx
from enginery_store.errors import EngineryError, FinalError
from enginery_store.manifest import ShapeProfile, TensorSpec
from enginery_store.reasons import Reason
from enginery_store.wording import quoted

from enginery_builder.artifacts import CheckedModel
from enginery_builder.backend import OpenModel, Tensors, leading_is_free, open_reference
from enginery_builder.check import memory
from enginery_builder.check.structure import Structure
from enginery_builder.samples import attempts, sizes_of
from enginery_builder.shapes import Shapes, batch_of, free_shapes, profile_shapes, with_batch

LOG = logging.getLogger(__name__)

ENDS = ("min", "opt", "max")

_BFLOAT16 = (
    "The model is in BF16, which cannot be compared with FP32; export it in FP32 and set spec.precision.type to BF16"
)

TRIAL_ELEMENTS = 1 << 22
"""Larger inputs are not tried: this Job has no device, and its time is for checking."""

TRIAL_BYTES = 2 << 30
"""Shapes at which operators would make more than this together are not tried: this Job's memory is for checking."""


def with_inferred_shapes(
    path: Path, outputs: Sequence[TensorSpec], declared: Collection[str], structure: Structure
) -> tuple[TensorSpec, ...]:
    """Outputs without a declared shape get the one ONNX Runtime infers, or [-1]. Raises when it refuses the model."""
    try:
        inferred = open_reference(path, Reason.SOURCE_INVALID).output_shapes()
    except FinalError as error:
        if error.reason == Reason.UNSUPPORTED_OPERATOR and onnx.TensorProto.BFLOAT16 in structure.types.values():
            raise FinalError(f"{error.message}. {_BFLOAT16}", reason=error.reason) from None
        raise
    return tuple(
        spec if spec.name in declared else spec.model_copy(update={"shape": inferred.get(spec.name) or [-1]})
        for spec in outputs
    )


def require_running(model: CheckedModel, structure: Structure, profiles: Sequence[ShapeProfile]) -> None:
    """Raises FinalError: InvalidShapes for a profile, SourceInvalid for a model of fixed shapes that never runs."""
    opened = open_reference(model.path, Reason.SOURCE_INVALID)
    for profile in profiles:
        faults = {
            end: _fault(opened, model, shapes, sizes_of(model.inputs, model.shape_inputs, profile, end))
            for end in ENDS
            for shapes in [_affordable(model, structure, profile, end)]
            if shapes
        }
        broken = {end: fault for end, fault in faults.items() if fault}
        if broken and len(broken) < len(faults):
            end, fault = next(iter(broken.items()))
            raise FinalError(
                f"spec.shapes.profiles {quoted(profile.name)}: the model does not run at its {end} shapes: {fault};"
                " change the range, or export the model with these dimensions free",
                reason=Reason.INVALID_SHAPES,
            )
        LOG.info("profile tried", extra={"profile": profile.name, "ends": len(faults), "failed": len(broken)})
    if not profiles:
        _require_fixed_model_runs(opened, model, structure)


def _affordable(model: CheckedModel, structure: Structure, profile: ShapeProfile, end: str) -> Shapes | None:
    """The shapes at this end; where they are too large, min with one sample more, which shows a batch baked in."""
    shapes = profile_shapes(model.inputs, profile, end)
    if _small(structure, shapes):
        return shapes
    least = profile_shapes(model.inputs, profile, "min")
    more = with_batch(model.inputs, least, batch_of(model.inputs, least) + 1)
    free = [spec.name for spec in model.inputs if leading_is_free(spec)]
    one_batch = len({(least[name][0], shapes[name][0]) for name in free}) == 1
    within = all(more[name][0] <= shapes[name][0] for name in free)
    return more if one_batch and within and _small(structure, more) else None


def _require_fixed_model_runs(opened: OpenModel, model: CheckedModel, structure: Structure) -> None:
    """With fixed shapes and floating-point inputs there is no value a model may refuse."""
    fixed = all(size != -1 and spec.datatype.startswith("FP") for spec in model.inputs for size in spec.shape)
    shapes = free_shapes(model.inputs, 1, 1)
    if fixed and _small(structure, shapes) and (fault := _fault(opened, model, shapes, {})):
        raise FinalError(f"the model does not run: {fault}; export it again", reason=Reason.SOURCE_INVALID)


def _small(structure: Structure, shapes: Shapes) -> bool:
    elements = sum(math.prod(shape) for shape in shapes.values())
    return elements <= TRIAL_ELEMENTS and memory.bytes_of_run(structure, shapes) <= TRIAL_BYTES


def _fault(opened: OpenModel, model: CheckedModel, shapes: Shapes, sizes: Tensors) -> str:
    """Why the model does not run at these shapes, or nothing when it does."""
    fault = ""
    for feeds in attempts(model.inputs, shapes, seed=0, sizes=sizes):
        try:
            opened.run(feeds)
        except EngineryError as error:
            if error.reason == Reason.BUILD_OUT_OF_MEMORY:
                LOG.warning("trial ran out of memory", extra={"shapes": shapes})
                return ""
            fault = error.message.removeprefix("ONNX Runtime refuses the model: ").removesuffix("; export it again")
        else:
            return ""
    return fault
