"""Batching, timeouts, cancellation and faults, as clients see them."""

import asyncio
import re
import time
from collections.abc import Iterator

import grpc
import httpx
import numpy as np
import pytest
from enginery_runtime.oip import grpc_service_pb2 as pb
from enginery_store.manifest import InputRange, ShapeProfile
from enginery_store.requests import Batching
from support.eventually import eventually
from support.oip import SERVICE, grpc_request, refusal, tensor
from support.runtime_process import RuntimeProcess
from support.runtime_stage import Stage
from support.s3_servers import moto_server
from support.tiny_models import double_plus_one, picky, spinning


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with moto_server() as server:
        yield Stage(server, tmp_path_factory.mktemp("runtime"))


@pytest.fixture(scope="module")
def slow(stage: Stage) -> Iterator[RuntimeProcess]:
    batching = Batching(max_batch_size=4, queue_timeout_milliseconds=500)
    order = stage.order(stage.publish(spinning()), name="slow", batching=batching)
    with stage.runtime(order) as runtime:
        yield runtime.wait_ready()


def spin(rounds: int, value: float = 1.0, rows: int = 1) -> dict[str, object]:
    return {
        "inputs": [
            tensor("x", "FP32", [rows, 1], [value] * rows),
            tensor("rounds", "INT64", [rows, 1], [rounds] * rows),
        ]
    }


def rounds_for(runtime: RuntimeProcess, seconds: float) -> int:
    """How many rounds of the loop take this machine so long; the fastest of three counts."""
    fastest = 1e9
    for _ in range(3):
        began = time.monotonic()
        runtime.infer("slow", spin(100_000)).raise_for_status()
        fastest = min(fastest, time.monotonic() - began)
    return int(seconds / fastest * 100_000)


def metric(runtime: RuntimeProcess, name: str) -> float:
    found = re.search(rf"^{re.escape(name)} (\S+)$", runtime.metrics(), re.MULTILINE)
    return float(found[1]) if found else 0.0


def pending(runtime: RuntimeProcess, model: str = "slow") -> float:
    return metric(runtime, f'enginery_inference_pending_requests{{model="{model}"}}')


async def test_queue_timeout_holds_whatever_the_engine_does(slow: RuntimeProcess) -> None:
    rounds = await asyncio.to_thread(rounds_for, slow, 3.0)

    async def ask(client: httpx.AsyncClient, rounds: int) -> tuple[int, float]:
        began = time.monotonic()
        answer = await client.post("/v2/models/slow/infer", json=spin(rounds))
        return answer.status_code, time.monotonic() - began

    async def ask_grpc(channel: grpc.aio.Channel) -> tuple[str, float]:
        x = np.ones((1, 1), np.float32)
        message = grpc_request("slow", ("x", "FP32", x), ("rounds", "INT64", x.astype(np.int64)))
        rpc = channel.unary_unary(f"{SERVICE}ModelInfer", pb.ModelInferRequest.SerializeToString)
        began = time.monotonic()
        try:
            await rpc(message, timeout=20)
        except grpc.aio.AioRpcError as error:
            return error.code().name, time.monotonic() - began
        return "OK", time.monotonic() - began

    limits = httpx.Limits(max_connections=50)
    async with (
        httpx.AsyncClient(base_url=slow.url, timeout=30, limits=limits) as client,
        grpc.aio.insecure_channel(slow.grpc_address) as channel,
    ):
        first = asyncio.create_task(ask(client, rounds))
        await asyncio.to_thread(eventually, lambda: pending(slow) == 1)
        rest = await asyncio.gather(*(ask(client, 1) for _ in range(10)))
        late = await asyncio.gather(*(ask_grpc(channel) for _ in range(9)))
        assert (await first)[0] == 200
    assert {status for status, _ in rest} == {504}
    assert {code for code, _ in late} == {"DEADLINE_EXCEEDED"}
    for _, seconds in [*rest, *late]:
        assert 0.45 < seconds < 0.9
    assert pending(slow) == 0


async def test_clients_that_leave_cost_nothing_and_are_counted(slow: RuntimeProcess) -> None:
    rounds = await asyncio.to_thread(rounds_for, slow, 0.3)
    rows_before = metric(slow, 'enginery_inference_batch_rows_sum{model="slow"}')
    cancelled = 'enginery_inference_requests_total{code="CANCELLED",model="slow",protocol="%s"}'
    before = {protocol: metric(slow, cancelled % protocol) for protocol in ("REST", "GRPC")}

    x = np.ones((1, 1), np.float32)
    message = grpc_request("slow", ("x", "FP32", x), ("rounds", "INT64", np.full((1, 1), rounds)))

    async with (
        httpx.AsyncClient(base_url=slow.url, timeout=30) as client,
        grpc.aio.insecure_channel(slow.grpc_address) as channel,
    ):
        rpc = channel.unary_unary(f"{SERVICE}ModelInfer", pb.ModelInferRequest.SerializeToString)

        async def ask_rpc() -> None:
            await rpc(message)

        first = asyncio.create_task(client.post("/v2/models/slow/infer", json=spin(rounds * 20)))
        await asyncio.to_thread(eventually, lambda: pending(slow) == 1)
        leaving = [asyncio.create_task(client.post("/v2/models/slow/infer", json=spin(rounds))) for _ in range(20)]
        leaving += [asyncio.create_task(ask_rpc()) for _ in range(20)]
        await asyncio.to_thread(eventually, lambda: pending(slow) == 41)
        for task in leaving:
            task.cancel()
        await asyncio.gather(*leaving, return_exceptions=True)
        await asyncio.to_thread(eventually, lambda: pending(slow) <= 1)
        assert (await first).status_code == 200
        answers = [await client.post("/v2/models/slow/infer", json=spin(1, value=float(n))) for n in range(20)]
    assert [answer.json()["outputs"][0]["data"] for answer in answers] == [[float(n)] for n in range(20)]
    assert metric(slow, 'enginery_inference_batch_rows_sum{model="slow"}') - rows_before <= 23, "21 were live"
    for protocol in ("REST", "GRPC"):
        assert metric(slow, cancelled % protocol) - before[protocol] == 20


async def test_requests_that_wait_merge_and_come_back_apart(slow: RuntimeProcess) -> None:
    rounds = await asyncio.to_thread(rounds_for, slow, 0.3)
    runs = metric(slow, 'enginery_inference_batch_rows_count{model="slow"}')
    async with httpx.AsyncClient(base_url=slow.url, timeout=30) as client:
        first = asyncio.create_task(client.post("/v2/models/slow/infer", json=spin(rounds)))
        await asyncio.to_thread(eventually, lambda: pending(slow) == 1)
        answers = await asyncio.gather(
            *(client.post("/v2/models/slow/infer", json=spin(1, value=float(n))) for n in range(8))
        )
        await first
    assert [answer.json()["outputs"][0]["data"] for answer in answers] == [[float(n)] for n in range(8)]
    assert metric(slow, 'enginery_inference_batch_rows_count{model="slow"}') - runs == 3, "one, and two batches of four"


def test_batches_of_changing_size_come_back_right(stage: Stage) -> None:
    profile = ShapeProfile(name="p", inputs=[InputRange(name="x", min=[1, 4], opt=[4, 4], max=[16, 4])])
    manifest = stage.publish(double_plus_one(), profiles=[profile])
    with stage.runtime(stage.order(manifest, batching=Batching(max_batch_size=32))) as runtime:
        runtime.wait_ready()
        for rows in (10, 2, 10, 1, 16):
            x = np.random.default_rng(rows).standard_normal((rows, 4)).astype(np.float32)
            answer = runtime.infer("tiny", {"inputs": [tensor("x", "FP32", x.shape, x.reshape(-1).tolist())]})
            y = np.array(answer.json()["outputs"][0]["data"], np.float32).reshape(rows, 4)
            np.testing.assert_allclose(y, 2 * x + 1, rtol=1e-6)
        beyond = runtime.infer("tiny", {"inputs": [tensor("x", "FP32", [17, 4], [0.0] * 68)]})
        assert beyond.status_code == 400
        assert "16" in beyond.json()["error"]
        assert runtime.get("/v2/models/tiny/config").json()["max_batch_size"] == 16


async def test_fixed_batch_engine_is_never_merged(stage: Stage) -> None:
    manifest = stage.publish(double_plus_one(batch=2))
    with stage.runtime(stage.order(manifest, batching=Batching(max_batch_size=8))) as runtime:
        await asyncio.to_thread(runtime.wait_ready)
        body = {"inputs": [tensor("x", "FP32", [2, 4], [float(n) for n in range(8)])]}
        async with httpx.AsyncClient(base_url=runtime.url) as client:
            answers = await asyncio.gather(*(client.post("/v2/models/tiny/infer", json=body) for _ in range(30)))
        assert {answer.status_code for answer in answers} == {200}
        assert runtime.get("/v2/models/tiny/config").json()["max_batch_size"] == 0
        assert metric(runtime, 'enginery_inference_batch_rows_bucket{le="1.0",model="tiny"}') == 30
        assert metric(runtime, 'enginery_inference_batch_rows_count{model="tiny"}') == 30


async def test_two_shapes_at_once_both_advance(stage: Stage) -> None:
    manifest = stage.publish(double_plus_one(width="w"))
    with stage.runtime(stage.order(manifest, batching=Batching(max_batch_size=8))) as runtime:
        await asyncio.to_thread(runtime.wait_ready)

        async def ask(client: httpx.AsyncClient, width: int) -> None:
            for number in range(40):
                x = [float(number)] * width
                answer = await client.post(
                    "/v2/models/tiny/infer", json={"inputs": [tensor("x", "FP32", [1, width], x)]}
                )
                assert answer.json()["outputs"][0]["data"] == [2.0 * number + 1] * width

        async with httpx.AsyncClient(base_url=runtime.url, timeout=30) as client:
            await asyncio.gather(*(ask(client, width) for width in (3, 5) * 8))


async def test_one_failing_request_harms_no_neighbour_and_the_server_stays_ready(stage: Stage) -> None:
    manifest = stage.publish(picky())
    batching = Batching(max_batch_size=8, max_queue_delay_microseconds=20_000)
    with stage.runtime(stage.order(manifest, name="picky", batching=batching)) as runtime:
        await asyncio.to_thread(runtime.wait_ready)

        async def ask(client: httpx.AsyncClient, index: int) -> httpx.Response:
            body = {"inputs": [tensor("index", "INT64", [1, 1], [index])]}
            return await client.post("/v2/models/picky/infer", json=body)

        async with httpx.AsyncClient(base_url=runtime.url) as client:
            answers = await asyncio.gather(*(ask(client, index) for index in (0, 1, 99, 2, 3)))
        assert [answer.status_code for answer in answers if answer.status_code == 200] == [200] * 4
        assert [answer.json()["outputs"][0]["data"][0] for answer in answers if answer.status_code == 200] == [
            10.0, 11.0, 12.0, 13.0,
        ]  # fmt: skip
        assert answers[2].status_code in {400, 500}
        assert "error" in answers[2].json()
        code, _ = refusal(runtime.grpc_address, grpc_request("picky", ("index", "INT64", np.full((1, 1), 99))))
        assert code == {400: "INVALID_ARGUMENT", 500: "INTERNAL"}[answers[2].status_code]
        assert runtime.get("/v2/health/ready").status_code == 200


async def test_full_queue_says_come_again(stage: Stage) -> None:
    order = stage.order(stage.publish(spinning()), name="slow")
    with stage.runtime(order, max_queued_requests=2) as runtime:
        await asyncio.to_thread(runtime.wait_ready)
        rounds = await asyncio.to_thread(rounds_for, runtime, 1.0)
        async with httpx.AsyncClient(base_url=runtime.url, timeout=30) as client:
            first = asyncio.create_task(client.post("/v2/models/slow/infer", json=spin(rounds)))
            await asyncio.to_thread(eventually, lambda: pending(runtime) == 1)
            asked = [asyncio.create_task(client.post("/v2/models/slow/infer", json=spin(1))) for _ in range(2)]
            await asyncio.to_thread(eventually, lambda: pending(runtime) == 3)
            full = await client.post("/v2/models/slow/infer", json=spin(1))
            x = np.ones((1, 1), np.float32)
            message = grpc_request("slow", ("x", "FP32", x), ("rounds", "INT64", x.astype(np.int64)))
            code, words = await asyncio.to_thread(refusal, runtime.grpc_address, message)
            answers = await asyncio.gather(first, *asked)
    assert full.status_code == 429
    assert full.headers["Retry-After"] == "1"
    assert "2 requests" in full.json()["error"]
    assert (code, "2 requests" in words) == ("RESOURCE_EXHAUSTED", True)
    assert [answer.status_code for answer in answers] == [200] * 3


async def test_fifty_waiting_requests_show_as_pending(stage: Stage) -> None:
    order = stage.order(stage.publish(spinning()), name="slow")
    with stage.runtime(order) as runtime:
        await asyncio.to_thread(runtime.wait_ready)
        rounds = await asyncio.to_thread(rounds_for, runtime, 1.5)
        async with httpx.AsyncClient(base_url=runtime.url, timeout=60, limits=httpx.Limits()) as client:
            asked = [asyncio.create_task(client.post("/v2/models/slow/infer", json=spin(rounds)))]
            await asyncio.to_thread(eventually, lambda: pending(runtime) == 1)
            asked += [asyncio.create_task(client.post("/v2/models/slow/infer", json=spin(1))) for _ in range(49)]
            await asyncio.to_thread(eventually, lambda: pending(runtime) == 50)
            await asyncio.gather(*asked)
        assert pending(runtime) == 0
        assert metric(runtime, 'enginery_inference_pending_rows{model="slow"}') == 0
