"""Do spec.shapes.profiles fit the model's inputs? By their numbers alone; whether the model runs is for `trial`.

A range holds one number for each dimension. For an input whose values are themselves sizes (`shape_inputs`) it holds
one number for each value, as compilers need to know those.
"""

import math
from collections.abc import Collection, Sequence

from enginery_store.errors import FinalError
from enginery_store.manifest import InputRange, ShapeProfile, TensorSpec
from enginery_store.reasons import Reason
from enginery_store.wording import listed, quoted

from enginery_builder.backend import NUMPY_TYPES

LARGEST_INPUT_BYTES = 8 << 30
"""One input at a profile's max. No request is larger than 2 GiB (gRPC's limit), and a batch joins a few of them; a
compiler would take terabytes without a word."""

LARGEST_SIZE = (1 << 31) - 1
"""The largest value of an input that is itself a size: what INT32 holds, which is how exporters write sizes."""


def require_fitting(
    inputs: Sequence[TensorSpec], profiles: Sequence[ShapeProfile], shape_inputs: Collection[str] = ()
) -> None:
    """Raises FinalError (InvalidShapes) that names profile, input and dimension."""
    known = {spec.name: spec for spec in inputs}
    names = [profile.name for profile in profiles]
    for profile in profiles:
        if names.count(profile.name) > 1:
            raise _invalid(profile.name, "its name is used twice; give each profile its own")
        seen: set[str] = set()
        for item in profile.inputs:
            if item.name not in known:
                raise _invalid(
                    profile.name, f"the model has no input {quoted(item.name)}; its inputs are {listed(known)}"
                )
            if item.name in seen:
                raise _invalid(profile.name, f"input {quoted(item.name)} stands in it twice; keep one range")
            seen.add(item.name)
            if item.name in shape_inputs:
                _require_values(profile.name, item, math.prod(known[item.name].shape))
            else:
                _require_range(profile.name, item, known[item.name])


def _require_values(profile: str, item: InputRange, count: int) -> None:
    where = f"input {quoted(item.name)}"
    for end, values in (("min", item.min), ("opt", item.opt), ("max", item.max)):
        if len(values) != count:
            raise _invalid(
                profile, f"{where} holds {count} sizes, {end} gives {len(values)}; write the least, usual and largest"
            )
    for index, sizes in enumerate(zip(item.min, item.opt, item.max, strict=True)):
        _require_axis(profile, f"{where}, value {index}", sizes, -1)
        if item.max[index] > LARGEST_SIZE:
            raise _invalid(profile, f"{where}, value {index}: max is {item.max[index]}, {LARGEST_SIZE} is allowed")


def _require_range(profile: str, item: InputRange, spec: TensorSpec) -> None:
    where, shape = f"input {quoted(item.name)}", spec.shape
    for end, sizes in (("min", item.min), ("opt", item.opt), ("max", item.max)):
        if len(sizes) != len(shape):
            raise _invalid(
                profile, f"{where} has {len(shape)} dimensions, {end} gives {len(sizes)}; write {_pattern(shape)}"
            )
    for axis, (low, best, high, fixed) in enumerate(zip(item.min, item.opt, item.max, shape, strict=True)):
        _require_axis(profile, f"{where}, dimension {axis}", (low, best, high), fixed)
    size = math.prod(item.max) * bytes_per_element(spec.datatype)
    if size > LARGEST_INPUT_BYTES:
        raise _invalid(profile, f"{where} has {size} bytes at max, {LARGEST_INPUT_BYTES} are allowed; lower max")


def _require_axis(profile: str, where: str, sizes: tuple[int, int, int], fixed: int) -> None:
    low, best, high = sizes
    if low < 1:
        raise _invalid(profile, f"{where}: min is {low}; sizes start at 1")
    if low > best:
        raise _invalid(profile, f"{where}: min {low} is more than opt {best}; write min <= opt <= max")
    if best > high:
        raise _invalid(profile, f"{where}: opt {best} is more than max {high}; write min <= opt <= max")
    if fixed != -1 and (low, high) != (fixed, fixed):
        raise _invalid(
            profile,
            f"{where} is fixed to {fixed} in the model, the profile says {low} to {high}; write {fixed}, or export"
            " the model with this dimension free",
        )


def bytes_per_element(datatype: str) -> int:
    """Of an OIP datatype; text counts as one byte."""
    if datatype in {"BYTES", "BF16"}:
        return 2 if datatype == "BF16" else 1
    return NUMPY_TYPES[datatype].itemsize


def _pattern(shape: list[int]) -> str:
    return f"[{', '.join('N' if size == -1 else str(size) for size in shape)}]"


def _invalid(profile: str, text: str) -> FinalError:
    return FinalError(f"spec.shapes.profiles {quoted(profile)}: {text}", reason=Reason.INVALID_SHAPES)
