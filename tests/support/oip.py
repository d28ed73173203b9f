"""Requests of the Open Inference Protocol in the shortest form, for tests that vary one thing of them."""

from collections.abc import Sequence
from typing import Any

import grpc
import numpy as np
from enginery_runtime.oip import grpc_service_pb2 as pb

SERVICE = "/inference.GRPCInferenceService/"


def tensor(name: str, datatype: str, shape: Sequence[Any], data: Any = None, **fields: Any) -> dict[str, Any]:
    """One input as JSON."""
    item = {"name": name, "datatype": datatype, "shape": list(shape)}
    return item | ({} if data is None else {"data": data}) | fields


def x_input(rows: int = 1, width: int = 4) -> dict[str, Any]:
    """A right input of `double_plus_one`."""
    return tensor("x", "FP32", [rows, width], [float(number) for number in range(rows * width)])


def grpc_request(model: str, *inputs: tuple[str, str, np.ndarray], **fields: Any) -> pb.ModelInferRequest:
    """A request with raw tensors: (name, datatype, array) each."""
    message = pb.ModelInferRequest(model_name=model, **fields)
    for name, datatype, array in inputs:
        message.inputs.add(name=name, datatype=datatype, shape=array.shape)
        message.raw_input_contents.append(array.tobytes())
    return message


def call(address: str, method: str, message: Any, timeout: float = 20, **options: Any) -> Any:
    """One call on a channel of its own; raises grpc.RpcError."""
    answer = getattr(pb, f"{method}Response")
    unlimited = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
    with grpc.insecure_channel(address, options=unlimited) as channel:
        rpc = channel.unary_unary(
            SERVICE + method,
            request_serializer=type(message).SerializeToString,
            response_deserializer=answer.FromString,
        )
        return rpc(message, timeout=timeout, **options)


def refusal(address: str, message: Any, method: str = "ModelInfer", **options: Any) -> tuple[str, str]:
    """Code and words of a call that must be refused."""
    try:
        call(address, method, message, **options)
    except grpc.RpcError as error:
        return error.code().name, error.details() or ""
    raise AssertionError("the call was answered")
