"""The /metrics page: what `statistics` counted, written in Prometheus' form when it is asked for. Called by `serve`.

A collector of our own instead of the library's counters: nothing of it runs while requests are served, and labels are
bounded by what is counted, so unknown models add no series.
"""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from enginery_runtime.http1 import Exchange
from enginery_runtime.service import InferenceService
from enginery_runtime.statistics import Histogram

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"
"""Prometheus' text form."""


class RuntimeCollector(Collector):
    """All series of the runtime, from the service's present state."""

    def __init__(self, service: InferenceService) -> None:
        self._service = service

    def collect(self) -> Iterator[Metric]:
        """Called once per scrape."""
        service, model = self._service, self._service.name
        counted = service.statistics
        requests = CounterMetricFamily(
            "enginery_inference_requests",
            "Inference requests answered, by outcome; model is empty for those this server does not have.",
            labels=["model", "protocol", "code"],
        )
        for (known, protocol, code), count in sorted(counted.answers.items()):
            requests.add_metric([model if known else "", protocol, code], count)
        yield requests
        yield _histogram("enginery_inference_queue_seconds", "Time a request waited.", model, counted.queue_seconds)
        yield _histogram("enginery_inference_infer_seconds", "Time the engine took.", model, counted.infer_seconds)
        yield _histogram("enginery_inference_total_seconds", "From queued to answered.", model, counted.total_seconds)
        yield _histogram("enginery_inference_batch_rows", "Rows of each run of the engine.", model, counted.batch_rows)
        waiting, rows = service.pending
        yield _gauge(
            "enginery_inference_pending_requests", "Requests that wait or run.", ["model"], {(model,): waiting}
        )
        yield _gauge("enginery_inference_pending_rows", "Rows that wait or run.", ["model"], {(model,): rows})
        used = service.budget.used
        yield _gauge("enginery_inference_inflight_bytes", "Bytes of requests not answered yet.", [], {(): used})
        ready = service.lifecycle.ready
        yield _gauge("enginery_ready", "Whether the server is ready.", ["model"], {(model,): float(ready)})
        phases: dict[tuple[str, ...], float] = {
            (phase,): seconds for phase, seconds in counted.cold_start_seconds.items()
        }
        yield _gauge("enginery_cold_start_seconds", "Time each phase of the start took.", ["phase"], phases)
        if service.manifest is not None:
            yield _gauge(
                "enginery_engine_info",
                "The engine that is served; key is the beginning of its digest.",
                ["model", "revision", "key", "backend", "precision"],
                {
                    (
                        model,
                        service.version,
                        service.manifest.key[:16],
                        service.manifest.backend,
                        service.manifest.precision_effective,
                    ): 1.0
                },
            )


class MetricsApi:
    """The application of the metrics port."""

    def __init__(self, service: InferenceService) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(RuntimeCollector(service))
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        GCCollector(registry=self._registry)

    def __call__(self, exchange: Exchange) -> None:
        """Answer a scrape."""
        if exchange.url.partition(b"?")[0] != b"/metrics":
            exchange.answer(404, b'{"error":"this port has /metrics only"}')
        elif exchange.method not in (b"GET", b"HEAD"):
            exchange.answer(405, b'{"error":"/metrics takes GET only"}', extra=b"Allow: GET\r\n")
        else:
            exchange.answer(200, generate_latest(self._registry), CONTENT_TYPE)


def _gauge(name: str, text: str, labels: list[str], values: dict[tuple[str, ...], float]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=labels)
    for label_values, value in values.items():
        family.add_metric(list(label_values), value)
    return family


def _histogram(name: str, text: str, model: str, histogram: Histogram) -> HistogramMetricFamily:
    family = HistogramMetricFamily(name, text, labels=["model"])
    buckets, running = [], 0
    for bound, count in zip((*histogram.bounds, float("inf")), histogram.counts, strict=True):
        running += count
        buckets.append(("+Inf" if bound == float("inf") else repr(bound), float(running)))
    family.add_metric([model], buckets, histogram.total)
    return family
