"""Metrics of the operator, and the small server that shows them beside health. Called by `workqueue` and `__main__`."""

import time
from collections.abc import Callable, Iterator, Mapping

from aiohttp import web
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

REGISTRY = CollectorRegistry()
"""Our own series, and CPU and memory of the process."""
ProcessCollector(registry=REGISTRY)

RECONCILES = Counter(
    "enginery_reconciles", "Passes over an object, by kind and result.", ["kind", "result"], registry=REGISTRY
)
RECONCILE_SECONDS = Histogram(
    "enginery_reconcile_seconds",
    "Time of one pass, store and API server included.",
    ["kind"],
    registry=REGISTRY,
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
)
QUEUE_LENGTH = Gauge("enginery_queue_length", "Objects waiting for a pass.", registry=REGISTRY)
WRITES = Counter(
    "enginery_api_writes", "Writes to the API server, the Lease apart.", ["verb", "kind"], registry=REGISTRY
)
LAST_EVENT = Gauge(
    "enginery_last_watch_event_timestamp_seconds", "When any watch last delivered something.", registry=REGISTRY
)
LEADER = Gauge("enginery_leader", "1 while this replica acts.", registry=REGISTRY)


class ModelsByReason(Collector):
    """Counts models when asked, so that a deleted model leaves no series behind."""

    def __init__(self, count: Callable[[], Mapping[str, int]]) -> None:
        self._count = count

    def collect(self) -> Iterator[Metric]:
        """One gauge per Ready.reason."""
        gauge = GaugeMetricFamily("enginery_models", "InferenceModels by Ready.reason.", labels=["reason"])
        for reason, number in self._count().items():
            gauge.add_metric([reason], number)
        yield gauge


async def serve(port: int, alive: Callable[[], str | None]) -> web.AppRunner:
    """Serve /metrics, /healthz and /readyz on `port`. `alive` returns what is wrong, or None.

    A standby replica is alive and ready: it is ready to take over.
    """

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=generate_latest(REGISTRY), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def health(_: web.Request) -> web.Response:
        trouble = alive()
        return web.Response(status=503 if trouble else 200, text=(trouble or "ok") + "\n")

    app = web.Application()
    app.add_routes([web.get("/metrics", metrics), web.get("/healthz", health), web.get("/readyz", health)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, port=port).start()
    LAST_EVENT.set(time.time())
    return runner
