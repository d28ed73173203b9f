"""From spec.shapes.profiles to optimisation profiles. Called by `compiler`.

TensorRT drops a profile it does not like with -1 and a log line, and complains of something else later. So every call
is checked here, and messages name what the tenant wrote.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from enginery_store.errors import FinalError
from enginery_store.manifest import InputRange, ShapeProfile
from enginery_store.reasons import Reason
from enginery_store.wording import listed, quoted
from enginery_tensorrt.library import LineKeeper

from enginery_builder.tensorrt.errors import failure

if TYPE_CHECKING:
    import tensorrt as trt

_FREE = -1


def add_profiles(
    builder: "trt.Builder",
    network: "trt.INetworkDefinition",
    config: "trt.IBuilderConfig",
    profiles: Sequence[ShapeProfile],
    log: LineKeeper,
) -> None:
    """Give the engine its profiles, in the order of the spec; a model of fixed shapes needs none.

    Raises FinalError (InvalidShapes) that names the profile and the input.
    """
    inputs = [network.get_input(number) for number in range(network.num_inputs)]
    open_inputs = [tensor for tensor in inputs if _is_open(tensor)]
    if open_inputs and not profiles:
        raise FinalError(
            f"the sizes of {listed(map(_described, open_inputs))} are free, and no profile bounds them; write"
            " spec.shapes.profiles with min, opt and max for each",
            reason=Reason.INVALID_SHAPES,
        )
    for asked in profiles:
        _add(builder, config, asked, inputs, log)


def _add(
    builder: "trt.Builder",
    config: "trt.IBuilderConfig",
    asked: ShapeProfile,
    inputs: "Sequence[trt.ITensor]",
    log: LineKeeper,
) -> None:
    ranges = {item.name: item for item in asked.inputs}
    profile: trt.IOptimizationProfile = builder.create_optimization_profile()
    for tensor in inputs:
        item = ranges.get(tensor.name)
        if item is not None:
            _set_range(profile, asked.name, tensor, item)
        elif _is_open(tensor):
            raise _invalid(asked.name, f"it has no range for {_described(tensor)}; add min, opt and max")
    if not profile or config.add_optimization_profile(profile) < 0:
        raise failure(log.lines)


def _set_range(profile: "trt.IOptimizationProfile", name: str, tensor: "trt.ITensor", item: InputRange) -> None:
    """Sizes of the dimensions; for a tensor whose values are themselves a shape, those values."""
    ends = (item.min, item.opt, item.max)
    try:
        if tensor.is_shape_tensor:
            profile.set_shape_input(tensor.name, *ends)
        else:
            profile.set_shape(tensor.name, *ends)
    except (RuntimeError, TypeError, ValueError):  # which one differs between releases, and none says more than this
        raise _invalid(
            name,
            f"min {item.min}, opt {item.opt} and max {item.max} do not fit {_described(tensor)}; write one number of 0"
            " or more for each dimension or value, min <= opt <= max",
        ) from None


def _is_open(tensor: "trt.ITensor") -> bool:
    return _FREE in tuple(tensor.shape) or bool(tensor.is_shape_tensor)


def _described(tensor: "trt.ITensor") -> str:
    sizes = ", ".join("N" if size == _FREE else str(size) for size in tuple(tensor.shape))
    values = " (its values are a shape)" if tensor.is_shape_tensor else ""
    return f"input {quoted(tensor.name)} [{sizes}]{values}"


def _invalid(profile: str, text: str) -> FinalError:
    return FinalError(f"spec.shapes.profiles {quoted(profile)}: {text}", reason=Reason.INVALID_SHAPES)
