"""Queue, clock and instance together, on a backend that fails when it is told to."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from enginery_runtime.datatypes import Array
from enginery_runtime.errors import InvalidRequestError, RequestError, UnavailableError
from enginery_runtime.infer import InferRequest, InferResult, ModelShape
from enginery_runtime.scheduler import Scheduler
from enginery_runtime.statistics import Statistics
from enginery_store.manifest import DeviceFacts, EngineManifest
from enginery_store.requests import Batching
from support.published import a_manifest
from support.tiny_models import double_plus_one


@dataclass
class FakeBackend:
    """y = 2x + 1 in numpy. A row of 13s fails; once `dead`, everything does; while `held`, nothing ends."""

    dead: bool = False
    rows_seen: list[int] = field(default_factory=list)
    held: threading.Event = field(default_factory=threading.Event)
    closed: threading.Event = field(default_factory=threading.Event)
    extra_rows: int = 0

    def __post_init__(self) -> None:
        self.held.set()

    def open(self, path: Path, manifest: EngineManifest, threads: int) -> None:
        """Nothing to open."""

    def infer(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        assert self.held.wait(10)
        x = inputs["x"]
        self.rows_seen.append(len(x))
        if self.dead or (x == 13).any():
            self.dead = self.dead or (x == 13).all()
            raise RuntimeError("illegal memory access")
        if (x == 7).any():
            raise InvalidRequestError("seven is refused")
        return {"y": np.concatenate([2 * x + 1, np.zeros((self.extra_rows, 4), np.float32)])}

    def device(self) -> DeviceFacts:
        return DeviceFacts(name="fake", architecture="fake")

    def close(self) -> None:
        self.closed.set()


@dataclass
class Bench:
    backend: FakeBackend
    scheduler: Scheduler
    broke: list[bool]

    def ask(self, value: float, rows: int = 1) -> asyncio.Future[InferResult]:
        """Submit a request; the future has its outcome."""
        future: asyncio.Future[InferResult] = asyncio.get_running_loop().create_future()

        def done(outcome: InferResult | RequestError) -> None:
            assert not future.done(), "answered twice"
            if isinstance(outcome, RequestError):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)

        x = np.full((rows, 4), value, np.float32)
        self.scheduler.submit(InferRequest("REST", {"x": x}, (), done))
        return future


@pytest.fixture
async def bench() -> AsyncIterator[Callable[..., Bench]]:
    made: list[Bench] = []

    def make(backend: FakeBackend | None = None, **batching: int) -> Bench:
        backend, broke = backend or FakeBackend(), list[bool]()
        shape = ModelShape(a_manifest(double_plus_one()), batching.get("max_batch_size", 1))
        good = {"x": np.zeros((1, 4), np.float32)}
        scheduler = Scheduler(
            backend,
            good,
            shape,
            Batching.model_validate(batching),
            Statistics(),
            max_queued_requests=100,
            broke=lambda: broke.append(True),
        )
        made.append(Bench(backend, scheduler, broke))
        return made[-1]

    yield make
    for item in made:
        item.backend.held.set()
        item.scheduler.stop()
        assert await asyncio.to_thread(item.backend.closed.wait, 10)


def first(result: InferResult) -> float:
    return float(result.outputs["y"][0, 0])


async def test_requests_of_one_turn_run_as_one_batch(bench: Callable[..., Bench]) -> None:
    it = bench(max_batch_size=8)
    results = await asyncio.gather(*(it.ask(value) for value in range(5)))
    assert [first(result) for result in results] == [1.0, 3.0, 5.0, 7.0, 9.0]
    assert it.backend.rows_seen == [5]
    assert it.scheduler.pending_requests == 0


async def test_without_batching_each_request_runs_alone(bench: Callable[..., Bench]) -> None:
    it = bench()
    await asyncio.gather(*(it.ask(value, rows=3) for value in range(4)))
    assert it.backend.rows_seen == [3, 3, 3, 3]


async def test_failing_request_is_found_in_its_batch_and_neighbours_are_answered(bench: Callable[..., Bench]) -> None:
    it = bench(max_batch_size=8)
    x = np.array([[13.0, 0.0, 0.0, 0.0]], np.float32)  # one element: the backend recovers
    good, refused = it.ask(1), it.ask(7)
    failed: asyncio.Future[InferResult | RequestError] = asyncio.get_running_loop().create_future()
    it.scheduler.submit(InferRequest("REST", {"x": x}, (), failed.set_result))
    other = it.ask(2)
    assert (first(await good), first(await other)) == (3.0, 5.0)
    outcome = await failed
    assert isinstance(outcome, RequestError)
    assert (outcome.status, outcome.code) == (500, "INTERNAL")
    with pytest.raises(InvalidRequestError):
        await refused
    assert it.broke == []


async def test_engine_that_stays_broken_ends_serving(bench: Callable[..., Bench]) -> None:
    it = bench()
    failing, waiting = it.ask(13), it.ask(1)
    with pytest.raises(RequestError) as failed:
        await failing
    assert failed.value.status == 500
    with pytest.raises(UnavailableError):
        await waiting
    assert it.broke == [True]
    with pytest.raises(UnavailableError):
        it.ask(1)


async def test_batch_with_other_rows_than_went_in_is_never_handed_out(bench: Callable[..., Bench]) -> None:
    it = bench(FakeBackend(extra_rows=1), max_batch_size=8)
    results = await asyncio.gather(it.ask(1), it.ask(2))
    assert it.backend.rows_seen == [2, 1, 1], "run again, one by one"
    assert [first(result) for result in results] == [3.0, 5.0]


async def test_stopping_answers_what_waits_and_what_runs(bench: Callable[..., Bench]) -> None:
    it = bench()
    it.backend.held.clear()
    running, waiting = it.ask(1), it.ask(2)
    await asyncio.sleep(0)
    it.scheduler.stop()
    for future in (running, waiting):
        with pytest.raises(UnavailableError):
            await future


async def test_clients_own_timeout_is_kept(bench: Callable[..., Bench]) -> None:
    it = bench()
    it.backend.held.clear()
    held = it.ask(1)
    late: asyncio.Future[InferResult | RequestError] = asyncio.get_running_loop().create_future()
    x = np.zeros((1, 4), np.float32)
    it.scheduler.submit(InferRequest("REST", {"x": x}, (), late.set_result, parameters={"timeout": 20_000}))
    outcome = await asyncio.wait_for(late, 5)
    assert isinstance(outcome, RequestError)
    assert outcome.status == 504
    it.backend.held.set()
    assert first(await held) == 3.0
