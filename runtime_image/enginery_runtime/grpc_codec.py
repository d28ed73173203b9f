"""Tensors of gRPC messages, to requests and from results. Pure; called by `grpc_front` only.

A request carries all tensors raw or all typed, and is answered in kind. FP16 and BF16 have no typed form, so an answer
that holds one is raw.
"""

from collections.abc import Mapping

import numpy as np
from enginery_store.manifest import TensorSpec

from enginery_runtime.datatypes import DTYPES, Array, element_count, from_raw, to_raw
from enginery_runtime.errors import InvalidRequestError
from enginery_runtime.infer import InferResult, ModelShape
from enginery_runtime.oip import grpc_service_pb2 as pb

_CONTENTS = {
    "BOOL": "bool_contents",
    "INT8": "int_contents",
    "INT16": "int_contents",
    "INT32": "int_contents",
    "INT64": "int64_contents",
    "UINT8": "uint_contents",
    "UINT16": "uint_contents",
    "UINT32": "uint_contents",
    "UINT64": "uint64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
    "BYTES": "bytes_contents",
}
"""The typed field of each datatype."""

_NARROW = frozenset({"INT8", "INT16", "UINT8", "UINT16"})
"""Datatypes whose typed field holds larger numbers than they do."""


def decode_inputs(message: pb.ModelInferRequest, shape: ModelShape) -> dict[str, Array]:
    """The request's tensors; raises InvalidRequestError naming the field."""
    raws = message.raw_input_contents
    if not message.inputs:
        raise InvalidRequestError("inputs: must hold at least one tensor")
    if raws and len(raws) != len(message.inputs):
        raise InvalidRequestError(
            f"raw_input_contents: {len(raws)} entries for {len(message.inputs)} inputs; send all tensors raw, or none"
        )
    inputs: dict[str, Array] = {}
    for index, tensor in enumerate(message.inputs):
        name = tensor.name
        spec, sizes = shape.require_input(name, tensor.datatype, tensor.shape)
        if name in inputs:
            raise InvalidRequestError(f"inputs: {name!r} is given twice")
        if not raws:
            inputs[name] = _from_typed(name, spec.datatype, sizes, tensor.contents)
            continue
        if tensor.HasField("contents") and tensor.contents.ByteSize():
            raise InvalidRequestError(f"input {name!r}: has both contents and raw_input_contents")
        inputs[name] = from_raw(name, spec.datatype, sizes, raws[index])
    return inputs


def _from_typed(name: str, datatype: str, shape: tuple[int, ...], contents: pb.InferTensorContents) -> Array:
    field = _CONTENTS.get(datatype)
    if field is None:
        raise InvalidRequestError(f"input {name!r}: {datatype} has no typed contents; use raw_input_contents")
    others = [descriptor.name for descriptor, _ in contents.ListFields() if descriptor.name != field]
    if others:
        raise InvalidRequestError(f"input {name!r}: {datatype} belongs into {field}, not {others[0]}")
    values = getattr(contents, field)
    if len(values) != element_count(shape):
        raise InvalidRequestError(
            f"input {name!r}: shape {list(shape)} has {element_count(shape)} elements, {field} has {len(values)}"
        )
    if datatype == "BYTES":
        array = np.empty(len(values), np.object_)
        array[:] = list(values)
        return array.reshape(shape)
    try:
        # A list makes numpy compare each number with a narrower type's range; from the field itself it would cut bits.
        return np.array(list(values) if datatype in _NARROW else values, DTYPES[datatype]).reshape(shape)
    except OverflowError:
        raise InvalidRequestError(f"input {name!r}: {field} holds a number beyond {datatype}") from None


def decode_outputs(message: pb.ModelInferRequest) -> tuple[str, ...]:
    """Names of the outputs asked for; empty for all."""
    names: list[str] = []
    for output in message.outputs:
        if "classification" in output.parameters:
            raise InvalidRequestError(f"output {output.name!r}: classification is not supported; ask for the tensor")
        if output.name in names:
            raise InvalidRequestError(f"outputs: {output.name!r} is asked for twice")
        names.append(output.name)
    return tuple(names)


def decode_parameters(message: pb.ModelInferRequest) -> dict[str, object]:
    """The request's parameters as plain values."""
    if not message.parameters:
        return {}
    return {name: getattr(value, value.WhichOneof("parameter_choice") or "string_param")
            for name, value in message.parameters.items()}  # fmt: skip


def encode(
    message: pb.ModelInferRequest, result: InferResult, specs: Mapping[str, TensorSpec], name: str, version: str
) -> pb.ModelInferResponse:
    """The answer to a request, raw or typed as the request was."""
    answer = pb.ModelInferResponse(model_name=name, model_version=version, id=message.id)
    datatypes = [specs[output].datatype for output in result.outputs]
    raw = bool(message.raw_input_contents) or any(datatype not in _CONTENTS for datatype in datatypes)
    for (output, array), datatype in zip(result.outputs.items(), datatypes, strict=True):
        tensor = answer.outputs.add(name=output, datatype=datatype, shape=array.shape)
        if raw:
            answer.raw_output_contents.append(to_raw(array))
        else:
            getattr(tensor.contents, _CONTENTS[datatype]).extend(array.reshape(-1).tolist())
    return answer
