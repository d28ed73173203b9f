"""Health and metrics over real HTTP: silence of every watch is not alive, and a deleted model leaves no series."""

import asyncio
import time

import httpx
import pytest
from aiohttp import web
from enginery_operator import __main__ as process
from enginery_operator import metrics
from prometheus_client.parser import text_string_to_metric_families


@pytest.fixture
def leading() -> asyncio.Event:
    return asyncio.Event()


async def ask(runner: web.AppRunner, path: str) -> httpx.Response:
    port = next(address[1] for address in runner.addresses if address[0] == "0.0.0.0")
    async with httpx.AsyncClient() as client:
        return await client.get(f"http://127.0.0.1:{port}{path}")


async def test_a_standby_is_alive_and_an_acting_one_while_watches_deliver(leading: asyncio.Event) -> None:
    runner = await metrics.serve(0, lambda: process._trouble(leading))
    try:
        metrics.LAST_EVENT.set(time.time() - 10 * process.SILENT_SECONDS)
        assert (await ask(runner, "/healthz")).status_code == 200
        leading.set()
        silent = await ask(runner, "/healthz")
        assert silent.status_code == 503
        assert "no watch delivered anything for" in silent.text
        assert (await ask(runner, "/readyz")).status_code == 503
        metrics.LAST_EVENT.set(time.time())
        assert (await ask(runner, "/healthz")).status_code == 200
    finally:
        await runner.cleanup()


async def test_metrics_have_names_types_and_labels_that_stay(leading: asyncio.Event) -> None:
    metrics.RECONCILES.labels("Tenant", "ok").inc()
    metrics.RECONCILE_SECONDS.labels("Tenant").observe(0.1)
    metrics.WRITES.labels("create", "Job").inc()
    runner = await metrics.serve(0, lambda: None)
    try:
        text = (await ask(runner, "/metrics")).text
    finally:
        await runner.cleanup()
    found = {family.name: family for family in text_string_to_metric_families(text)}
    want = {
        "enginery_reconciles": ("counter", {"kind", "result"}),
        "enginery_reconcile_seconds": ("histogram", {"kind", "le"}),
        "enginery_queue_length": ("gauge", set()),
        "enginery_api_writes": ("counter", {"verb", "kind"}),
        "enginery_last_watch_event_timestamp_seconds": ("gauge", set()),
        "enginery_leader": ("gauge", set()),
    }
    for name, (kind, labels) in want.items():
        assert found[name].type == kind
        assert {label for sample in found[name].samples for label in sample.labels} == labels
        assert found[name].documentation


def test_models_are_counted_when_asked_so_that_none_outlives_its_model() -> None:
    reasons = {"Serving": 2, "Pending": 1}
    collector = metrics.ModelsByReason(lambda: reasons)

    def counted() -> dict[str, float]:
        return {sample.labels["reason"]: sample.value for family in collector.collect() for sample in family.samples}

    assert counted() == {"Serving": 2, "Pending": 1}
    del reasons["Pending"]
    assert counted() == {"Serving": 2}
