"""The process: what runs together ends together."""

import asyncio
from collections.abc import Callable

import pytest
from enginery_operator.__main__ import _together


async def at_work(name: str, ended: list[str]) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        await asyncio.sleep(0)
        ended.append(name)


async def test_whoever_is_cancelled_has_ended_all_its_work_before_it_returns() -> None:
    """The Lease is given back, or another's, from then on."""
    ended: list[str] = []
    working = asyncio.create_task(_together(at_work("watches", ended), at_work("workers", ended)))
    await asyncio.sleep(0.01)
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    assert sorted(ended) == ["watches", "workers"]


def nothing() -> None:
    """End well."""


def fail() -> None:
    raise ValueError("a bug")


@pytest.mark.parametrize(("action", "want"), [(nothing, None), (fail, ValueError)])
async def test_the_first_to_end_ends_the_other_and_says_how(
    action: Callable[[], None], want: type[Exception] | None
) -> None:
    ended: list[str] = []

    async def first() -> None:
        action()

    found = (await asyncio.gather(_together(first(), at_work("other", ended)), return_exceptions=True))[0]
    assert ended == ["other"]
    assert found is None if want is None else isinstance(found, want)
