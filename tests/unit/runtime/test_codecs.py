"""Tensors in and out, through both codecs, for every datatype."""

import gzip
import random
import zlib

import ml_dtypes
import numpy as np
import orjson
import pytest
from enginery_runtime import grpc_codec, rest_codec
from enginery_runtime.datatypes import DTYPES, from_raw, to_raw
from enginery_runtime.errors import BusyError, InvalidRequestError, TooLargeError
from enginery_runtime.http_body import Body
from enginery_runtime.infer import InferResult, ModelShape
from enginery_runtime.limits import Budget
from enginery_runtime.oip import grpc_service_pb2 as pb
from enginery_store.manifest import TensorSpec
from support.published import a_manifest
from support.tiny_models import double_plus_one


def text(*items: bytes) -> np.ndarray:
    array = np.empty(len(items), np.object_)
    array[:] = items
    return array


SAMPLES: dict[str, np.ndarray] = {
    "BOOL": np.array([True, False]),
    "INT8": np.array([-128, 127], np.int8),
    "INT16": np.array([-32768, 32767], np.int16),
    "INT32": np.array([-(2**31), 2**31 - 1], np.int32),
    "INT64": np.array([-(2**63), 2**63 - 1], np.int64),
    "UINT8": np.array([0, 255], np.uint8),
    "UINT16": np.array([0, 65535], np.uint16),
    "UINT32": np.array([0, 2**32 - 1], np.uint32),
    "UINT64": np.array([0, 2**64 - 1], np.uint64),
    "FP16": np.array([1.5, -65504], np.float16),
    "FP32": np.array([1.5, -16777216.0], np.float32),
    "FP64": np.array([1.5, 1.7e308], np.float64),
    "BF16": np.array([1.5, -2.0], ml_dtypes.bfloat16),
    "BYTES": text(b"", "\N{GREEK SMALL LETTER ALPHA}\0b".encode()),
}


def a_shape(datatype: str) -> ModelShape:
    spec = TensorSpec(name="x", datatype=datatype, shape=[-1])
    manifest = a_manifest(double_plus_one(), inputs=[spec], outputs=[spec.model_copy(update={"name": "y"})])
    return ModelShape(manifest, 1)


def same(found: np.ndarray, want: np.ndarray) -> bool:
    return found.dtype == want.dtype and found.tolist() == want.tolist()


def test_every_datatype_has_a_sample() -> None:
    assert set(SAMPLES) == set(DTYPES)


@pytest.mark.parametrize("datatype", SAMPLES)
def test_raw_bytes_go_there_and_back(datatype: str) -> None:
    want = SAMPLES[datatype]
    assert same(from_raw("x", datatype, (2,), to_raw(want)), want)


@pytest.mark.parametrize("datatype", [name for name in SAMPLES if name != "BF16"])
def test_json_goes_there_and_back(datatype: str) -> None:
    want = SAMPLES[datatype]
    data = [item.decode() for item in want] if datatype == "BYTES" else want.tolist()
    body = orjson.dumps({"inputs": [{"name": "x", "datatype": datatype, "shape": [2], "data": data}]})
    asked = rest_codec.decode(body, None, a_shape(datatype))
    assert same(asked.inputs["x"], want)
    answer, size = rest_codec.encode({}, InferResult({"y": want}), a_shape(datatype).outputs, asked)
    assert size is None
    assert orjson.loads(answer)["outputs"] == [{"name": "y", "datatype": datatype, "shape": [2], "data": data}]


@pytest.mark.parametrize("datatype", SAMPLES)
def test_binary_tensor_goes_there_and_back(datatype: str) -> None:
    want = SAMPLES[datatype]
    raw = to_raw(want)
    item = {"name": "x", "datatype": datatype, "shape": [2], "parameters": {"binary_data_size": len(raw)}}
    head = orjson.dumps({"inputs": [item], "parameters": {"binary_data_output": True}})
    asked = rest_codec.decode(head + raw, str(len(head)).encode(), a_shape(datatype))
    assert same(asked.inputs["x"], want)
    answer, size = rest_codec.encode({}, InferResult({"y": want}), a_shape(datatype).outputs, asked)
    assert answer[size:] == raw
    assert orjson.loads(answer[:size])["outputs"][0]["parameters"] == {"binary_data_size": len(raw)}


@pytest.mark.parametrize("datatype", SAMPLES)
def test_grpc_tensor_goes_there_and_back_in_kind(datatype: str) -> None:
    want = SAMPLES[datatype]
    for raw in (True, False):
        message = pb.ModelInferRequest(model_name="m", id="7")
        tensor = message.inputs.add(name="x", datatype=datatype, shape=[2])
        field = grpc_codec._CONTENTS.get(datatype)
        if raw:
            message.raw_input_contents.append(to_raw(want))
        elif field is None:
            with pytest.raises(InvalidRequestError, match=f"{datatype} has no typed contents"):
                grpc_codec.decode_inputs(message, a_shape(datatype))
            continue
        else:
            getattr(tensor.contents, field).extend(want.tolist())
        assert same(grpc_codec.decode_inputs(message, a_shape(datatype))["x"], want)
        answer = grpc_codec.encode(message, InferResult({"y": want}), a_shape(datatype).outputs, "m", "1")
        assert (answer.model_name, answer.model_version, answer.id) == ("m", "1", "7")
        if raw:
            assert list(answer.raw_output_contents) == [to_raw(want)]
        else:
            assert list(getattr(answer.outputs[0].contents, field)) == want.tolist()


REFUSED: dict[str, tuple[str, object]] = {
    "a fraction for a whole number": ("INT32", [1.5, 1]),
    "a whole number beyond 8 bits": ("INT8", [128, 0]),
    "a negative number without sign": ("UINT8", [-1, 0]),
    "a whole number beyond 64 bits": ("INT64", [2**63, 0]),
    "true for a whole number": ("INT32", [True, 1]),
    "a number for true": ("BOOL", [1, 0]),
    "a number beyond half precision": ("FP16", [65536.0, 0.0]),
    "a number for text": ("BYTES", [1, 2]),
    "BF16 as JSON": ("BF16", [1.0, 2.0]),
}


@pytest.mark.parametrize("case", REFUSED)
def test_json_value_that_does_not_fit_is_refused_with_its_input(case: str) -> None:
    datatype, data = REFUSED[case]
    body = orjson.dumps({"inputs": [{"name": "x", "datatype": datatype, "shape": [2], "data": data}]})
    with pytest.raises(InvalidRequestError, match="'x'"):
        rest_codec.decode(body, None, a_shape(datatype))


def test_grpc_number_beyond_its_datatype_is_refused() -> None:
    message = pb.ModelInferRequest()
    message.inputs.add(name="x", datatype="INT8", shape=[1]).contents.int_contents.append(128)
    with pytest.raises(InvalidRequestError, match="beyond INT8"):
        grpc_codec.decode_inputs(message, a_shape("INT8"))


def test_grpc_contents_in_the_wrong_field_are_refused() -> None:
    message = pb.ModelInferRequest()
    message.inputs.add(name="x", datatype="FP32", shape=[1]).contents.fp64_contents.append(1.0)
    with pytest.raises(InvalidRequestError, match="fp32_contents"):
        grpc_codec.decode_inputs(message, a_shape("FP32"))


ODD: list[object] = [None, True, -1, 0, 2**63, 1.5, "x", "", [], {}, [[]], [1], {"a": 1}, "FP32", "x" * 5000]


def mutated(value: object, dice: random.Random) -> object:
    """The value with one part replaced, removed or added."""
    if isinstance(value, dict) and value and dice.random() < 0.8:
        name = dice.choice([*value, "binary_data_size", "binary_data", "data", "shape"])
        if dice.random() < 0.2:
            return {key: item for key, item in value.items() if key != name}
        return value | {name: mutated(value.get(name), dice)}
    if isinstance(value, list) and value and dice.random() < 0.8:
        index = dice.randrange(len(value))
        return [*value[:index], mutated(value[index], dice), *value[index + 1 :]]
    return dice.choice(ODD)


def test_any_document_is_decoded_or_refused_in_words() -> None:
    item = {"name": "x", "datatype": "FP32", "shape": [2], "data": [1.0, 2.0], "parameters": {}}
    good = {"id": "a", "inputs": [item], "outputs": [{"name": "y", "parameters": {"binary_data": True}}]}
    refusals: list[str] = []
    for seed in range(3000):
        dice = random.Random(seed)  # noqa: S311 - documents, not secrets
        document: object = good
        for _ in range(dice.randint(1, 4)):
            document = mutated(document, dice)
        text, raw = orjson.dumps(document), b"\0" * dice.choice([0, 8])
        try:
            rest_codec.decode(text + raw, str(len(text)).encode() if raw else None, a_shape("FP32"))
        except InvalidRequestError as error:
            refusals.append(error.message)
    assert len(refusals) > 2000
    assert max(map(len, refusals)) <= 1000


BROKEN_BYTES: dict[str, bytes] = {
    "a length beyond the data": b"\x05\0\0\0ab\0\0\0\0",
    "a length of 4 GiB": b"\xff\xff\xff\xff\0\0\0\0",
    "a second length cut off": b"\x04\0\0\0abcd\0\0",
    "bytes left over": b"\0\0\0\0\0\0\0\0x",
    "nothing": b"",
}


@pytest.mark.parametrize("case", BROKEN_BYTES)
def test_broken_bytes_tensor_is_refused(case: str) -> None:
    with pytest.raises(InvalidRequestError, match="'x'"):
        from_raw("x", "BYTES", (2,), BROKEN_BYTES[case])


def test_bool_that_is_neither_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match="BOOL"):
        from_raw("x", "BOOL", (2,), b"\0\2")


def test_numbers_json_does_not_have_become_null() -> None:
    asked = rest_codec.decode(
        b'{"inputs":[{"name":"x","datatype":"FP32","shape":[1],"data":[1]}]}', None, a_shape("FP32")
    )
    result = InferResult({"y": np.array([np.nan, np.inf, 1.0], np.float32)})
    answer, _ = rest_codec.encode({}, result, a_shape("FP32").outputs, asked)
    assert orjson.loads(answer)["outputs"][0]["data"] == [None, None, 1.0]


def a_body(limit: int = 1000, budget: int = 1500) -> Body:
    return Body(limit, Budget(budget))


def test_compressed_body_is_read_in_pieces() -> None:
    for compressed, name in ((gzip.compress(b"abc" * 100), b"gzip"), (zlib.compress(b"abc" * 100), b"deflate")):
        body = a_body()
        body.begin({b"content-encoding": name, b"content-length": str(len(compressed)).encode()})
        for byte in compressed:
            body.feed(bytes((byte,)))
        assert bytes(body.finish()) == b"abc" * 100


def test_body_beyond_its_limit_is_refused_before_it_is_kept() -> None:
    body = a_body()
    with pytest.raises(TooLargeError, match="1000"):
        body.begin({b"content-length": b"1001"})
    body.begin({})
    body.feed(b"x" * 1000)
    with pytest.raises(TooLargeError, match="1000"):
        body.feed(b"x")
    bomb = a_body()
    bomb.begin({b"content-encoding": b"gzip"})
    with pytest.raises(TooLargeError, match="1000"):
        bomb.feed(gzip.compress(b"0" * 10**7))


def test_bodies_share_one_budget_and_give_it_back() -> None:
    budget = Budget(1500)
    first, second = Body(1000, budget), Body(1000, budget)
    first.begin({b"content-length": b"1000"})
    with pytest.raises(BusyError, match="1500"):
        second.begin({b"content-length": b"501"})
    first.release()
    second.begin({b"content-length": b"501"})
    assert budget.used == 501
