"""In which precision a model computes: as its network says, and as the engine's inspector says. Called by `compiler`.

TensorRT 11 builds an FP32 engine from an FP32 graph whatever was asked for, with one warning. Such an engine would be
served under the name of another precision, so it is an error here.
"""

import json
import logging
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from enginery_store.errors import FinalError
from enginery_store.reasons import Reason

if TYPE_CHECKING:
    import tensorrt as trt

LOG = logging.getLogger(__name__)

_DTYPES = {"FP16": "HALF", "BF16": "BF16", "INT8": "INT8", "FP8": "FP8"}
"""From our words to members of trt.DataType, for all precisions that need proof."""

_QUANTIZED = frozenset({"INT8", "FP8"})

_MOVING = frozenset({"CONSTANT", "CAST", "IDENTITY", "SHUFFLE", "CONCATENATION", "SLICE", "GATHER"})
"""Layers of a network that compute nothing: a model that holds only these in FP16 does not compute in FP16."""

_ENGINE_MOVING = frozenset({"Reformat", "Constant", "NoOp", "Shuffle", "Slice", "Gather", "CopyPackedKernel"})
"""The same for layers of an engine, by the inspector's LayerType."""

_WORDS = (
    ("FP8", re.compile(r"FP8|E4M3", re.IGNORECASE)),
    ("INT8", re.compile(r"\bU?Int8\b", re.IGNORECASE)),
    ("BF16", re.compile(r"BF16|BFloat16", re.IGNORECASE)),
    ("FP16", re.compile(r"FP16|Half", re.IGNORECASE)),
    ("FP32", re.compile(r"FP32|Float\b", re.IGNORECASE)),
)
"""The inspector's words for types, lowest first; 8.6 writes "Row major linear FP16 format", later releases "Half"."""

_TYPE_KEYS = re.compile(r"type|format", re.IGNORECASE)
"""8.6 and 10 write "Format/Datatype"; 11 splits it."""

OPAQUE = "Opaque"
"""Counts layers whose inside the inspector does not tell: whole graphs that 8.6 compiled as one."""


def require_network_precision(network: "trt.INetworkDefinition", precision: str) -> None:
    """Raises FinalError (BuildFailed) unless the graph of a strongly typed network holds what is asked for."""
    if precision not in _DTYPES:
        return
    wanted = _DTYPES[precision]
    layers = (network.get_layer(number) for number in range(network.num_layers))
    if precision in _QUANTIZED:
        found = any(wanted in _types(layer) for layer in layers if "QUANTIZE" in layer.type.name)
    else:
        found = any(wanted in _types(layer) for layer in layers if layer.type.name not in _MOVING)
    if not found:
        raise _not_built(precision, "no layer of the model computes in it")


def require_engine_precision(layers: Mapping[str, int], precision: str) -> None:
    """Raises FinalError (BuildFailed) where the inspector's counts of layers disprove the precision."""
    proven = not layers or OPAQUE in layers or precision not in _DTYPES or precision in layers
    if not proven:
        told = ", ".join(f"{count} in {name}" for name, count in sorted(layers.items()))
        raise _not_built(precision, f"of the engine's layers none computes in it ({told})")


def engine_layers(inspected: str) -> dict[str, int]:
    """Layers by the precision they compute in, from the inspector's JSON; empty where it tells no more than names."""
    try:
        layers = json.loads(inspected, strict=False)["Layers"]  # 8.6 parts names by control characters
    except (ValueError, KeyError, TypeError):  # it says what an engine is, not whether it is good
        LOG.warning("the inspector's words are not understood", extra={"text": inspected[:200]})
        return {}
    return dict(Counter(word for layer in layers if isinstance(layer, dict) if (word := _computes_in(layer))))


def _types(layer: "trt.ILayer") -> Iterator[str]:
    tensors = [layer.get_input(number) for number in range(layer.num_inputs)]
    tensors += [layer.get_output(number) for number in range(layer.num_outputs)]
    return (tensor.dtype.name for tensor in tensors if tensor is not None)


def _computes_in(layer: Mapping[str, Any]) -> str:
    """The lowest precision a layer reads, or writes where it reads none: an INT8 convolution may write FP16."""
    if layer.get("LayerType") in _ENGINE_MOVING:
        return ""
    if "ForeignNode" in str(layer.get("Name")):
        return OPAQUE
    return _lowest(layer.get("Inputs") or ()) or _lowest(layer.get("Outputs") or ())


def _lowest(tensors: Any) -> str:
    texts = [
        str(value)
        for tensor in tensors
        if isinstance(tensor, dict)
        for key, value in tensor.items()
        if _TYPE_KEYS.search(key)
    ]
    return next((word for word, pattern in _WORDS if any(pattern.search(text) for text in texts)), "")


def _not_built(precision: str, why: str) -> FinalError:
    return FinalError(
        f"spec.precision.type {precision} was asked for, but {why}; write FP32, or a source that can be converted",
        reason=Reason.BUILD_FAILED,
    )
