"""A bad update never replaces a good model, and a good one replaces it without a failed request."""

from typing import Any

import pytest
from support.eventually import eventually
from support.kube import summary
from support.linear_model import linear
from support.steady_clients import SteadyClients
from support.workspace import Workspace

OLD, NEW = (3.0, 5.0, 7.0, 9.0), (4.0, 7.0, 10.0, 13.0)
"""What 2x + 1 and 3x + 1 answer for x = 1, 2, 3, 4."""

NAMES = {OLD: "old", NEW: "new"}


@pytest.fixture
def serving(team: Workspace) -> Workspace:
    """A tenant whose model `linear` answers 2x + 1."""
    team.serve("linear", linear(2))
    team.wait("linear")
    return team


def _uids(team: Workspace) -> set[str]:
    return {pod["metadata"]["uid"] for pod in team.pods("linear")}


def test_a_corrupt_update_leaves_the_old_pods_serving_and_its_repair_in_place_goes_on_by_itself(
    serving: Workspace,
) -> None:
    revision, pods = serving.status("linear")["currentRevision"], _uids(serving)
    bad = serving.upload("next/model.onnx", linear(3)[:-40])
    with SteadyClients(serving.address("linear"), "linear", NAMES) as clients:
        serving.apply("linear", bad)
        ready = serving.wait("linear", status="False", reason="SourceInvalid")
        assert f"{revision} still serves" in ready["message"]
        assert "model.onnx" in ready["message"]
        available = serving.condition("linear", "Available")
        assert (available["status"], available["reason"]) == ("True", "MinimumReplicasAvailable")
        assert serving.condition("linear", "Progressing")["status"] == "False"
        status = serving.status("linear")
        assert status["currentRevision"] == revision != status["targetRevision"]
        assert _uids(serving) == pods

        serving.upload("next/model.onnx", linear(3))
        serving.wait("linear")
        eventually(lambda: clients.count("new") > 20, 60)
    assert clients.faults == []
    assert clients.count("old") > 20
    assert serving.status("linear")["currentRevision"] != revision


def test_a_good_update_rolls_without_a_failed_request_and_the_old_deployment_goes(serving: Workspace) -> None:
    revision, pods = serving.status("linear")["currentRevision"], _uids(serving)
    with SteadyClients(serving.address("linear"), "linear", NAMES) as clients:
        eventually(lambda: clients.count("old") > 20, 30)
        serving.serve("linear", linear(3), source__uri=serving.upload("v2/model.onnx", linear(3)))
        serving.wait("linear")
        eventually(lambda: clients.count("new") > 20, 60)
        eventually(lambda: pods.isdisjoint(_everybody(serving)), 120)
        seen_new = clients.count("new")
        eventually(lambda: clients.count("new") > seen_new + 20, 30)
    assert clients.faults == []
    (left,) = serving.deployments("linear")
    assert left["metadata"]["name"] == serving.status("linear")["currentRevision"] != revision


def _everybody(team: Workspace) -> set[str]:
    """Pods that exist, those on their way out included."""
    found = team.kube.items(f"/api/v1/namespaces/{team.name}/pods", "enginery.io/model=linear")
    return {pod["metadata"]["uid"] for pod in found}


def test_an_update_that_cannot_load_keeps_the_old_revision_and_says_why(serving: Workspace) -> None:
    """The engine is built and proven, then its pods get no room: nothing of the old revision may go before."""
    revision, pods = serving.status("linear")["currentRevision"], _uids(serving)
    resources: dict[str, Any] = {"requests": {"cpu": "50m", "memory": "900Gi"}}
    with SteadyClients(serving.address("linear"), "linear", NAMES) as clients:
        serving.apply("linear", serving.uri("linear/model.onnx"), serving__resources=resources)
        serving.wait("linear", status="False", reason="RolloutInProgress")
        eventually(lambda: len(serving.deployments("linear")) == 2, 60)
        ready = serving.condition("linear")
        assert f"{revision} still serves" in ready["message"], summary(serving.model("linear"))
        assert serving.condition("linear", "Available")["status"] == "True"
        assert pods <= _uids(serving)
        serving.apply("linear", serving.uri("linear/model.onnx"))
        serving.wait("linear")
        eventually(lambda: len(serving.deployments("linear")) == 1, 60)
    assert clients.faults == []
    assert _uids(serving) == pods
    assert serving.status("linear")["currentRevision"] == revision
