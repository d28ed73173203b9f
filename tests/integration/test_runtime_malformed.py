"""No malformed request harms the server or a neighbour, and each is refused with the field named."""

import gzip
import json
import socket
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest
from enginery_runtime.oip import grpc_service_pb2 as pb
from enginery_store.requests import Batching
from support.healthy_client import HealthyClient
from support.oip import call, grpc_request, refusal, tensor, x_input
from support.runtime_process import RuntimeProcess
from support.runtime_stage import Stage
from support.s3_servers import moto_server
from support.tiny_models import double_plus_one

LIMIT = 1_000_000


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RuntimeProcess]:
    with moto_server() as server:
        stage = Stage(server, tmp_path_factory.mktemp("runtime"))
        order = stage.order(stage.publish(double_plus_one()), batching=Batching(max_batch_size=8))
        with stage.runtime(order, max_request_bytes=LIMIT, header_timeout_seconds=2, body_timeout_seconds=3) as runtime:
            yield runtime.wait_ready()


@pytest.fixture(scope="module", autouse=True)
def neighbour(tiny: RuntimeProcess) -> Iterator[None]:
    want = [1.0, 3.0, 5.0, 7.0]
    with HealthyClient(f"{tiny.url}/v2/models/tiny/infer", {"inputs": [x_input()]}, want) as client:
        yield
    assert client.faults == []
    assert client.answers > 50
    assert tiny.process.poll() is None


def with_shape(*shape: Any) -> dict[str, Any]:
    return {"inputs": [tensor("x", "FP32", shape, [1.0, 2.0, 3.0, 4.0])]}


def with_data(data: Any, datatype: str = "FP32") -> dict[str, Any]:
    return {"inputs": [tensor("x", datatype, [1, 4], data)]}


DOCUMENTS: dict[str, tuple[Any, str]] = {
    "a dimension of -1": (with_shape(-1, 4), "shape"),
    "a dimension of 0": (with_shape(0, 4), "shape"),
    "a dimension of 2^63": (with_shape(2**63, 4), "shape"),
    "a dimension beyond 64 bits": (with_shape(2**70, 4), "shape"),
    "a product that overflows": (with_shape(2**31 - 1, 4), "shape"),
    "a dimension that is a fraction": (with_shape(1.5, 4), "shape"),
    "a dimension that is true": (with_shape(True, 4), "shape"),
    "too many dimensions": (with_shape(1, 4, 1), "shape"),
    "a width the model does not have": (with_shape(4, 1), "shape"),
    "shape as a string": ({"inputs": [tensor("x", "FP32", [], [1.0]) | {"shape": "1,4"}]}, "shape"),
    "no shape": ({"inputs": [{"name": "x", "datatype": "FP32", "data": [1.0]}]}, "shape"),
    "data shorter than the shape": (with_data([1.0]), "data"),
    "data longer than the shape": (with_data([1.0] * 5), "data"),
    "data missing": ({"inputs": [tensor("x", "FP32", [1, 4])]}, "data"),
    "data as a number": (with_data(1.0), "data"),
    "ragged lists": ({"inputs": [tensor("x", "FP32", [2, 4], [[1.0] * 4, [1.0] * 3])]}, "ragged"),
    "lists beside numbers": (with_data([[1.0], 2.0, 3.0, 4.0]), "ragged"),
    "lists nested too deep": (with_data([[[1.0], [2.0], [3.0], [4.0]]]), "data"),
    "text for FP32": (with_data(["1", "2", "3", "4"]), "data"),
    "null for FP32": (with_data([None, 1.0, 2.0, 3.0]), "data"),
    "true for FP32": (with_data([True, 1.0, 2.0, 3.0]), "data"),
    "a number beyond FP32": (with_data([1e39, 1.0, 2.0, 3.0]), "data"),
    "another datatype": (with_data([1, 2, 3, 4], "INT32"), "datatype"),
    "an unknown datatype": (with_data([1, 2, 3, 4], "FLOAT"), "datatype"),
    "an object for a datatype": (with_data([1, 2, 3, 4], {"FP32": 1}), "datatype"),  # type: ignore[arg-type]
    "a name of 100k letters": ({"inputs": [x_input() | {"name": "z" * 100_000}]}, "unknown"),
    "no datatype": ({"inputs": [{"name": "x", "shape": [1, 4], "data": [1.0] * 4}]}, "datatype"),
    "an input twice": ({"inputs": [x_input(), x_input()]}, "twice"),
    "an unknown input": ({"inputs": [x_input() | {"name": "z"}]}, "'z'"),
    "an input without a name": ({"inputs": [{"datatype": "FP32", "shape": [1, 4], "data": [1.0] * 4}]}, "inputs"),
    "a name that is a list": ({"inputs": [x_input() | {"name": ["x"]}]}, "inputs"),
    "no inputs": ({"inputs": []}, "inputs"),
    "inputs missing": ({}, "inputs"),
    "inputs as an object": ({"inputs": {"x": 1}}, "inputs"),
    "an input that is a number": ({"inputs": [1]}, "inputs"),
    "an unknown output": ({"inputs": [x_input()], "outputs": [{"name": "z"}]}, "'z'"),
    "an output twice": ({"inputs": [x_input()], "outputs": [{"name": "y"}, {"name": "y"}]}, "twice"),
    "an output without a name": ({"inputs": [x_input()], "outputs": [{}]}, "outputs"),
    "classification": (
        {"inputs": [x_input()], "outputs": [{"name": "y", "parameters": {"classification": 3}}]},
        "classification",
    ),
    "parameters as a list": ({"inputs": [x_input()], "parameters": [1]}, "parameters"),
    "binary_data_output as text": (
        {"inputs": [x_input()], "parameters": {"binary_data_output": "yes"}},
        "binary_data_output",
    ),
    "an id that is a number": ({"inputs": [x_input()], "id": 7}, "id"),
    "a batch above the maximum": ({"inputs": [x_input(rows=9)]}, "maximum"),
    "binary size with JSON data": (
        {"inputs": [x_input() | {"parameters": {"binary_data_size": 16}}]},
        "binary_data_size",
    ),
    "binary size without binary data": (
        {"inputs": [tensor("x", "FP32", [1, 4], parameters={"binary_data_size": 16})]},
        "binary_data_size",
    ),
    "negative binary size": (
        {"inputs": [tensor("x", "FP32", [1, 4], parameters={"binary_data_size": -1})]},
        "binary_data_size",
    ),
    "a list for a body": ([1], "body"),
    "text for a body": ("x", "body"),
}


@pytest.mark.parametrize("case", DOCUMENTS)
def test_malformed_document_is_refused_with_its_field(tiny: RuntimeProcess, case: str) -> None:
    document, want = DOCUMENTS[case]
    answer = tiny.infer("tiny", document)
    assert answer.status_code == 400, answer.text
    assert want in answer.json()["error"]


GOOD = json.dumps({"inputs": [x_input()]}).encode()
HEAD = json.dumps({"inputs": [tensor("x", "FP32", [1, 4], parameters={"binary_data_size": 16})]}).encode()
RAW = np.arange(4, dtype=np.float32).tobytes()
LENGTH = "Inference-Header-Content-Length"

BODIES: dict[str, tuple[bytes, dict[str, str], int, str]] = {
    "no JSON": (b"hello", {}, 400, "JSON"),
    "an empty body": (b"", {"Content-Length": "0"}, 400, "JSON"),
    "NaN": (b'{"inputs":[{"name":"x","datatype":"FP32","shape":[1],"data":[NaN]}]}', {}, 400, "JSON"),
    "Infinity": (b'{"inputs":[{"data":[Infinity]}]}', {}, 400, "JSON"),
    "1e400": (b'{"inputs":[{"data":[1e400]}]}', {}, 400, "JSON"),
    "100k brackets": (b"[" * 100_000, {}, 400, "JSON"),
    "100k nested objects": (b'{"a":' * 100_000, {}, 400, "JSON"),
    "text that is not UTF-8": (b'{"id":"\xff"}', {}, 400, "JSON"),
    "binary header missing": (HEAD + RAW, {}, 400, "JSON"),
    "binary header negative": (HEAD + RAW, {LENGTH: "-1"}, 400, LENGTH),
    "binary header beyond the body": (HEAD + RAW, {LENGTH: "100000"}, 400, LENGTH),
    "binary header as text": (HEAD + RAW, {LENGTH: "all"}, 400, LENGTH),
    "binary header too small": (HEAD + RAW, {LENGTH: str(len(HEAD) - 1)}, 400, "JSON"),
    "binary data too short": (HEAD + RAW[:-1], {LENGTH: str(len(HEAD))}, 400, "binary_data_size"),
    "binary data too long": (HEAD + RAW + b"x", {LENGTH: str(len(HEAD))}, 400, "follow"),
    "binary size that does not fit the shape": (
        HEAD.replace(b"16", b"15") + RAW[:-1],
        {LENGTH: str(len(HEAD))},
        400,
        "16 bytes",
    ),
    "gzip bomb": (gzip.compress(b"0" * 100_000_000), {"Content-Encoding": "gzip"}, 413, str(LIMIT)),
    "broken gzip": (b"hello", {"Content-Encoding": "gzip"}, 400, "compressed"),
    "gzip that ends early": (gzip.compress(GOOD)[:-9], {"Content-Encoding": "gzip"}, 400, "early"),
    "an unknown encoding": (GOOD, {"Content-Encoding": "br"}, 400, "Content-Encoding"),
    "a body above the limit": (b"0" * (LIMIT + 1), {}, 413, str(LIMIT)),
    "headers above the limit": (GOOD, {"X-Long": "x" * 20_000}, 431, "16384"),
    "many headers": (GOOD, {f"X-{number}": "x" * 90 for number in range(500)}, 431, "16384"),
}


@pytest.mark.parametrize("case", BODIES)
def test_malformed_body_is_refused_with_its_status(tiny: RuntimeProcess, case: str) -> None:
    body, headers, want_status, want_words = BODIES[case]
    answer = httpx.post(f"{tiny.url}/v2/models/tiny/infer", content=body, headers=headers)
    assert answer.status_code == want_status, answer.text
    assert want_words in answer.json()["error"]


def exchange_raw(tiny: RuntimeProcess, data: bytes, *, finish: bool = False) -> bytes:
    """Send bytes as they are; return all that comes until the server closes."""
    with socket.create_connection(("127.0.0.1", tiny.rest_port), timeout=10) as client:
        client.sendall(data)
        if finish:
            client.shutdown(socket.SHUT_WR)
        received = b""
        while chunk := client.recv(65536):
            received += chunk
    return received


POST = b"POST /v2/models/tiny/infer HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"

RAW_REQUESTS: dict[str, tuple[bytes, bytes]] = {
    "no length": (POST + b"\r\n", b"411"),
    "a length that is text": (POST + b"Content-Length: ten\r\n\r\n", b"400"),
    "a negative length": (POST + b"Content-Length: -5\r\n\r\n", b"400"),
    "two lengths": (POST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", b"400"),
    "a length beyond 64 bits": (POST + b"Content-Length: 99999999999999999999\r\n\r\n", b"400"),
    "a length above the limit": (POST + b"Content-Length: 1000001\r\n\r\n", b"413"),
    "length and chunks at once": (
        POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"400",
    ),
    "a broken chunk size": (POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", b"400"),
    "no HTTP at all": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"400"),
    "a client that sends half a request line": (b"GET /v2/hea", b"408"),
    "a client that sends half its headers": (b"GET /v2 HTTP/1.1\r\nHost: a\r\nX-", b"408"),
    "a client that sends half its body": (POST + b"Content-Length: 50\r\n\r\nhalf", b"408"),
    "endless headers": (b"GET /v2 HTTP/1.1\r\nX: " + b"x" * 50_000, b"431"),
    "another method": (b"DELETE /v2 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", b"405"),
    "get on infer": (b"GET /v2/models/tiny/infer HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", b"405"),
}


@pytest.mark.parametrize("case", RAW_REQUESTS)
def test_malformed_http_is_refused_with_its_status(tiny: RuntimeProcess, case: str) -> None:
    data, want = RAW_REQUESTS[case]
    received = exchange_raw(tiny, data)
    assert received.split(b" ")[1] == want, received
    assert b'{"error":' in received


def grpc_with(**changes: Any) -> pb.ModelInferRequest:
    message = grpc_request("tiny", ("x", "FP32", np.zeros((1, 4), np.float32)))
    for name, value in changes.items():
        if name == "raw":
            del message.raw_input_contents[:]
            message.raw_input_contents.extend(value)
        elif name == "shape":
            del message.inputs[0].shape[:]
            message.inputs[0].shape.extend(value)
        elif name == "typed":
            message.inputs[0].contents.fp32_contents.extend(value)
        else:
            setattr(message.inputs[0], name, value)
    return message


def two_inputs() -> pb.ModelInferRequest:
    x = ("x", "FP32", np.zeros((1, 4), np.float32))
    return grpc_request("tiny", x, x)


MESSAGES: dict[str, tuple[pb.ModelInferRequest, str]] = {
    "raw and typed contents at once": (grpc_with(typed=[1.0] * 4), "both"),
    "too few raw entries": (grpc_with(raw=[RAW, RAW]), "raw_input_contents"),
    "raw data too short": (grpc_with(raw=[RAW[:-1]]), "16 bytes"),
    "raw data too long": (grpc_with(raw=[RAW + b"x"]), "16 bytes"),
    "no data": (grpc_with(raw=[]), "fp32_contents"),
    "typed data of the wrong length": (grpc_with(raw=[], typed=[1.0]), "fp32_contents"),
    "a dimension of -1": (grpc_with(shape=[-1, 4]), "shape"),
    "a dimension of 2^62": (grpc_with(shape=[2**62, 4]), "shape"),
    "a product that overflows": (grpc_with(shape=[2**31 - 1, 4]), "shape"),
    "another datatype": (grpc_with(datatype="INT8"), "datatype"),
    "an unknown input": (grpc_with(name="z"), "'z'"),
    "an input twice": (two_inputs(), "twice"),
    "no inputs": (pb.ModelInferRequest(model_name="tiny"), "inputs"),
    "a batch above the maximum": (grpc_request("tiny", ("x", "FP32", np.zeros((9, 4), np.float32))), "maximum"),
}


@pytest.mark.parametrize("case", MESSAGES)
def test_malformed_message_is_invalid_argument(tiny: RuntimeProcess, case: str) -> None:
    message, want = MESSAGES[case]
    code, words = refusal(tiny.grpc_address, message)
    assert code == "INVALID_ARGUMENT"
    assert want in words


def test_grpc_message_above_the_limit_is_refused_with_the_limit(tiny: RuntimeProcess) -> None:
    code, words = refusal(tiny.grpc_address, grpc_with(raw=[b"x" * (LIMIT + 1)]))
    assert code == "RESOURCE_EXHAUSTED"
    assert str(LIMIT) in words


def test_grpc_compression_bomb_is_refused(tiny: RuntimeProcess) -> None:
    import grpc

    message = grpc_with(raw=[b"\0" * (50 * LIMIT)])
    code, _ = refusal(tiny.grpc_address, message, compression=grpc.Compression.Gzip)
    assert code == "RESOURCE_EXHAUSTED"


def test_bytes_that_are_no_message_are_refused(tiny: RuntimeProcess) -> None:
    import grpc

    with grpc.insecure_channel(tiny.grpc_address) as channel, pytest.raises(grpc.RpcError) as refused:
        channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")(b"\xff\xff\xff", timeout=10)
    assert refused.value.code().name == "INVALID_ARGUMENT"
    assert call(tiny.grpc_address, "ServerReady", pb.ServerReadyRequest()).ready
