"""What a request and an answer are, whichever front end they came through, and whether a request fits the model.

Codecs make an `InferRequest` out of wire formats; the scheduler queues it and calls `done` exactly once, on the event
loop, with an `InferResult` or a `RequestError`. So both front ends give the same answers.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from reprlib import repr as brief

import numpy as np
from enginery_store.manifest import EngineManifest, ShapeProfile, TensorSpec

from enginery_runtime.datatypes import DTYPES, Array
from enginery_runtime.errors import InvalidRequestError, RequestError

Signature = tuple[tuple[str, tuple[int, ...]], ...]
"""Names and non-batch shapes of all inputs, sorted: requests with equal signatures may share a batch."""


@dataclass(frozen=True, slots=True)
class InferResult:
    """Output tensors by name, in the order asked for."""

    outputs: Mapping[str, Array]


Done = Callable[[InferResult | RequestError], None]


@dataclass(slots=True, eq=False)
class InferRequest:
    """One request on its way; identity counts, not equality."""

    protocol: str
    """REST or GRPC, for metrics."""
    inputs: dict[str, Array]
    outputs: tuple[str, ...]
    """Names asked for; empty for all."""
    done: Done
    id: str = ""
    parameters: Mapping[str, object] = field(default_factory=dict)
    rows: int = 1
    """Leading dimension when the model batches, else 1."""
    signature: Signature = ()
    received: float = 0.0
    """Moments of the monotonic clock, in seconds; 0 until they come."""
    started: float = 0.0
    computed: float = 0.0
    deadline: float | None = None
    """Moment after which it must not be started any more."""


class ModelShape:
    """What requests are compared with: the engine's inputs, outputs and profiles, and how large a batch may be."""

    def __init__(self, manifest: EngineManifest, max_batch_size: int) -> None:
        """`max_batch_size` is what the tenant asked for; profiles and fixed dimensions may allow less."""
        self.inputs: dict[str, TensorSpec] = {spec.name: spec for spec in manifest.inputs}
        self.outputs: dict[str, TensorSpec] = {spec.name: spec for spec in manifest.outputs}
        self.profiles = manifest.profiles
        self.shape_inputs = frozenset(manifest.shape_inputs)
        """Inputs whose values are sizes: profiles hold ranges of their values."""
        tensors = [*manifest.inputs, *manifest.outputs]
        self.batches = max_batch_size > 1 and all(spec.shape and spec.shape[0] == -1 for spec in tensors)
        """A fixed leading dimension, or none, is never merged; nor are sizes, which are fixed lists of numbers."""
        largest = max(map(_largest_batch, manifest.profiles), default=MAX_DIMENSION)
        self.max_rows = min(max_batch_size, largest) if self.batches else 1

    def admit(self, request: InferRequest) -> None:
        """Complete rows and signature of a request that fits; raise InvalidRequestError naming the field otherwise."""
        given = request.inputs
        for name in self.inputs:
            if name not in given:
                raise InvalidRequestError(f"inputs: {name!r} is missing; the model has {sorted(self.inputs)}")
        for output in request.outputs:
            if output not in self.outputs:
                raise InvalidRequestError(f"outputs: {output!r} is unknown; the model has {sorted(self.outputs)}")
        if self.profiles:
            self._require_profile(given)
        if not self.batches:
            return
        rows = next(iter(given.values())).shape[0]
        for name, array in given.items():
            if array.shape[0] != rows:
                raise InvalidRequestError(f"input {name!r}: {array.shape[0]} rows, but another input has {rows}")
        if rows > self.max_rows:
            raise InvalidRequestError(f"shape: a batch of {rows} is larger than {self.max_rows}, the model's maximum")
        request.rows = rows
        request.signature = tuple(sorted((name, array.shape[1:]) for name, array in given.items()))

    def require_input(
        self, name: object, datatype: object, shape: Sequence[object]
    ) -> tuple[TensorSpec, tuple[int, ...]]:
        """The declared input and its shape, once they fit the model; both codecs call it before they read data."""
        spec = self.inputs.get(name) if isinstance(name, str) else None
        if spec is None:
            raise InvalidRequestError(f"inputs: {brief(name)} is unknown; the model has {sorted(self.inputs)}")
        if datatype != spec.datatype:
            known = isinstance(datatype, str) and datatype in DTYPES
            other = "" if known else ", which the protocol does not have"
            raise InvalidRequestError(f"input {name!r}: datatype is {spec.datatype}, not {brief(datatype)}{other}")
        dimensions: list[int] = []
        for value in shape:
            if type(value) is not int or value < 1 or value > MAX_DIMENSION:
                raise InvalidRequestError(f"input {name!r}: shape holds {brief(value)}; a dimension is a number from 1")
            dimensions.append(value)
        if len(dimensions) != len(spec.shape) or any(
            want not in (-1, have) for want, have in zip(spec.shape, dimensions, strict=True)
        ):
            raise InvalidRequestError(f"input {name!r}: shape is {spec.shape} (-1: free), not {brief(dimensions)}")
        return spec, tuple(dimensions)

    def _require_profile(self, given: Mapping[str, Array]) -> None:
        found = {
            name: tuple(array.reshape(-1).tolist()) if name in self.shape_inputs else array.shape
            for name, array in given.items()
        }
        faults = [_fault(profile, found) for profile in self.profiles]
        if all(faults):
            raise InvalidRequestError(
                f"shape: {faults[0]}" if len(faults) == 1 else f"shape: no profile fits: {faults}"
            )


MAX_DIMENSION = 2**31 - 1
"""Engines count elements of a dimension in 32 bits."""


def _largest_batch(profile: ShapeProfile) -> int:
    return min((entry.max[0] for entry in profile.inputs if entry.max), default=MAX_DIMENSION)


def _fault(profile: ShapeProfile, given: Mapping[str, tuple[int, ...]]) -> str:
    """`given` are shapes by input, or the values of an input that holds sizes."""
    for entry in profile.inputs:
        sizes = given.get(entry.name)
        if sizes is None or len(entry.min) != len(sizes):
            continue
        for low, size, high in zip(entry.min, sizes, entry.max, strict=True):
            if not low <= size <= high:
                return (
                    f"input {entry.name!r} is {list(sizes)}; profile {profile.name!r} takes {entry.min} to {entry.max}"
                )
    return ""


def split_rows(outputs: Mapping[str, Array], requests: Sequence[InferRequest]) -> list[dict[str, Array]]:
    """Each request's rows of a batch's outputs. Raises ValueError when an output has not as many rows as went in."""
    rows = sum(request.rows for request in requests)
    for name, array in outputs.items():
        if array.ndim == 0 or array.shape[0] != rows:
            raise ValueError(f"output {name!r} has shape {list(array.shape)} for a batch of {rows}")
    parts, at = [], 0
    for request in requests:
        end = at + request.rows
        parts.append({name: array[at:end] for name, array in outputs.items()})
        at = end
    return parts


def merge_rows(requests: Sequence[InferRequest]) -> dict[str, Array]:
    """One batch out of the requests' inputs, in their order."""
    return {name: np.concatenate([request.inputs[name] for request in requests]) for name in requests[0].inputs}
