"""Endpoints and transport: the same answers on both front ends, and HTTP as clients and proxies speak it."""

import gzip
import json
import re
import socket
import zlib
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest
from enginery_runtime.oip import grpc_service_pb2 as pb
from enginery_store.requests import Batching
from google.protobuf.json_format import MessageToDict
from support.oip import call, grpc_request, refusal, tensor, x_input
from support.runtime_process import RuntimeProcess
from support.runtime_stage import Stage
from support.s3_servers import moto_server
from support.tiny_models import NUMERIC, double_plus_one, identity

VERSION = "tiny-12345678"


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with moto_server() as server:
        yield Stage(server, tmp_path_factory.mktemp("runtime"))


@pytest.fixture(scope="module")
def tiny(stage: Stage) -> Iterator[RuntimeProcess]:
    batching = Batching(max_batch_size=8, preferred_batch_sizes=[4, 8])
    with stage.runtime(stage.order(stage.publish(double_plus_one()), batching=batching)) as runtime:
        yield runtime.wait_ready()


def as_rest(message: Any) -> Any:
    """A gRPC message as REST writes it: numbers as numbers, nothing left out."""
    document = MessageToDict(message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: plain(item) for name, item in value.items()}
        if isinstance(value, list):
            return [plain(item) for item in value]
        return int(value) if isinstance(value, str) and re.fullmatch(r"-?\d+", value) else value

    return plain(document)


def test_server_metadata_is_equal_on_both(tiny: RuntimeProcess) -> None:
    rest = tiny.get("/v2").json()
    assert rest["name"] == "enginery"
    assert "binary_tensor_data" in rest["extensions"]
    assert as_rest(call(tiny.grpc_address, "ServerMetadata", pb.ServerMetadataRequest())) == rest


@pytest.mark.parametrize("path", ["/v2/models/tiny", f"/v2/models/tiny/versions/{VERSION}", "/v2/models/t%69ny?a=b"])
def test_model_metadata_is_equal_on_both(tiny: RuntimeProcess, path: str) -> None:
    rest = tiny.get(path).json()
    assert rest == {
        "name": "tiny",
        "versions": [VERSION],
        "platform": "onnxruntime_onnx",
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}],
        "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1, 4]}],
    }
    assert as_rest(call(tiny.grpc_address, "ModelMetadata", pb.ModelMetadataRequest(name="tiny"))) == rest


def test_model_configuration_is_equal_on_both(tiny: RuntimeProcess) -> None:
    rest = tiny.get("/v2/models/tiny/config").json()
    assert (rest["max_batch_size"], rest["input"]) == (8, [{"name": "x", "data_type": "TYPE_FP32", "dims": [4]}])
    assert rest["dynamic_batching"] == {"preferred_batch_size": [4, 8], "max_queue_delay_microseconds": 0}
    assert as_rest(call(tiny.grpc_address, "ModelConfig", pb.ModelConfigRequest(name="tiny")))["config"] == rest


def test_statistics_are_equal_on_both_and_count(tiny: RuntimeProcess) -> None:
    tiny.infer("tiny", {"inputs": [x_input(rows=3)]})
    before = tiny.get("/v2/models/tiny/stats").json()["model_stats"][0]
    tiny.infer("tiny", {"inputs": [x_input(rows=3)]})
    for path in ("/v2/models/tiny/stats", f"/v2/models/tiny/versions/{VERSION}/stats", "/v2/models/stats"):
        rest = tiny.get(path).json()
    after = rest["model_stats"][0]
    assert after["inference_count"] - before["inference_count"] == 3
    assert after["execution_count"] - before["execution_count"] == 1
    assert after["inference_stats"]["success"]["count"] - before["inference_stats"]["success"]["count"] == 1
    assert 3 in [entry["batch_size"] for entry in after["batch_stats"]]
    assert as_rest(call(tiny.grpc_address, "ModelStatistics", pb.ModelStatisticsRequest())) == rest


def test_repository_index_is_equal_on_both(tiny: RuntimeProcess) -> None:
    rest = httpx.post(f"{tiny.url}/v2/repository/index").json()
    assert rest == [{"name": "tiny", "version": VERSION, "state": "READY", "reason": ""}]
    asked = pb.RepositoryIndexRequest(ready=True)
    assert as_rest(call(tiny.grpc_address, "RepositoryIndex", asked))["models"] == rest
    assert httpx.post(f"{tiny.url}/v2/repository/index", json={"ready": True}).json() == rest


UNKNOWN: dict[str, tuple[str, str, str, str]] = {
    "model": ("/v2/models/other/infer", "other", "", "unknown"),
    "version": ("/v2/models/tiny/versions/9/infer", "tiny", "9", "unknown"),
}


@pytest.mark.parametrize("case", UNKNOWN)
def test_unknown_name_is_not_found_on_both(tiny: RuntimeProcess, case: str) -> None:
    path, name, version, words = UNKNOWN[case]
    answer = httpx.post(f"{tiny.url}{path}", json={"inputs": [x_input()]})
    assert answer.status_code == 404
    assert words in answer.json()["error"]
    x = ("x", "FP32", np.zeros((1, 4), np.float32))
    message = grpc_request(name, x, model_version=version)
    assert refusal(tiny.grpc_address, message) == ("NOT_FOUND", answer.json()["error"])
    asked = pb.ModelReadyRequest(name=name, version=version)
    assert refusal(tiny.grpc_address, asked, "ModelReady")[0] == "NOT_FOUND"


@pytest.mark.parametrize(
    "path",
    ["/", "/v1/models/tiny", "/v2/models", "/v2/models/tiny/explain", "/v2/systemsharedmemory/status", "/v2/health"],
)
def test_unknown_endpoint_is_404_in_the_error_form(tiny: RuntimeProcess, path: str) -> None:
    answer = tiny.get(path)
    assert answer.status_code == 404
    assert list(answer.json()) == ["error"]


def test_streams_are_unimplemented(tiny: RuntimeProcess) -> None:
    import grpc

    with grpc.insecure_channel(tiny.grpc_address) as channel, pytest.raises(grpc.RpcError) as refused:
        list(channel.stream_stream("/inference.GRPCInferenceService/ModelStreamInfer")(iter([b""]), timeout=10))
    assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_unknown_models_add_no_series(tiny: RuntimeProcess) -> None:
    for number in range(50):
        tiny.infer(f"model-{number}", {})
        refusal(tiny.grpc_address, pb.ModelInferRequest(model_name=f"model-{number}"))
    page = tiny.metrics()
    assert "model-" not in page
    assert 'enginery_inference_requests_total{code="NOT_FOUND",model="",protocol="REST"}' in page


def test_metrics_have_their_names_types_and_labels(tiny: RuntimeProcess) -> None:
    tiny.infer("tiny", {"inputs": [x_input()]})
    page = tiny.metrics()
    types = dict(re.findall(r"^# TYPE (enginery_\S+) (\S+)$", page, re.MULTILINE))
    assert types == {
        "enginery_inference_requests_total": "counter",
        "enginery_inference_queue_seconds": "histogram",
        "enginery_inference_infer_seconds": "histogram",
        "enginery_inference_total_seconds": "histogram",
        "enginery_inference_batch_rows": "histogram",
        "enginery_inference_pending_requests": "gauge",
        "enginery_inference_pending_rows": "gauge",
        "enginery_inference_inflight_bytes": "gauge",
        "enginery_ready": "gauge",
        "enginery_cold_start_seconds": "gauge",
        "enginery_engine_info": "gauge",
    }
    assert 'enginery_inference_requests_total{code="OK",model="tiny",protocol="REST"}' in page
    assert set(re.findall(r'enginery_cold_start_seconds\{phase="(\w+)"\}', page)) == {"fetch", "verify", "load", "warm"}
    assert re.search(
        r'enginery_engine_info\{backend="ONNXRuntime",key="[0-9a-f]{16}",model="tiny",precision="FP32",revision="tiny-',
        page,
    )


def test_every_datatype_is_answered_over_every_way(stage: Stage) -> None:
    order = stage.order(stage.publish(identity()), name="same", batching=Batching(max_batch_size=4))
    from enginery_runtime.datatypes import DTYPES, to_raw

    arrays = {name: np.array([[1, 0], [0, 1]]).astype(DTYPES[name]) for name in NUMERIC}
    with stage.runtime(order) as runtime:
        runtime.wait_ready()
        inputs, raws = [], []
        for name, array in arrays.items():
            raws.append(to_raw(array))
            inputs.append(tensor(f"in_{name}", name, (2, 2), parameters={"binary_data_size": len(raws[-1])}))
        head = json.dumps({"inputs": inputs, "parameters": {"binary_data_output": True}}).encode()
        binary = httpx.post(
            f"{runtime.url}/v2/models/same/infer",
            content=head + b"".join(raws),
            headers={"Inference-Header-Content-Length": str(len(head))},
        )
        size = int(binary.headers["Inference-Header-Content-Length"])
        assert binary.content[size:] == b"".join(raws)
        assert [entry["datatype"] for entry in json.loads(binary.content[:size])["outputs"]] == list(NUMERIC)
        message = grpc_request("same", *((f"in_{name}", name, array) for name, array in arrays.items()))
        assert list(call(runtime.grpc_address, "ModelInfer", message).raw_output_contents) == raws
        refused = runtime.infer("same", {"inputs": [tensor("in_BF16", "BF16", (2, 2), [1.0] * 4)]})
        assert refused.status_code == 400


def test_text_is_answered_over_every_way(stage: Stage) -> None:
    with stage.runtime(stage.order(stage.publish(identity(["BYTES"])), name="text")) as runtime:
        runtime.wait_ready()
        words = ["a", "", "\N{GREEK SMALL LETTER ALPHA}", "long" * 100]
        answer = runtime.infer("text", {"inputs": [tensor("in_BYTES", "BYTES", (2, 2), words)]})
        assert answer.json()["outputs"][0]["data"] == words
        message = pb.ModelInferRequest(model_name="text")
        contents = message.inputs.add(name="in_BYTES", datatype="BYTES", shape=[2, 2]).contents
        contents.bytes_contents.extend(word.encode() for word in words)
        typed = call(runtime.grpc_address, "ModelInfer", message).outputs[0].contents
        assert [item.decode() for item in typed.bytes_contents] == words
        contents.bytes_contents[0] = b"\xff"
        assert refusal(runtime.grpc_address, message)[0] == "INVALID_ARGUMENT"


BODY = json.dumps({"inputs": [x_input()]}).encode()
WANT = [1.0, 3.0, 5.0, 7.0]


@pytest.mark.parametrize("name", ["gzip", "deflate", "identity"])
def test_encoded_body_is_understood(tiny: RuntimeProcess, name: str) -> None:
    data = {"gzip": gzip.compress(BODY), "deflate": zlib.compress(BODY), "identity": BODY}[name]
    answer = httpx.post(f"{tiny.url}/v2/models/tiny/infer", content=data, headers={"Content-Encoding": name})
    assert answer.json()["outputs"][0]["data"] == WANT


def test_chunked_body_is_understood(tiny: RuntimeProcess) -> None:
    answer = httpx.post(f"{tiny.url}/v2/models/tiny/infer", content=iter([BODY[:7], BODY[7:20], BODY[20:]]))
    assert answer.json()["outputs"][0]["data"] == WANT


def read_answers(client: socket.socket, count: int) -> list[tuple[int, bytes]]:
    """Status and body of so many answers."""
    received, answers = b"", []
    while len(answers) < count:
        head, separator, rest = received.partition(b"\r\n\r\n")
        found = re.search(rb"Content-Length: (\d+)", head) if separator else None
        length = int(found[1]) if found else 0
        if not separator or len(rest) < length:
            chunk = client.recv(65536)
            assert chunk, received
            received += chunk
            continue
        answers.append((int(head.split(b" ")[1]), rest[:length]))
        received = rest[length:]
    return answers


def test_pipelined_requests_are_answered_in_order(tiny: RuntimeProcess) -> None:
    def request(number: int) -> bytes:
        body = json.dumps({"id": str(number), "inputs": [x_input(rows=1 + number % 3)]}).encode()
        return b"POST /v2/models/tiny/infer HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)

    many = 300
    with socket.create_connection(("127.0.0.1", tiny.rest_port), timeout=20) as client:
        client.sendall(b"".join(request(number) + b"GET /v2/health/live HTTP/1.1\r\n\r\n" for number in range(many)))
        answers = read_answers(client, 2 * many)
    assert {status for status, _ in answers} == {200}
    assert [json.loads(body)["id"] for _, body in answers[::2]] == [str(number) for number in range(many)]


def test_head_that_is_cut_by_a_read_is_not_measured_by_the_requests_before_it(tiny: RuntimeProcess) -> None:
    """A read may end anywhere: here within a head, behind more bytes of whole requests than a head may have."""
    whole = b"GET /v2/health/live HTTP/1.1\r\nHost: a\r\nX-Filler: %b\r\n\r\n" % (b"x" * 500)
    with socket.create_connection(("127.0.0.1", tiny.rest_port), timeout=20) as client:
        client.sendall(50 * whole + whole[:100])
        before = read_answers(client, 50)
        client.sendall(whole[100:])
        assert {status for status, _ in [*before, *read_answers(client, 1)]} == {200}


def test_client_that_expects_100_gets_it(tiny: RuntimeProcess) -> None:
    head = b"POST /v2/models/tiny/infer HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n"
    with socket.create_connection(("127.0.0.1", tiny.rest_port), timeout=10) as client:
        client.sendall(head % len(BODY))
        assert client.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(BODY)
        assert read_answers(client, 1)[0][0] == 200
        client.sendall(head % 10**9)
        assert read_answers(client, 1)[0][0] == 413


def test_head_and_old_clients_are_answered(tiny: RuntimeProcess) -> None:
    assert httpx.head(f"{tiny.url}/v2/health/ready").status_code == 200
    with socket.create_connection(("127.0.0.1", tiny.rest_port), timeout=10) as client:
        client.sendall(b"GET /v2/health/ready HTTP/1.0\r\n\r\n")
        received = b""
        while chunk := client.recv(1000):
            received += chunk
    assert received.startswith(b"HTTP/1.1 200 OK")
    assert received.endswith(b'{"ready":true}')


def test_large_tensors_pass_up_to_the_limit(stage: Stage) -> None:
    limit = 4_300_000
    order = stage.order(stage.publish(double_plus_one(width="w")))
    with stage.runtime(order, max_request_bytes=limit) as runtime:
        runtime.wait_ready()
        for size, fits in ((3_900_000, True), (4_100_000, True), (limit + 4, False)):
            x = np.ones((1, size // 4), np.float32)
            head = json.dumps(
                {
                    "inputs": [tensor("x", "FP32", x.shape, parameters={"binary_data_size": x.nbytes})],
                    "parameters": {"binary_data_output": True},
                }
            ).encode()
            answer = httpx.post(
                f"{runtime.url}/v2/models/tiny/infer",
                content=head + x.tobytes(),
                headers={"Inference-Header-Content-Length": str(len(head))},
            )
            assert answer.status_code == (200 if fits else 413)
            message = grpc_request("tiny", ("x", "FP32", x))
            if fits:
                assert answer.content.endswith(np.full(size // 4, 3.0, np.float32).tobytes())
                assert len(call(runtime.grpc_address, "ModelInfer", message).raw_output_contents[0]) == x.nbytes
            else:
                assert str(limit) in answer.json()["error"]
                code, words = refusal(runtime.grpc_address, message)
                assert (code, str(limit) in words) == ("RESOURCE_EXHAUSTED", True)


def test_many_large_uploads_stay_within_the_budget(stage: Stage) -> None:
    """Bodies that are promised and not sent: the budget refuses before memory is gone, and gives back afterwards."""
    order = stage.order(stage.publish(double_plus_one()))
    with stage.runtime(order, max_request_bytes=1_000_000, max_inflight_bytes=10_000_000) as runtime:
        runtime.wait_ready()
        head = b"POST /v2/models/tiny/infer HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n"
        clients = [socket.create_connection(("127.0.0.1", runtime.rest_port), timeout=10) for _ in range(12)]
        try:
            for client in clients[:10]:
                client.sendall(head)
            assert "inflight_bytes 1e+07" in eventually_page(runtime, "inflight_bytes 1e+07")
            clients[10].sendall(head)
            status, body = read_answers(clients[10], 1)[0]
            assert status == 429
            assert b"10000000" in body
        finally:
            for client in clients:
                client.close()
        eventually_page(runtime, "inflight_bytes 0.0")
        assert runtime.infer("tiny", {"inputs": [x_input()]}).status_code == 200


def eventually_page(runtime: RuntimeProcess, words: str) -> str:
    from support.eventually import eventually

    eventually(lambda: words in runtime.metrics())
    return runtime.metrics()
