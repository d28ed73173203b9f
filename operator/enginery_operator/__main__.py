"""Composition root: settings -> Context -> Lease -> kopf.operator, the workers and the health server, until a signal.

`python -m enginery_operator`; exit code 0 after a signal, 1 when the Lease was lost or something of ours ended.
"""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Coroutine
from typing import Any

import kopf
from enginery_store import log

from enginery_operator import handlers, metrics
from enginery_operator import settings as settings_module
from enginery_operator.cache import Cache
from enginery_operator.cluster import Cluster
from enginery_operator.lease import Leadership
from enginery_operator.reconcile import Context, reconcile
from enginery_operator.settings import Settings
from enginery_operator.stored import ModelStore
from enginery_operator.workqueue import WorkQueue

_log = logging.getLogger("enginery_operator")

CRD_NAMES = ("inferencemodels.enginery.io", "tenants.enginery.io")
"""What must be installed before the first watch."""

SILENT_SECONDS = 900
"""Nodes report far more often than this; a process to whose watches nothing comes is not alive."""

SHUTDOWN_SECONDS = 10
"""Time that passes in flight have after a signal."""


async def run(settings: Settings) -> int:
    """Run until a signal; returns the exit code."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, stop.set)
    cluster = await Cluster.connect()
    ctx = Context(settings, cluster, ModelStore(settings.store_credentials_folder), Cache())
    queue = WorkQueue(lambda key: reconcile(key, ctx), settings.workers)
    metrics.QUEUE_LENGTH.set_function(lambda: len(queue))
    leading = asyncio.Event()
    identity = f"{os.environ.get('POD_NAME', socket.gethostname())}-{os.getpid()}"
    server = await metrics.serve(settings.http_port, lambda: _trouble(leading))
    metrics.REGISTRY.register(metrics.ModelsByReason(lambda: ctx.cache.reasons() if ctx.cache.bound else {}))

    async def work() -> None:
        leading.set()
        metrics.LEADER.set(1)
        metrics.LAST_EVENT.set(time.time())
        await _require_crds(cluster)
        await _operate(ctx, queue, stop, identity)

    leader = asyncio.create_task(Leadership(cluster, settings.lease, settings.namespace, identity).lead(work))
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({leader, stopping}, return_when=asyncio.FIRST_COMPLETED)
    if stop.is_set() and leading.is_set():
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(leader, SHUTDOWN_SECONDS)
    leader.cancel()
    for ended in await asyncio.gather(leader, return_exceptions=True):
        if isinstance(ended, Exception):
            _log.error("the operator ended by itself", exc_info=ended)
    await server.cleanup()
    await cluster.close()
    if stop.is_set():
        return 0
    _log.error("not acting any more; ending, so that one replica acts")
    return 1


async def _operate(ctx: Context, queue: WorkQueue, stop: asyncio.Event, identity: str) -> None:
    """Kopf's watches and our workers, until a signal. Whichever ends first ends the other."""
    registry = kopf.OperatorRegistry()
    handlers.register(registry, ctx, queue)
    kopf_settings = kopf.OperatorSettings()
    handlers.configure(kopf_settings)
    handlers.quieten()
    namespaces = list(ctx.settings.watch_namespaces)
    watches = kopf.operator(
        registry=registry,
        settings=kopf_settings,
        standalone=True,
        identity=identity,  # kopf's own would ask for the name of a user that the image does not have
        clusterwide=not namespaces,
        namespaces=namespaces,
        stop_flag=stop,
    )
    await _together(watches, queue.run())
    # kopf takes the signals for itself once it runs: that it ended well is how we learn of one.
    stop.set()


async def _together(*works: Coroutine[Any, Any, None]) -> None:
    """Run until one of them ends, then end the others; all of them when this is cancelled, and before it returns:
    who lost the Lease may not act while it is being given back.
    """
    tasks = [asyncio.create_task(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait([asyncio.gather(*tasks, return_exceptions=True)], timeout=SHUTDOWN_SECONDS)
    for task in done:
        task.result()


async def _require_crds(cluster: Cluster) -> None:
    """Say what is missing instead of watching nothing."""
    for name in CRD_NAMES:
        while await cluster.get("CustomResourceDefinition", "", name) is None:
            _log.error("CRD is not installed; install the chart with crds.enabled=true", extra={"crd": name})
            await asyncio.sleep(5)


def _trouble(leading: asyncio.Event) -> str | None:
    """What makes this process not alive: watches that deliver nothing while it acts."""
    if not leading.is_set():
        return None
    silent = time.time() - metrics.LAST_EVENT._value.get()  # noqa: SLF001 - the gauge is ours
    return f"no watch delivered anything for {silent:.0f} s" if silent > SILENT_SECONDS else None


def main() -> int:
    """Read settings, configure logging, run."""
    log.configure("INFO")
    settings = settings_module.load()
    log.configure(settings.log_level)
    logging.getLogger("kopf").setLevel(logging.WARNING)
    logging.getLogger("kubernetes").setLevel(logging.WARNING)
    return asyncio.run(run(settings))


if __name__ == "__main__":
    sys.exit(main())
