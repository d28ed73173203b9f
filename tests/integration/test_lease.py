"""Who acts: leader election against the real API server, with candidates whose connection a test can cut."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
from enginery_operator.cluster import Cluster
from enginery_operator.errors import ClusterUnavailableError
from enginery_operator.lease import Leadership
from enginery_operator.settings import Lease
from kubernetes.aio import client, config
from support.api_server import ApiServer

pytestmark = pytest.mark.cluster

DEADLINE, RETRY = 3, 1


@dataclass
class Wire:
    """A real connection that can be cut, or made to hang, as a network does."""

    cluster: Cluster
    cut: bool = False
    hangs: bool = False
    refused: asyncio.Event = field(default_factory=asyncio.Event)

    async def get(self, *arguments: Any) -> Any:
        return await self._pass(self.cluster.get, *arguments)

    async def create_once(self, *arguments: Any) -> Any:
        return await self._pass(self.cluster.create_once, *arguments)

    async def replace(self, *arguments: Any) -> Any:
        return await self._pass(self.cluster.replace, *arguments)

    async def _pass(self, call: Callable[..., Awaitable[Any]], *arguments: Any) -> Any:
        if self.hangs:
            await asyncio.Event().wait()
        if self.cut:
            self.refused.set()
            raise ClusterUnavailableError("the API server does not answer: cut")
        return await call(*arguments)


@dataclass
class Candidate:
    """One replica, and when it acted."""

    name: str
    wire: Wire
    lease: Lease
    namespace: str
    acts: asyncio.Event = field(default_factory=asyncio.Event)
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    times: list[tuple[float, str]] = field(default_factory=list)
    task: asyncio.Task[None] | None = None

    async def work(self) -> None:
        self.acts.set()
        self.times.append((asyncio.get_running_loop().time(), "begins"))
        try:
            await self.stop.wait()
        finally:
            self.times.append((asyncio.get_running_loop().time(), "ends"))

    def start(self) -> "Candidate":
        leadership = Leadership(self.wire, self.lease, self.namespace, self.name)  # type: ignore[arg-type]
        self.task = asyncio.create_task(leadership.lead(self.work))
        return self


@dataclass
class Stage:
    api: ApiServer
    namespace: str
    cluster: Cluster
    lease: Lease
    candidates: list[Candidate] = field(default_factory=list)

    def candidate(self, name: str) -> Candidate:
        found = Candidate(name, Wire(self.cluster), self.lease, self.namespace)
        self.candidates.append(found)
        return found

    def holder(self) -> Any:
        path = f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases/{self.lease.name}"
        return self.api.call("GET", path).json()["spec"]


@asynccontextmanager
async def a_stage(api: ApiServer, namespace: str, deadline: int = DEADLINE) -> AsyncIterator[Stage]:
    configuration = client.Configuration()
    await config.load_kube_config(api.cluster.kubeconfig, client_configuration=configuration)
    lease = Lease(
        name=f"lease-{secrets.token_hex(3)}", duration_seconds=deadline + 1, renew_deadline_seconds=deadline,
        retry_seconds=RETRY,
    )  # fmt: skip
    cluster = Cluster(client.ApiClient(configuration))
    stage = Stage(api, namespace, cluster, lease)
    try:
        yield stage
    finally:
        for candidate in stage.candidates:
            if candidate.task is not None:
                candidate.task.cancel()
                with suppress(asyncio.CancelledError):
                    await candidate.task
        await cluster.close()


def overlaps(*candidates: Candidate) -> bool:
    """Whether two acted at one time."""
    events = sorted((time, what) for candidate in candidates for time, what in candidate.times)
    acting = 0
    for _, what in sorted(events, key=lambda event: (event[0], event[1] == "begins")):
        acting += 1 if what == "begins" else -1
        if acting > 1:
            return True
    return False


async def test_one_of_two_leads_and_hands_over_at_once(api: ApiServer, own_namespace: str) -> None:
    async with a_stage(api, own_namespace) as stage:
        one, two = stage.candidate("one").start(), stage.candidate("two")
        await asyncio.wait_for(one.acts.wait(), 5)
        two.start()
        assert stage.holder()["holderIdentity"] == "one"
        assert not two.acts.is_set()
        clock = asyncio.get_running_loop().time
        began = clock()
        one.stop.set()
        await asyncio.wait_for(two.acts.wait(), 5)
        assert clock() - began < RETRY + 1, "a standby must not wait for a Lease that was given back to expire"
        assert one.task is not None
        await one.task
        held = stage.holder()
        assert (held["holderIdentity"], held["leaseTransitions"]) == ("two", 1)
        assert not overlaps(one, two)


async def test_both_at_once_make_one_leader(api: ApiServer, own_namespace: str) -> None:
    async with a_stage(api, own_namespace) as stage:
        candidates = [stage.candidate(str(number)).start() for number in range(4)]
        done, _ = await asyncio.wait(
            [asyncio.create_task(item.acts.wait()) for item in candidates], return_when=asyncio.FIRST_COMPLETED
        )
        assert len(done) == 1
        acting = [item for item in candidates if item.acts.is_set()]
        assert [item.name for item in acting] == [stage.holder()["holderIdentity"]]
        for item in candidates:
            assert item.task is not None
            assert not item.task.done()


@pytest.mark.parametrize("fault", ["cut", "hangs"])
async def test_a_partitioned_leader_stops_before_another_begins(fault: str, api: ApiServer, own_namespace: str) -> None:
    async with a_stage(api, own_namespace) as stage:
        one, two = stage.candidate("one").start(), stage.candidate("two")
        await asyncio.wait_for(one.acts.wait(), 5)
        two.start()
        setattr(one.wire, fault, True)
        await asyncio.wait_for(two.acts.wait(), 15)
        assert [what for _, what in one.times] == ["begins", "ends"]
        assert one.times[1][0] <= two.times[0][0]
        assert not overlaps(one, two)


async def test_a_leader_that_was_cut_for_a_moment_goes_on(api: ApiServer, own_namespace: str) -> None:
    async with a_stage(api, own_namespace, 4) as stage:
        one = stage.candidate("one").start()
        await asyncio.wait_for(one.acts.wait(), 5)
        before = stage.holder()["renewTime"]
        one.wire.cut = True
        await asyncio.wait_for(one.wire.refused.wait(), 5)
        one.wire.cut = False
        deadline = asyncio.get_running_loop().time() + 5
        while stage.holder()["renewTime"] == before and asyncio.get_running_loop().time() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        assert stage.holder()["renewTime"] != before
        assert [what for _, what in one.times] == ["begins"]


async def test_an_error_of_the_work_itself_is_told_and_gives_the_lease_back(api: ApiServer, own_namespace: str) -> None:
    async with a_stage(api, own_namespace) as stage:
        one = stage.candidate("one")

        async def fails() -> None:
            raise ValueError("the work's own end")

        leadership = Leadership(one.wire, stage.lease, own_namespace, "one")  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="own end"):
            await leadership.lead(fails)
        assert stage.holder()["holderIdentity"] == ""


async def test_a_foreign_lease_of_another_name_changes_nothing(api: ApiServer, own_namespace: str) -> None:
    async with a_stage(api, own_namespace) as stage:
        other = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": "default", "namespace": own_namespace},
            "spec": {"holderIdentity": "stranger", "leaseDurationSeconds": 3600},
        }
        api.create(other)
        one = stage.candidate("one").start()
        await asyncio.wait_for(one.acts.wait(), 5)
        assert stage.holder()["holderIdentity"] == "one"
