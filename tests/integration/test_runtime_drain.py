"""A process that is told to stop loses nobody's request."""

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import grpc
import httpx
import numpy as np
import pytest
from enginery_runtime.oip import grpc_service_pb2 as pb
from enginery_store.requests import Batching
from support.eventually import eventually
from support.forwarder import Forwarder
from support.oip import SERVICE, grpc_request, tensor, x_input
from support.runtime_process import RuntimeProcess
from support.runtime_stage import Stage
from support.s3_servers import moto_server
from support.tiny_models import double_plus_one, spinning


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with moto_server() as server:
        yield Stage(server, tmp_path_factory.mktemp("runtime"))


@dataclass
class Load:
    """What clients saw: moments of right answers, and what else came."""

    answered: list[float] = field(default_factory=list)
    refused: list[tuple[float, str]] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


RETRYABLE = (httpx.ConnectError, httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError)
"""No byte of an answer came: any client may ask again, elsewhere."""


REFUSED = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)
"""The second for a call that meets the shutdown of grpcio: a client that stays until the very end can see it."""


async def ask_rest(url: str, load: Load, ended: Callable[[], bool]) -> None:
    body = {"inputs": [x_input()]}
    async with httpx.AsyncClient(timeout=10) as client:
        while not ended():
            await asyncio.sleep(0.02)
            try:
                answer = await client.post(f"{url}/v2/models/tiny/infer", json=body)
            except RETRYABLE as error:
                load.refused.append((time.monotonic(), repr(error)))
                continue
            if answer.status_code == 200:
                load.answered.append(time.monotonic())
            elif answer.status_code == 503:
                load.refused.append((time.monotonic(), answer.text))
            else:
                load.wrong.append(answer.text)


async def ask_grpc(address: str, load: Load, ended: Callable[[], bool], pause_seconds: float = 0.02) -> None:
    message = grpc_request("tiny", ("x", "FP32", np.zeros((1, 4), np.float32)))
    async with grpc.aio.insecure_channel(address) as channel:
        infer = channel.unary_unary(
            f"{SERVICE}ModelInfer",
            request_serializer=pb.ModelInferRequest.SerializeToString,
            response_deserializer=pb.ModelInferResponse.FromString,
        )
        while not ended():
            await asyncio.sleep(pause_seconds)
            try:
                await infer(message, timeout=10)
                load.answered.append(time.monotonic())
            except grpc.aio.AioRpcError as error:
                if error.code() in REFUSED:
                    load.refused.append((time.monotonic(), error.details() or ""))
                else:
                    load.wrong.append(repr(error))


async def test_sigterm_under_load_fails_no_request_before_the_drain_delay_is_over(stage: Stage) -> None:
    order = stage.order(stage.publish(double_plus_one()), batching=Batching(max_batch_size=8))
    with stage.runtime(order, drain_delay_seconds=2, grpc_connection_age_seconds=1) as runtime:
        await asyncio.to_thread(runtime.wait_ready)
        rest, rpc, told = Load(), Load(), 0.0

        def ended() -> bool:
            return runtime.process.poll() is not None

        tasks = [asyncio.create_task(ask_rest(runtime.url, rest, ended)) for _ in range(4)]
        tasks += [asyncio.create_task(ask_grpc(runtime.grpc_address, rpc, ended)) for _ in range(4)]
        await asyncio.to_thread(eventually, lambda: len(rest.answered) > 50 and len(rpc.answered) > 50)
        told = time.monotonic()
        runtime.terminate()
        unready = await asyncio.to_thread(health_during_drain, runtime)
        code = await asyncio.to_thread(runtime.wait_end)
        await asyncio.gather(*tasks)
    assert code == 0
    assert unready == (200, 503)
    for load in (rest, rpc):
        assert load.wrong == []
        assert [words for moment, words in load.refused if moment < told + 2] == []
        assert max(load.answered) > told + 1, "served on during the drain delay"


async def test_grpc_clients_of_a_service_move_on_without_a_failed_call(stage: Stage) -> None:
    """A call that meets the shutdown of grpcio is answered CANCELLED: so nobody may be connected by then."""
    order, load = stage.order(stage.publish(double_plus_one())), Load()
    with stage.runtime(order, grpc_connection_age_seconds=1) as old, stage.runtime(order) as new:
        await asyncio.to_thread(old.wait_ready)
        await asyncio.to_thread(new.wait_ready)
        service, done = Forwarder("127.0.0.1", ("127.0.0.1", old.grpc_port)), asyncio.Event()
        service.open()
        asking = [ask_grpc(f"127.0.0.1:{service.port}", load, done.is_set, pause_seconds=0) for _ in range(8)]
        tasks = [asyncio.create_task(one) for one in asking]
        await asyncio.to_thread(eventually, lambda: len(load.answered) > 200)
        service.turn_to(("127.0.0.1", new.grpc_port))
        old.terminate()
        code = await asyncio.to_thread(old.wait_end)
        before = len(load.answered)
        await asyncio.to_thread(eventually, lambda: len(load.answered) > before + 200)
        done.set()
        await asyncio.gather(*tasks)
        service.close()
    assert code == 0
    assert (load.refused, load.wrong) == ([], [])


def health_during_drain(runtime: RuntimeProcess) -> tuple[int, int]:
    """Live and ready, as soon as ready changed."""
    give_up = time.monotonic() + 1.5
    while (ready := runtime.get("/v2/health/ready").status_code) == 200 and time.monotonic() < give_up:
        time.sleep(0.01)
    return runtime.get("/v2/health/live").status_code, ready


def slow(rounds: int) -> dict[str, object]:
    return {"inputs": [tensor("x", "FP32", [1, 1], [1.5]), tensor("rounds", "INT64", [1, 1], [rounds])]}


def rounds_for(runtime: RuntimeProcess, seconds: float) -> int:
    """How many rounds of the loop take this machine so long."""
    began = time.monotonic()
    runtime.infer("slow", slow(100_000)).raise_for_status()
    return int(seconds / (time.monotonic() - began) * 100_000)


async def test_accepted_request_is_finished_and_idle_connections_are_told(stage: Stage) -> None:
    order = stage.order(stage.publish(spinning()), name="slow")
    with stage.runtime(order, drain_delay_seconds=1) as runtime:
        await asyncio.to_thread(runtime.wait_ready)
        rounds = await asyncio.to_thread(rounds_for, runtime, 2.5)
        async with httpx.AsyncClient(base_url=runtime.url, timeout=30) as client:
            asked = asyncio.create_task(client.post("/v2/models/slow/infer", json=slow(rounds)))
            await asyncio.to_thread(eventually, lambda: 'pending_requests{model="slow"} 1.0' in runtime.metrics())
            idle = await client.get("/v2/health/live")
            runtime.terminate()
            await asyncio.to_thread(eventually, lambda: runtime.get("/v2/health/ready").status_code == 503)
            late = await client.get("/v2/health/ready")
            answer = await asked
        code = await asyncio.to_thread(runtime.wait_end)
    assert idle.status_code == 200
    assert late.headers["Connection"] == "close"
    assert answer.status_code == 200
    assert answer.headers["Connection"] == "close"
    assert answer.json()["outputs"][0]["data"] == [1.5]
    assert code == 0


async def test_request_longer_than_grace_is_cut_with_a_clear_status(stage: Stage) -> None:
    order = stage.order(stage.publish(spinning()), name="slow")
    with stage.runtime(order, grace_seconds=1) as runtime:
        await asyncio.to_thread(runtime.wait_ready)
        rounds = await asyncio.to_thread(rounds_for, runtime, 8)
        async with httpx.AsyncClient(base_url=runtime.url, timeout=30) as client:
            asked = [asyncio.create_task(client.post("/v2/models/slow/infer", json=slow(rounds))) for _ in range(2)]
            await asyncio.to_thread(eventually, lambda: 'pending_requests{model="slow"} 2.0' in runtime.metrics())
            began = time.monotonic()
            runtime.terminate()
            answers = await asyncio.gather(*asked)
        code = await asyncio.to_thread(runtime.wait_end)
        took = time.monotonic() - began
    assert [answer.status_code for answer in answers] == [503, 503]
    assert code == 0
    assert took < 3


def test_second_signal_ends_at_once(stage: Stage) -> None:
    order = stage.order(stage.publish(double_plus_one()))
    with stage.runtime(order, drain_delay_seconds=20) as runtime:
        runtime.wait_ready()
        runtime.terminate()
        while runtime.get("/v2/health/ready").status_code == 200:
            time.sleep(0.01)
        began = time.monotonic()
        runtime.terminate()
        assert runtime.wait_end() == 1
        assert time.monotonic() - began < 2
