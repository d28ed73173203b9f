"""A published engine is served over REST and gRPC by a real process."""

from collections.abc import Iterator

import grpc
import httpx
import numpy as np
import pytest
from enginery_runtime.oip import grpc_service_pb2 as pb
from enginery_store.requests import Batching
from support.runtime_process import RuntimeProcess
from support.runtime_stage import Stage
from support.s3_servers import moto_server
from support.tiny_models import double_plus_one


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RuntimeProcess]:
    with moto_server() as server:
        stage = Stage(server, tmp_path_factory.mktemp("runtime"))
        order = stage.order(stage.publish(double_plus_one()), batching=Batching(max_batch_size=8))
        with stage.runtime(order) as runtime:
            yield runtime.wait_ready()


def call(runtime: RuntimeProcess, method: str, message: object, answer: type) -> object:
    with grpc.insecure_channel(runtime.grpc_address) as channel:
        rpc = channel.unary_unary(
            f"/inference.GRPCInferenceService/{method}",
            request_serializer=type(message).SerializeToString,
            response_deserializer=answer.FromString,
        )
        return rpc(message, timeout=20)


def test_json_request_is_answered(tiny: RuntimeProcess) -> None:
    asked = {
        "id": "a",
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [2, 4], "data": [[0, 1, 2, 3], [4, 5, 6, 7]]}],
    }
    answer = tiny.infer("tiny", asked)
    assert answer.status_code == 200, answer.text
    assert answer.json() == {
        "model_name": "tiny",
        "model_version": "tiny-12345678",
        "id": "a",
        "outputs": [
            {"name": "y", "datatype": "FP32", "shape": [2, 4], "data": [1.0, 3.0, 5.0, 7.0, 9.0, 11.0, 13.0, 15.0]}
        ],
    }


def test_binary_request_is_answered(tiny: RuntimeProcess) -> None:
    x = np.arange(4, dtype=np.float32).reshape(1, 4)
    head = (
        b'{"inputs":[{"name":"x","datatype":"FP32","shape":[1,4],"parameters":{"binary_data_size":16}}],'
        b'"outputs":[{"name":"y","parameters":{"binary_data":true}}]}'
    )
    answer = httpx.post(
        f"{tiny.url}/v2/models/tiny/infer",
        content=head + x.tobytes(),
        headers={"Inference-Header-Content-Length": str(len(head))},
    )
    size = int(answer.headers["Inference-Header-Content-Length"])
    assert np.frombuffer(answer.content[size:], np.float32).tolist() == [1.0, 3.0, 5.0, 7.0]


def test_grpc_request_is_answered_raw_and_typed(tiny: RuntimeProcess) -> None:
    raw = pb.ModelInferRequest(model_name="tiny", id="b")
    raw.inputs.add(name="x", datatype="FP32", shape=[1, 4])
    raw.raw_input_contents.append(np.arange(4, dtype=np.float32).tobytes())
    answer = call(tiny, "ModelInfer", raw, pb.ModelInferResponse)
    assert answer.id == "b"
    assert np.frombuffer(answer.raw_output_contents[0], np.float32).tolist() == [1.0, 3.0, 5.0, 7.0]
    typed = pb.ModelInferRequest(model_name="tiny")
    typed.inputs.add(name="x", datatype="FP32", shape=[1, 4]).contents.fp32_contents.extend([0, 1, 2, 3])
    answer = call(tiny, "ModelInfer", typed, pb.ModelInferResponse)
    assert list(answer.outputs[0].contents.fp32_contents) == [1.0, 3.0, 5.0, 7.0]
