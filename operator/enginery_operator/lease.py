"""Leader election by a Lease: one replica acts, a standby takes over when the active one is silent or leaves.

Called by `__main__`. The client library's own election (kubernetes 37.0.0) cannot create its Lease and ends on the
first broken connection, so this is ours, by client-go's rules: a holder is judged by how long the Lease has not
changed on our own clock, never by comparing clocks of two machines.
"""

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from enginery_operator.cluster import Cluster
from enginery_operator.errors import ClusterError, ConflictError
from enginery_operator.settings import Lease

_log = logging.getLogger(__name__)


@dataclass
class Leadership:
    """One candidate."""

    cluster: Cluster
    lease: Lease
    namespace: str
    identity: str
    clock: Callable[[], float] = time.monotonic
    _seen: tuple[str, float] = field(default=("", 0.0))
    """Resource version of the Lease as last observed, and when on our clock it was first seen."""

    async def lead(self, work: Callable[[], Awaitable[None]]) -> None:
        """Wait for the Lease and run `work` while it is held; returns when it was lost, or with work's own end.

        When work ends the Lease is given back, so that a standby takes over at once.
        """
        while not await self._try():  # noqa: ASYNC110 - the Lease is another machine's; there is no event to await
            await asyncio.sleep(self.lease.retry_seconds)
        _log.info("holding the lease", extra={"identity": self.identity})
        working = asyncio.ensure_future(work())
        holding = asyncio.create_task(self._hold())
        try:
            await asyncio.wait({working, holding}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            holding.cancel()
            if not working.done():
                working.cancel()
                await asyncio.gather(working, return_exceptions=True)
            await self._release()
        if not working.cancelled():
            working.result()

    async def _hold(self) -> None:
        """Renew until that failed for the renew deadline; counted from when the last good renewal was sent.

        Neither a pause nor a request that hangs goes past the deadline, as a standby acts soon after it.
        """
        deadline = self.clock() + self.lease.renew_deadline_seconds
        while (left := deadline - self.clock()) > 0:
            await asyncio.sleep(min(self.lease.retry_seconds, left))
            sent = self.clock()
            if sent < deadline and await self._try(deadline - sent):
                deadline = sent + self.lease.renew_deadline_seconds
        _log.error("the lease was lost", extra={"identity": self.identity})

    async def _try(self, within_seconds: float = math.inf) -> bool:
        """Take or renew the Lease once; False when another holds it or the API server does not answer in time."""
        try:
            patience = min(self.lease.renew_deadline_seconds / 2, within_seconds)
            async with asyncio.timeout(patience):  # wait_for of Python 3.11 may swallow a cancellation
                return await self._take_or_renew()
        except (ClusterError, TimeoutError) as error:
            _log.warning("lease not renewed", extra={"error": str(error) or type(error).__name__})
            return False

    async def _take_or_renew(self) -> bool:
        found = await self.cluster.get("Lease", self.namespace, self.lease.name)
        if found is None:
            return await self.cluster.create_once(self._object(None))
        holder = found["spec"].get("holderIdentity") or ""
        if holder not in {"", self.identity} and not self._expired(found):
            return False
        try:
            await self.cluster.replace(self._object(found))
        except ConflictError:
            return False
        return True

    def _expired(self, found: dict[str, Any]) -> bool:
        version = found["metadata"]["resourceVersion"]
        if version != self._seen[0]:
            self._seen = (version, self.clock())
        return self.clock() - self._seen[1] > self.lease.duration_seconds

    def _object(self, found: dict[str, Any] | None) -> dict[str, Any]:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = dict(found["spec"]) if found else {}
        if spec.get("holderIdentity") != self.identity:
            spec |= {"acquireTime": now, "leaseTransitions": spec.get("leaseTransitions", -1) + 1}
        spec |= {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": self.lease.duration_seconds,
            "renewTime": now,
        }
        metadata = {"name": self.lease.name, "namespace": self.namespace}
        if found:
            metadata["resourceVersion"] = found["metadata"]["resourceVersion"]
        return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}

    async def _release(self) -> None:
        try:
            found = await self.cluster.get("Lease", self.namespace, self.lease.name)
            if found is not None and found["spec"].get("holderIdentity") == self.identity:
                mine = self._object(found)
                mine["spec"]["holderIdentity"] = ""
                await self.cluster.replace(mine)
        except ClusterError as error:
            _log.warning("lease not given back; a standby waits for it to expire", extra={"error": error.message})
