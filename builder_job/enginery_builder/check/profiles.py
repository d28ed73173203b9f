"""Do spec.shapes.profiles fit the model's inputs? By their numbers alone; whether the model runs is for `trial`."""

import math
from collections.abc import Sequence

from enginery_store.errors import FinalError
from enginery_store.manifest import InputRange, ShapeProfile, TensorSpec
from enginery_store.reasons import Reason

from enginery_builder.wording import listed, quoted

LARGEST_ELEMENTS = 1 << 31
"""Elements of one input at a profile's max: 8 GiB of FP32. A parser would accept terabytes without a word."""


def require_fitting(inputs: Sequence[TensorSpec], profiles: Sequence[ShapeProfile]) -> None:
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
            _require_range(profile.name, item, known[item.name].shape)


def _require_range(profile: str, item: InputRange, shape: list[int]) -> None:
    where = f"input {quoted(item.name)}"
    for end, sizes in (("min", item.min), ("opt", item.opt), ("max", item.max)):
        if len(sizes) != len(shape):
            raise _invalid(
                profile, f"{where} has {len(shape)} dimensions, {end} gives {len(sizes)}; write {_pattern(shape)}"
            )
    for axis, (low, best, high, fixed) in enumerate(zip(item.min, item.opt, item.max, shape, strict=True)):
        _require_axis(profile, f"{where}, dimension {axis}", (low, best, high), fixed)
    elements = math.prod(item.max)
    if elements > LARGEST_ELEMENTS:
        raise _invalid(profile, f"{where} has {elements} elements at max, {LARGEST_ELEMENTS} are allowed; lower max")


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


def _pattern(shape: list[int]) -> str:
    return f"[{', '.join('N' if size == -1 else str(size) for size in shape)}]"


def _invalid(profile: str, text: str) -> FinalError:
    return FinalError(f"spec.shapes.profiles {quoted(profile)}: {text}", reason=Reason.INVALID_SHAPES)
