"""The queue between watches and passes: one pass at a time per object, none lost, none too early."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import pytest
from enginery_operator.errors import ClusterUnavailableError, GoneError
from enginery_operator.workqueue import GONE_SECONDS, RETRY_LIMIT_SECONDS, Interest, Key, WorkQueue

A, B = Key("InferenceModel", "team-a", "a"), Key("InferenceModel", "team-a", "b")


class Clock:
    """Time that moves when a test says so."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@asynccontextmanager
async def running(queue: WorkQueue) -> AsyncIterator[None]:
    task = asyncio.create_task(queue.run())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def settled() -> None:
    """Every task that can go on has gone on."""
    for _ in range(50):
        await asyncio.sleep(0)


async def passes(queue: WorkQueue, clock: Clock, seconds: float) -> None:
    """Move the clock and wake the queue, as its own timer would."""
    clock.now += seconds
    queue._wake.set()
    await settled()


async def test_one_pass_at_a_time_per_object_and_several_at_once_for_others() -> None:
    at_work: Counter[Key] = Counter()
    most: Counter[Key] = Counter()
    together = 0
    gate = asyncio.Event()

    async def work(key: Key) -> None:
        nonlocal together
        at_work[key] += 1
        most[key] = max(most[key], at_work[key])
        together = max(together, sum(at_work.values()))
        await gate.wait()
        at_work[key] -= 1

    queue = WorkQueue(work, 4, Clock())
    async with running(queue):
        for _ in range(10):
            queue.add(A)
            queue.add(B)
            await settled()
        assert (most[A], most[B], together) == (1, 1, 2)
        gate.set()
        await settled()


async def test_workers_are_a_cap() -> None:
    together = most = 0
    gate = asyncio.Event()

    async def work(_: Key) -> None:
        nonlocal together, most
        together += 1
        most = max(most, together)
        await gate.wait()
        together -= 1

    queue = WorkQueue(work, 3, Clock())
    async with running(queue):
        for number in range(20):
            queue.add(Key("InferenceModel", "team-a", str(number)))
        await settled()
        assert (most, len(queue)) == (3, 20)
        gate.set()
        await settled()
        assert len(queue) == 0
    assert most == 3


async def test_a_change_during_a_pass_leads_to_another_pass() -> None:
    seen: list[int] = []
    version = 1
    gate = asyncio.Event()

    async def work(_: Key) -> None:
        seen.append(version)
        await gate.wait()

    queue = WorkQueue(work, 2, Clock())
    async with running(queue):
        queue.add(A)
        await settled()
        for version in (2, 3, 4):  # noqa: B007 - what a pass reads
            queue.add(A)
        gate.set()
        await settled()
    assert seen == [1, 4]


@pytest.mark.parametrize("seed", range(20))
async def test_the_last_version_is_always_seen(seed: int) -> None:
    generator = random.Random(seed)  # noqa: S311 - a seed, so that a failure comes again
    version = 0
    seen: list[int] = []

    async def work(_: Key) -> float | None:
        read = version
        for _ in range(generator.randrange(6)):
            await asyncio.sleep(0)
        if generator.random() < 0.1:
            raise ClusterUnavailableError("x")
        seen.append(read)
        return None

    clock = Clock()
    queue = WorkQueue(work, 2, clock)
    async with running(queue):
        for version in range(1, 30):  # noqa: B007 - what a pass reads
            queue.add(A)
            for _ in range(generator.randrange(4)):
                await asyncio.sleep(0)
        await settled()
        for _ in range(20):
            await passes(queue, clock, RETRY_LIMIT_SECONDS * 2)
    assert seen[-1] == 29
    assert seen == sorted(seen)
    assert queue._entries == {}


async def test_the_earliest_due_time_wins() -> None:
    done: list[float] = []
    clock = Clock()

    async def work(_: Key) -> None:
        done.append(clock.now)

    queue = WorkQueue(work, 1, clock)
    async with running(queue):
        queue.add(A, 30)
        queue.add(A, 10)
        queue.add(A, 20)
        await passes(queue, clock, 9)
        assert done == []
        await passes(queue, clock, 1)
        assert done == [1010]
        await passes(queue, clock, 100)
    assert done == [1010]


async def test_a_pass_asks_for_its_next_and_a_change_comes_before_it() -> None:
    done: list[float] = []
    clock = Clock()

    async def work(_: Key) -> float:
        done.append(clock.now)
        return 300

    queue = WorkQueue(work, 1, clock)
    async with running(queue):
        queue.add(A)
        await settled()
        await passes(queue, clock, 299)
        await passes(queue, clock, 1)
        queue.add(A)
        await settled()
    assert done == [1000, 1300, 1300]


@pytest.mark.parametrize("failures", [1, 2, 5, 12])
async def test_failed_passes_back_off_doubling_up_to_a_limit(failures: int) -> None:
    done: list[float] = []
    clock = Clock()

    async def work(_: Key) -> None:
        done.append(clock.now)
        raise ClusterUnavailableError("the API server does not answer")

    queue = WorkQueue(work, 1, clock)
    async with running(queue):
        queue.add(A)
        await settled()
        while len(done) <= failures:
            await passes(queue, clock, 0.1 * 2 ** len(done))
    pause = done[failures] - done[failures - 1]
    want = min(2 ** (failures - 1), RETRY_LIMIT_SECONDS)
    assert 0.7 * want <= pause <= 1.3 * want + 0.1 * 2**failures


async def test_a_good_pass_forgets_failures_and_one_object_does_not_hold_up_another() -> None:
    clock = Clock()
    results: list[Exception | None] = [ValueError("a bug"), None, ValueError("again")]
    done: list[Key] = []

    async def work(key: Key) -> float | None:
        done.append(key)
        if key == B:
            return None
        if (error := results.pop(0)) is not None:
            raise error
        return 5

    queue = WorkQueue(work, 1, clock)
    async with running(queue):
        queue.add(A)
        queue.add(B)
        await settled()
        assert done == [A, B]
        await passes(queue, clock, 1.3)
        assert queue._entries[A].failures == 0
        await passes(queue, clock, 5)
        assert queue._entries[A].failures == 1
        assert queue._entries[A].due - clock.now <= 1.3


async def test_an_object_whose_work_says_so_is_forgotten() -> None:
    async def work(_: Key) -> None:
        return None

    queue = WorkQueue(work, 2, Clock())
    async with running(queue):
        queue.add(A)
        await settled()
        assert queue._entries == {}


async def test_something_gone_leads_to_another_pass_that_finds_out_what() -> None:
    done: list[Key] = []

    async def work(key: Key) -> None:
        done.append(key)
        if len(done) == 1:
            raise GoneError("not found", 404)

    clock = Clock()
    queue = WorkQueue(work, 2, clock)
    async with running(queue):
        queue.add(A)
        await settled()
        assert done == [A]
        await passes(queue, clock, GONE_SECONDS + 1)
        assert done == [A, A]
        assert queue._entries == {}


async def test_cancelling_ends_passes_and_leaves_no_task_behind() -> None:
    ended: list[str] = []

    async def work(_: Key) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")

    queue = WorkQueue(work, 2, Clock())
    before = asyncio.all_tasks()
    async with running(queue):
        queue.add(A)
        queue.add(B)
        await settled()
    assert ended == ["cancelled", "cancelled"]
    assert asyncio.all_tasks() == before


async def test_an_idle_queue_sleeps_until_something_is_due() -> None:
    looks = 0

    def clock() -> float:
        nonlocal looks
        looks += 1
        return 1000.0

    async def work(_: Key) -> None:
        """Nothing to do."""

    queue = WorkQueue(work, 1, clock)
    async with running(queue):
        queue.add(A, 3600)
        await settled()
        before = looks
        await settled()
        assert looks == before


def waits(*marks: str) -> Callable[[Interest], None]:
    return lambda interest: interest.set(A, set(marks))


def test_interest_is_stated_anew_by_each_pass() -> None:
    interest = Interest()
    waits("one", "two")(interest)
    interest.set(B, {"two"})
    assert interest.of("two") == {A, B}
    waits("three")(interest)
    assert (interest.of("one"), interest.of("two"), interest.of("three")) == (set(), {B}, {A})


def test_interest_keeps_nothing_of_objects_that_are_gone() -> None:
    interest = Interest()
    for number in range(1000):
        key = Key("InferenceModel", "team-a", str(number))
        interest.set(key, {f"mark-{number}", "shared"})
        interest.set(key, set())
    assert len(interest) == 0
    assert interest._keys == {}
