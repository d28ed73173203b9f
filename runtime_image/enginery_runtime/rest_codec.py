"""JSON and binary tensors of REST, to requests and from results. Pure; called by `rest` only.

A body is JSON, or JSON followed by raw tensors in the order of the inputs; then the header
Inference-Header-Content-Length says where the JSON ends. All refusals name the field.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import orjson
from enginery_store.manifest import TensorSpec

from enginery_runtime.datatypes import DTYPES, Array, element_count, from_raw, to_raw
from enginery_runtime.errors import InvalidRequestError
from enginery_runtime.infer import InferResult, ModelShape

_JSON_TYPES: dict[str, frozenset[type]] = (
    {"BOOL": frozenset({bool}), "BYTES": frozenset({str})}
    | {name: frozenset({int, float}) for name in ("FP16", "FP32", "FP64")}
    | {name: frozenset({int}) for name in DTYPES if "INT" in name}
)
"""What JSON values an element may be; BF16 is absent, it travels as binary data only."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """What a body asks for. `binary` names outputs wanted as raw bytes; `all_binary` holds for those not named."""

    inputs: dict[str, Array]
    outputs: tuple[str, ...]
    id: str
    parameters: Mapping[str, object]
    binary: Mapping[str, bool]
    all_binary: bool


def decode(body: bytes | bytearray, json_length: bytes | None, shape: ModelShape) -> Decoded:
    """Read a body; raises InvalidRequestError."""
    size = _json_size(body, json_length)
    try:
        document = orjson.loads(body if size == len(body) else memoryview(body)[:size])
    except orjson.JSONDecodeError as error:
        raise InvalidRequestError(f"body: not valid JSON: {error}") from None
    if type(document) is not dict:
        raise InvalidRequestError("body: must be a JSON object")
    parameters = _parameters(document, "request")
    inputs = _inputs(document.get("inputs"), memoryview(body)[size:], shape)
    outputs, binary = _outputs(document.get("outputs", []))
    request_id = document.get("id", "")
    if type(request_id) is not str:
        raise InvalidRequestError("id: must be a string")
    all_binary = _flag(parameters, "binary_data_output", "request")
    return Decoded(inputs, outputs, request_id, parameters, binary, all_binary)


def _json_size(body: bytes | bytearray, json_length: bytes | None) -> int:
    if json_length is None:
        return len(body)
    if not json_length.isdigit() or int(json_length) > len(body):
        raise InvalidRequestError(
            f"Inference-Header-Content-Length: {json_length.decode('latin-1')!r} is not a length within the body's"
            f" {len(body)} bytes"
        )
    return int(json_length)


def _inputs(items: Any, raw: memoryview, shape: ModelShape) -> dict[str, Array]:
    if type(items) is not list or not items:
        raise InvalidRequestError("inputs: must be a list of at least one tensor")
    inputs: dict[str, Array] = {}
    at = 0
    for item in items:
        if type(item) is not dict:
            raise InvalidRequestError("inputs: every tensor must be an object")
        name, dimensions = item.get("name"), item.get("shape")
        if type(dimensions) is not list:
            raise InvalidRequestError(f"input {name!r}: shape must be a list of numbers")
        spec, sizes = shape.require_input(name, item.get("datatype"), dimensions)
        name = spec.name
        if name in inputs:
            raise InvalidRequestError(f"inputs: {name!r} is given twice")
        size = _parameters(item, f"input {name!r}").get("binary_data_size")
        if size is None:
            inputs[name] = _from_json(name, spec.datatype, sizes, item.get("data"))
            continue
        if "data" in item:
            raise InvalidRequestError(f"input {name!r}: has both data and binary_data_size")
        if type(size) is not int or size < 0 or at + size > len(raw):
            raise InvalidRequestError(
                f"input {name!r}: binary_data_size {size!r} is not within the {len(raw) - at} bytes that follow"
            )
        inputs[name] = from_raw(name, spec.datatype, sizes, raw[at : at + size])
        at += size
    if at != len(raw):
        raise InvalidRequestError(f"body: {len(raw) - at} bytes follow the last tensor's binary data")
    return inputs


def _from_json(name: str, datatype: str, shape: tuple[int, ...], data: Any) -> Array:
    allowed = _JSON_TYPES.get(datatype)
    if allowed is None:
        raise InvalidRequestError(f"input {name!r}: {datatype} has no JSON form; send it as binary data")
    if type(data) is not list:
        raise InvalidRequestError(f"input {name!r}: data must be a list")
    flat = _flat(name, data, shape)
    if len(flat) != element_count(shape):
        raise InvalidRequestError(
            f"input {name!r}: shape {list(shape)} has {element_count(shape)} elements, data has {len(flat)}"
        )
    wrong = set(map(type, flat)) - allowed
    if wrong:
        found = sorted(kind.__name__ for kind in wrong)
        raise InvalidRequestError(f"input {name!r}: data holds {found}, which {datatype} does not take")
    if datatype == "BYTES":
        text = np.empty(len(flat), np.object_)
        text[:] = [item.encode() for item in flat]
        return text.reshape(shape)
    try:
        with np.errstate(over="raise"):
            return np.array(flat, DTYPES[datatype]).reshape(shape)
    except (OverflowError, FloatingPointError):
        raise InvalidRequestError(f"input {name!r}: data holds a number beyond {datatype}") from None


def _flat(name: str, data: list[Any], shape: tuple[int, ...]) -> list[Any]:
    """Nested lists must follow the shape exactly; a flat list is as good."""
    for dimension in shape[1:]:
        kinds = set(map(type, data))
        if list not in kinds:
            break
        if kinds != {list} or set(map(len, data)) != {dimension}:
            raise InvalidRequestError(f"input {name!r}: data is ragged; it must be flat or nested as {list(shape)}")
        data = list(chain.from_iterable(data))
    return data


def _outputs(items: Any) -> tuple[tuple[str, ...], dict[str, bool]]:
    if type(items) is not list:
        raise InvalidRequestError("outputs: must be a list")
    names: list[str] = []
    binary: dict[str, bool] = {}
    for item in items:
        name = item.get("name") if type(item) is dict else None
        if type(name) is not str:
            raise InvalidRequestError("outputs: every output must be an object with a name")
        if name in names:
            raise InvalidRequestError(f"outputs: {name!r} is asked for twice")
        parameters = _parameters(item, f"output {name!r}")
        if parameters.get("classification"):
            raise InvalidRequestError(f"output {name!r}: classification is not supported; ask for the tensor")
        if "binary_data" in parameters:
            binary[name] = _flag(parameters, "binary_data", f"output {name!r}")
        names.append(name)
    return tuple(names), binary


def _parameters(item: Mapping[str, Any], where: str) -> dict[str, Any]:
    parameters = item.get("parameters")
    if parameters is None:
        return {}
    if type(parameters) is not dict:
        raise InvalidRequestError(f"{where}: parameters must be an object")
    return parameters


def _flag(parameters: Mapping[str, Any], name: str, where: str) -> bool:
    value = parameters.get(name, False)
    if type(value) is not bool:
        raise InvalidRequestError(f"{where}: parameter {name} must be true or false")
    return value


def encode(
    head: Mapping[str, object], result: InferResult, specs: Mapping[str, TensorSpec], asked: Decoded
) -> tuple[bytes, int | None]:
    """The answer's body, and the length of its JSON when raw tensors follow.

    `head` holds model name, version and id. Floats that JSON cannot hold (NaN and infinities) become null.
    """
    outputs: list[dict[str, object]] = []
    raws: list[bytes] = []
    for name, array in result.outputs.items():
        datatype = specs[name].datatype
        output: dict[str, object] = {"name": name, "datatype": datatype, "shape": array.shape}
        if asked.binary.get(name, asked.all_binary):
            raw = to_raw(array)
            output["parameters"] = {"binary_data_size": len(raw)}
            raws.append(raw)
        else:
            output["data"] = _to_json(name, datatype, array)
        outputs.append(output)
    document = orjson.dumps({**head, "outputs": outputs}, option=orjson.OPT_SERIALIZE_NUMPY)
    if not raws:
        return document, None
    return b"".join(chain((document,), raws)), len(document)


def _to_json(name: str, datatype: str, array: Array) -> Array | list[object]:
    if datatype == "BF16":
        raise InvalidRequestError(f"output {name!r}: BF16 has no JSON form; ask for it with binary_data")
    if datatype != "BYTES":
        return np.ascontiguousarray(array).reshape(-1)
    return list(_texts(name, array.reshape(-1).tolist()))


def _texts(name: str, items: Iterable[bytes]) -> Iterable[object]:
    for item in items:
        try:
            yield item.decode()
        except UnicodeDecodeError:
            raise InvalidRequestError(
                f"output {name!r}: holds bytes that are not UTF-8; ask with binary_data"
            ) from None
