"""The rule of batching, with a clock that only the test moves."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from enginery_runtime.batch import BatchQueue
from enginery_runtime.infer import InferRequest
from enginery_store.requests import Batching


@dataclass
class Clock:
    now: float = 100.0

    def __call__(self) -> float:
        return self.now


def a_request(rows: int = 1, width: int = 4, received: float = 100.0, deadline: float | None = None) -> InferRequest:
    request = InferRequest("REST", {"x": np.zeros((rows, width), np.float32)}, (), lambda _: None)
    request.rows, request.signature, request.received, request.deadline = rows, (("x", (width,)),), received, deadline
    return request


def a_queue(clock: Clock, max_rows: int = 8, **batching: int | list[int]) -> BatchQueue:
    return BatchQueue(Batching.model_validate({"max_batch_size": max_rows, **batching}), max_rows, clock)


def filled(queue: BatchQueue, requests: Sequence[InferRequest]) -> BatchQueue:
    for request in requests:
        queue.put(request)
    return queue


RULES: dict[str, tuple[list[tuple[int, int]], list[list[int]]]] = {
    "all that waits merges when the instance is free": ([(1, 4), (2, 4), (3, 4)], [[0, 1, 2]]),
    "a batch is never larger than the maximum": ([(3, 4), (3, 4), (3, 4)], [[0, 1], [2]]),
    "a request of the maximum passes alone": ([(8, 4), (1, 4)], [[0], [1]]),
    "no request is overtaken by a smaller one of its shape": ([(5, 4), (5, 4), (1, 4)], [[0], [1, 2]]),
    "other shapes queue apart": ([(1, 4), (1, 5), (1, 4), (1, 5)], [[0, 2], [1, 3]]),
    "the oldest request heads the next batch": ([(8, 4), (1, 5), (8, 4), (8, 4)], [[0], [1], [2], [3]]),
    "nothing waits": ([], []),
}


@pytest.mark.parametrize("case", RULES)
def test_batches_follow_the_rule(case: str) -> None:
    arrivals, want = RULES[case]
    requests = [a_request(rows, width) for rows, width in arrivals]
    queue = filled(a_queue(Clock()), requests)
    found = []
    while batch := queue.take():
        found.append([requests.index(request) for request in batch])
    assert found == want
    assert (queue.requests, queue.rows) == (0, 0)


def test_any_arrivals_keep_size_order_and_every_request() -> None:
    for seed in range(200):
        dice = random.Random(seed)  # noqa: S311 - arrivals, not secrets
        clock, requests, batches = Clock(), [], []
        queue = a_queue(clock, max_rows=8)
        cancelled = set()
        for _ in range(dice.randint(1, 60)):
            clock.now += dice.random() / 100
            if dice.random() < 0.7:
                requests.append(a_request(dice.randint(1, 8), dice.choice((3, 4, 5)), clock.now))
                queue.put(requests[-1])
            if requests and dice.random() < 0.1:
                victim = dice.choice(requests)
                if queue.discard(victim):
                    cancelled.add(id(victim))
            if dice.random() < 0.3:
                batches.append(queue.take())
        while batch := queue.take():
            batches.append(batch)
        taken = [request for batch in batches for request in batch]
        assert all(sum(request.rows for request in batch) <= 8 for batch in batches)
        assert all(len({request.signature for request in batch}) <= 1 for batch in batches)
        assert {id(request) for request in taken} | cancelled == {id(request) for request in requests}
        assert len(taken) == len(requests) - len(cancelled)
        for width in (3, 4, 5):
            order = [request.received for request in taken if request.signature == (("x", (width,)),)]
            assert order == sorted(order)


def test_delay_is_waited_only_until_the_batch_is_full() -> None:
    clock = Clock()
    queue = filled(a_queue(clock, max_queue_delay_microseconds=500), [a_request(3)])
    assert queue.take() == []
    assert queue.next_batch_at() == pytest.approx(100.0005)
    filled(queue, [a_request(5)])
    assert len(queue.take()) == 2


def test_delay_ends_with_its_time() -> None:
    clock = Clock()
    queue = filled(a_queue(clock, max_queue_delay_microseconds=500), [a_request(3)])
    clock.now += 0.0006
    assert len(queue.take()) == 1


def test_delay_ends_at_a_preferred_size() -> None:
    queue = filled(a_queue(Clock(), max_queue_delay_microseconds=500, preferred_batch_sizes=[4, 64]), [a_request(3)])
    assert queue.take() == []
    filled(queue, [a_request(1)])
    assert len(queue.take()) == 2


def test_timeout_takes_out_what_waited_too_long_in_order() -> None:
    clock = Clock()
    early, own, late = a_request(), a_request(deadline=100.1), a_request(received=100.4)
    queue = filled(a_queue(clock, queue_timeout_milliseconds=500), [early, own, late])
    assert queue.next_deadline() == 100.1
    clock.now = 100.3
    assert queue.expire() == [own]
    clock.now = 100.5
    assert queue.expire() == [early]
    assert queue.next_deadline() == pytest.approx(100.9)
    assert queue.take() == [late]
    assert queue.next_deadline() is None


def test_cancelled_request_is_gone_and_cancelling_again_says_so() -> None:
    first, second = a_request(), a_request()
    queue = filled(a_queue(Clock()), [first, second])
    assert queue.discard(first)
    assert not queue.discard(first)
    assert queue.take() == [second]
    assert not queue.discard(second)


def test_draining_gives_back_everything_oldest_first() -> None:
    requests = [a_request(1, width) for width in (4, 5, 4)]
    queue = filled(a_queue(Clock()), requests)
    assert queue.drain() == requests
    assert queue.requests == 0
