"""Things break: the operator, pods, the object store, the API server. What serves goes on, and the rest comes back."""

import random
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest
from enginery_cluster import node_spec, platform_team
from enginery_cluster.places import Places
from enginery_cluster.state import Cluster
from support import operator_pod
from support.audit import Audit
from support.eventually import eventually
from support.kube import Kube
from support.linear_model import linear
from support.steady_clients import SteadyClients
from support.workspace import Workspace

NAMES = {(3.0, 5.0, 7.0, 9.0): "right"}

WRITES_OF_AN_APPLY = 14
"""About so many writes lead from an applied model to a Ready one: Jobs, Deployment, Service, statuses and events."""


@contextmanager
def _out_of_service(cluster: Cluster, component: str) -> Iterator[None]:
    places = Places(cluster.name)
    node_spec.stop_component(places, component)
    try:
        yield
    finally:
        node_spec.start_component(places, component)


@pytest.mark.usefixtures("node")
def test_an_operator_killed_anywhere_within_an_apply_converges_and_does_nothing_twice(
    kube: Kube, team: Workspace, audit: Audit
) -> None:
    """Each seed kills it after another number of its writes; a model per seed, and all must be Ready in the end."""
    seeds = range(4)
    for seed in seeds:
        at = random.Random(seed).randrange(WRITES_OF_AN_APPLY)  # noqa: S311 - a test's seed
        window = Audit.from_now(str(audit.path))
        team.serve(f"seed-{seed}", linear(seed + 2))
        eventually(lambda w=window, n=at: len(_writes(w, team)) >= n, 60, 0.02)
        operator_pod.kill(kube)
        operator_pod.wait_acting(kube)
    team.wait_all(*(f"seed-{seed}" for seed in seeds))
    for seed in seeds:
        assert team.answers(f"seed-{seed}", [1, 2, 3, 4], [x * (seed + 2) + 1 for x in (1, 2, 3, 4)])
    created = audit.created("jobs", team.name)
    assert len(created) == 2 * len(seeds)
    assert set(created.values()) == {1}


def _writes(window: Audit, team: Workspace) -> list[object]:
    return [item for item in window.by_operator() if item.namespace == team.name]


def test_a_deleted_engine_pod_comes_back_and_the_other_answers_meanwhile(shop: Workspace) -> None:
    first, second = shop.pods("linear")
    with SteadyClients(shop.address("linear"), "linear", NAMES) as clients:
        eventually(lambda: clients.count("right") > 10, 30)
        shop.kubectl("delete", "pod", first["metadata"]["name"], "--wait=true")
        eventually(lambda: len(shop.pods("linear")) == 2, 60)
        eventually(lambda: shop.status("linear").get("readyReplicas") == 2, 60)
        shop.wait("linear")
    assert clients.faults == []
    assert second["metadata"]["uid"] in {pod["metadata"]["uid"] for pod in shop.pods("linear")}


def test_a_model_without_a_pod_says_so_and_again_when_it_is_back(team: Workspace) -> None:
    team.serve("linear", linear())
    team.wait("linear")
    (pod,) = team.pods("linear")
    team.kubectl("delete", "pod", pod["metadata"]["name"], "--grace-period=0", "--force", "--wait=false")
    team.wait("linear", "Available", "False", timeout=30)
    assert team.condition("linear")["status"] == "False"
    team.wait("linear")
    assert team.answers("linear", [1, 2, 3, 4], [3, 5, 7, 9])


def test_with_the_store_gone_requests_are_answered_and_no_status_moves(
    kube: Kube, node: Cluster, shop: Workspace
) -> None:
    """Neither with an operator that knew the engine, nor with one that starts meanwhile and has only what it sees."""
    shop.wait("linear")
    before, uri = shop.status("linear"), shop.upload("probe/model.onnx", linear(6))
    with SteadyClients(shop.address("linear"), "linear", NAMES, pause=0.1) as clients:
        with _out_of_service(node, "versitygw"):
            eventually(lambda: not _listens(node.s3.endpoint), 20)
            _look_again(shop, uri, "probe-1")
            assert shop.status("linear") == before
            operator_pod.kill(kube)
            operator_pod.wait_acting(kube)
            _look_again(shop, uri, "probe-2")
            assert shop.status("linear") == before
        shop.wait_all("probe-1", "probe-2")
        shop.wait("linear")
    assert clients.faults == []
    assert clients.count("right") > 50
    assert shop.status("linear") == before
    shop.kubectl("delete", "imodel", "probe-1", "probe-2")


def _look_again(team: Workspace, uri: str, probe: str) -> None:
    """Has the operator pass over `linear`, and then over a new model, which tells that it did."""
    team.kubectl("label", "imodel", "linear", f"look={probe}", "--overwrite")
    team.apply(probe, uri)
    found = team.wait(probe, "SourceVerified", "Unknown", "StoreUnavailable")
    assert "will be retried" in found["message"]


def _listens(endpoint: str) -> bool:
    where = urlsplit(endpoint)
    try:
        socket.create_connection((where.hostname or "", where.port or 80), timeout=2).close()
    except OSError:
        return False
    return True


def test_an_api_server_that_restarts_costs_no_request_and_no_model(
    kube: Kube, node: Cluster, shop: Workspace, team: Workspace
) -> None:
    team.serve("before", linear(3))
    team.wait("before", "SourceVerified", "Unknown", "Preparing")
    with SteadyClients(shop.address("linear"), "linear", NAMES, pause=0.1) as clients:
        with _out_of_service(node, "kube-apiserver"):
            eventually(lambda: not _answers(kube), 30)
            answered = clients.count("right")
            eventually(lambda: clients.count("right") > answered + 20, 30)
        eventually(lambda: _answers(kube), 60)
        team.serve("after", linear(4))
        team.wait_all("before", "after")
        shop.wait("linear")
    assert clients.faults == []


def _answers(kube: Kube) -> bool:
    try:
        return kube.get("/readyz?verbose=false") is not None
    except ValueError:  # "ok" is no JSON
        return True
    except OSError:
        return False


@pytest.fixture
def two_replicas(kube: Kube) -> Iterator[None]:
    """A second replica of the operator that stands by."""
    deployment = ("-n", platform_team.NAMESPACE, "deployment/enginery")
    kube.kubectl("scale", *deployment, "--replicas=2")
    kube.kubectl("rollout", "status", *deployment, "--timeout=60s")
    yield
    kube.kubectl("scale", *deployment, "--replicas=1")
    kube.kubectl("rollout", "status", *deployment, "--timeout=60s")
    operator_pod.wait_acting(kube)


@pytest.mark.usefixtures("node", "two_replicas")
def test_of_two_operators_the_other_acts_soon_after_the_active_one_is_killed(
    kube: Kube, team: Workspace, audit: Audit
) -> None:
    active = operator_pod.wait_acting(kube)
    standby = next(pod["metadata"]["name"] for pod in operator_pod.pods(kube) if pod["metadata"]["name"] != active)
    operator_pod.kill(kube, active)
    team.serve("linear", linear())
    found = team.wait("linear", "Accepted", timeout=operator_pod.TAKE_OVER_SECONDS)
    assert found["reason"] == "Accepted"
    assert operator_pod.holder(kube) == standby
    team.wait("linear")
    assert set(audit.created("jobs", team.name).values()) == {1}


def test_a_namespace_without_a_tenant_waits_for_one(kube: Kube, new_team: Callable[..., Workspace]) -> None:
    team = new_team(tenant=False)
    team.serve("linear", linear())
    accepted = team.wait("linear", "Accepted", "False", "TenantNotFound")
    assert team.name in accepted["message"]
    assert "platform team" in accepted["message"]
    assert team.condition("linear")["reason"] == "TenantNotFound"
    assert team.jobs() == []
    platform_team.add_tenant(kube.cluster, team.name)
    team.wait("linear")


def test_a_restart_among_hundreds_of_models_acts_at_once(kube: Kube, new_team: Callable[..., Workspace]) -> None:
    """kopf holds each object of the first listing back until all of them are indexed: with more objects than it had
    workers the operator would wait for itself for ever, alive and idle.
    """
    team = new_team(tenant=False)
    names = [f"linear-{number}" for number in range(150)]
    kube.apply(*(team.manifest(name, team.uri("linear.onnx")) for name in names))
    team.wait(names[-1], "Accepted", "False", "TenantNotFound")
    operator_pod.kill(kube)
    operator_pod.wait_acting(kube)
    team.apply("later", team.uri("linear.onnx"))
    team.wait("later", "Accepted", "False", "TenantNotFound")


UNSUPPORTED = {
    "retention": ({"build__retention": "Delete"}, "spec.build.retention", "write Retain"),
    "server": ({"serving__server": "Triton"}, "spec.serving.server", "write Native"),
    "placement": ({"serving__placement": "Pooled"}, "spec.serving.placement", "write Dedicated"),
    "fallback": ({"serving__fallback": "ONNXRuntime"}, "spec.serving.fallback", "write None"),
    "format": ({"source__format": "TensorFlowSavedModel"}, "spec.source.format", "export the model to ONNX"),
}


def test_what_this_version_does_not_do_is_refused_with_advice(shop: Workspace) -> None:
    uri = shop.upload("unsupported/model.onnx", linear())
    shop.kube.apply(*(shop.manifest(f"no-{name}", uri, **spec) for name, (spec, _, _) in UNSUPPORTED.items()))
    for name, (_, path, advice) in UNSUPPORTED.items():
        accepted = shop.wait(f"no-{name}", "Accepted", "False", "InvalidSpec")
        assert path in accepted["message"]
        assert advice in accepted["message"]
        assert shop.condition(f"no-{name}")["reason"] == "InvalidSpec"
    assert [job for job in shop.jobs() if job["metadata"]["labels"]["enginery.io/model"].startswith("no-")] == []
    shop.kubectl("delete", "imodel", *(f"no-{name}" for name in UNSUPPORTED))


def test_a_stopped_model_frees_its_pods_keeps_its_engine_and_starts_without_a_build(
    team: Workspace, audit: Audit
) -> None:
    team.serve("linear", linear())
    team.wait("linear")
    engines, built = team.stored("engines"), audit.created("jobs", team.name)
    team.patch("linear", state="Stopped")
    team.wait("linear", status="False", reason="Stopped")
    assert team.condition("linear", "Available")["reason"] == "Stopped"
    eventually(lambda: team.pods("linear") == [], 60)
    assert team.deployments("linear") == []
    assert team.stored("engines") == engines
    team.patch("linear", state="Serving")
    team.wait("linear")
    assert audit.created("jobs", team.name) == built
    assert team.answers("linear", [1, 2, 3, 4], [3, 5, 7, 9])


def test_a_deleted_model_takes_its_children_along_and_leaves_the_engine(team: Workspace) -> None:
    team.serve("linear", linear())
    team.wait("linear")
    engines = team.stored("engines")
    assert engines
    team.delete("linear")
    for kind in ("api/v1/{}/pods", "api/v1/{}/services", "apis/batch/v1/{}/jobs", "apis/apps/v1/{}/deployments",
                 "apis/apps/v1/{}/replicasets"):  # fmt: skip
        path = "/" + kind.format(f"namespaces/{team.name}")
        eventually(lambda p=path: team.kube.items(p, "enginery.io/model=linear") == [], 90, 0.2)
    assert team.stored("engines") == engines


def test_in_a_namespace_that_is_deleted_the_operator_writes_nothing(
    shop: Workspace, team: Workspace, audit: Audit
) -> None:
    """The namespace's pods go first and its models last, so a model sees its pods vanish and must not mind."""
    team.serve("linear", linear())
    team.wait("linear")
    team.kube.kubectl("delete", "namespace", team.name, "--wait=false")
    eventually(lambda: all("deletionTimestamp" in pod["metadata"] for pod in _pods(team)), 30)
    window = Audit.from_now(str(audit.path))
    eventually(lambda: _pods(team) == [], 120, 0.2)
    assert team.model("linear") is not None, "the model went first, so this proves nothing"
    shop.patch("linear", rollout={"progressDeadlineSeconds": random.randrange(600, 1800)})  # noqa: S311
    shop.wait("linear")  # whatever was due for the other namespace was due before
    assert [item for item in window.by_operator() if item.namespace == team.name] == []


def _pods(team: Workspace) -> list[dict[str, dict[str, object]]]:
    return team.kube.items(f"/api/v1/namespaces/{team.name}/pods", "app.kubernetes.io/component=runtime")
