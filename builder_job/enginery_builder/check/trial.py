"""Does ONNX Runtime take the model, and does the model run at the ends of its profiles? The last of the checks.

A batch baked into a Reshape, or two inputs whose sizes must agree, show only when the model runs. Values are generated,
and a model may refuse those; so a profile is at fault only if the model runs at one of its ends and not at another.
"""

import logging
import math
from collections.abc import Collection, Sequence
from pathlib import Path

from enginery_store.errors import EngineryError, FinalError
from enginery_store.manifest import ShapeProfile, TensorSpec
from enginery_store.reasons import Reason

from enginery_builder.artifacts import CheckedModel
from enginery_builder.backend import OpenModel, open_reference
from enginery_builder.samples import attempts
from enginery_builder.shapes import Shapes, free_shapes, profile_shapes
from enginery_builder.wording import quoted

LOG = logging.getLogger(__name__)

TRIAL_ELEMENTS = 1 << 22
"""Larger inputs are not tried: this Job has no device, and its time is for checking."""


def with_inferred_shapes(
    path: Path, outputs: Sequence[TensorSpec], declared: Collection[str]
) -> tuple[TensorSpec, ...]:
    """Outputs without a declared shape get the one ONNX Runtime infers, or [-1]. Raises when it refuses the model."""
    inferred = open_reference(path, Reason.SOURCE_INVALID).output_shapes()
    return tuple(
        spec if spec.name in declared else spec.model_copy(update={"shape": inferred.get(spec.name) or [-1]})
        for spec in outputs
    )


def require_running(model: CheckedModel, profiles: Sequence[ShapeProfile]) -> None:
    """Raises FinalError: InvalidShapes for a profile, SourceInvalid for a model of fixed shapes that never runs."""
    opened = open_reference(model.path, Reason.SOURCE_INVALID)
    for profile in profiles:
        faults = {
            end: fault
            for end in ("min", "opt", "max")
            if _small(shapes := profile_shapes(model.inputs, profile, end))
            for fault in [_fault(opened, model, shapes)]
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
        _require_fixed_model_runs(opened, model)


def _require_fixed_model_runs(opened: OpenModel, model: CheckedModel) -> None:
    """With fixed shapes and floating-point inputs there is no value a model may refuse."""
    fixed = all(size != -1 and spec.datatype.startswith("FP") for spec in model.inputs for size in spec.shape)
    shapes = free_shapes(model.inputs, 1, 1)
    if fixed and _small(shapes) and (fault := _fault(opened, model, shapes)):
        raise FinalError(f"the model does not run: {fault}; export it again", reason=Reason.SOURCE_INVALID)


def _small(shapes: Shapes) -> bool:
    return sum(math.prod(shape) for shape in shapes.values()) <= TRIAL_ELEMENTS


def _fault(opened: OpenModel, model: CheckedModel, shapes: Shapes) -> str:
    """Why the model does not run at these shapes, or nothing when it does."""
    fault = ""
    for feeds in attempts(model.inputs, shapes, seed=0):
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
