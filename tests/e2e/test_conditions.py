"""Conditions follow the object: generations, transition times, events, and Jobs whose pods cannot start."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest
from enginery_cluster import platform_team
from support import operator_pod
from support.audit import OPERATOR, Audit
from support.eventually import eventually
from support.kube import Kube, condition
from support.linear_model import linear
from support.workspace import Workspace


def test_kubectl_wait_right_after_a_new_source_waits_for_the_new_generation(team: Workspace) -> None:
    team.serve("linear", linear(2))
    team.wait("linear")
    uri = team.upload("linear/next.onnx", linear(3))
    team.patch("linear", source={"uri": uri})
    team.kubectl("wait", "--for=condition=Ready", "imodel/linear", "--timeout=120s")
    model = team.model("linear")
    assert model is not None
    assert model["metadata"]["generation"] == 2 == model["status"]["observedGeneration"]
    assert model["status"]["source"]["uri"] == uri
    assert team.answers("linear", [1, 2, 3, 4], [4, 7, 10, 13])


def test_a_label_moves_no_transition_time_and_a_spec_that_rolls_nothing_advances_the_generation(
    team: Workspace,
) -> None:
    team.serve("linear", linear())
    team.wait("linear")
    before, revision = _times(team), team.status("linear")["currentRevision"]
    pods = {pod["metadata"]["uid"] for pod in team.pods("linear")}
    team.kubectl("label", "imodel", "linear", "owner=somebody")
    team.patch("linear", rollout={"progressDeadlineSeconds": 900})
    team.wait("linear")
    assert team.status("linear")["observedGeneration"] == 2
    assert _times(team) == before
    assert team.status("linear")["currentRevision"] == revision
    assert {pod["metadata"]["uid"] for pod in team.pods("linear")} == pods


def _times(team: Workspace) -> dict[str, str]:
    return {item["type"]: item["lastTransitionTime"] for item in team.status("linear")["conditions"]}


def test_the_last_of_many_edits_wins(team: Workspace) -> None:
    uris = [team.upload(f"linear/{factor}.onnx", linear(factor)) for factor in (2, 3, 4)]
    for uri in uris:
        team.apply("linear", uri)
    team.wait("linear")
    assert team.status("linear")["observedGeneration"] == len(uris)
    assert team.answers("linear", [1, 2, 3, 4], [5, 9, 13, 17])
    (left,) = eventually(lambda: found if len(found := team.deployments("linear")) == 1 else [], 60)
    assert left["metadata"]["name"] == team.status("linear")["targetRevision"]


def test_each_transition_is_one_event(team: Workspace) -> None:
    team.serve("linear", linear())
    team.wait("linear")
    ready = eventually(lambda: [e for e in team.events("linear") if (e["action"], e["reason"]) == ("Ready", "Serving")])
    assert len(ready) == 1
    told = [(event["action"], event["reason"], event["note"][:20]) for event in team.events("linear")]
    assert len(told) == len(set(told)) < 25
    warnings = [event["note"] for event in team.events("linear") if event["type"] == "Warning"]
    assert warnings == []


@pytest.fixture
def wrong_builder_image(kube: Kube) -> Iterator[Any]:
    """Installs the chart with a builder image that no node has, when called; afterwards the right one is back."""
    images = kube.cluster.images
    wrong = dataclasses.replace(images, builder=f"{images.builder.rpartition(':')[0]}:never-built")

    def install(chosen: Any) -> None:
        changed = dataclasses.replace(kube.cluster, images=chosen)
        platform_team.install(changed, config=operator_pod.CONFIG)
        operator_pod.wait_acting(kube)

    def spoil() -> None:
        install(wrong)

    def mend() -> None:
        install(images)

    yield spoil, mend
    mend()


def test_a_builder_image_that_does_not_exist_is_named_and_nothing_loops(
    team: Workspace, wrong_builder_image: Any, audit: Audit
) -> None:
    spoil, mend = wrong_builder_image
    team.serve("linear", linear())
    team.wait("linear")
    window = Audit.from_now(str(audit.path))
    spoil()
    limit = operator_pod.CONFIG["jobs"]["startDeadlineSeconds"]
    team.serve("other", linear(5))
    found = team.wait("other", "SourceVerified", "Unknown", "ImagePullFailed")
    assert "never-built" in found["message"]
    # After the start deadline the Job is suspended: its pod and the place it holds go, its record stays.
    eventually(lambda: any(job["spec"].get("suspend") for job in team.jobs("other")), limit + 30, 0.2)
    eventually(lambda: team.pods("other", "prepare") == [], 30, 0.2)
    found = team.wait("other", "SourceVerified", "Unknown", "ImagePullFailed")
    assert "will retry in" in found["message"]
    ours = [item for item in window.writes() if item.user == OPERATOR and item.namespace == team.name]
    assert [item.name for item in ours if item.verb == "delete"] == []
    assert len([item for item in ours if item.resource == "jobs" and item.verb == "create"]) == 1
    assert team.condition("linear")["status"] == "True"
    mend()
    team.wait("other")
    jobs = [name for name in window.created("jobs", team.name) if "-prepare-" in name]
    assert len(jobs) <= 3, jobs


def test_a_builder_image_that_goes_missing_before_the_build_shows_in_engines_ready(
    team: Workspace, wrong_builder_image: Any
) -> None:
    spoil, mend = wrong_builder_image
    uri = team.upload("linear/model.onnx", linear())
    team.apply("linear", uri)
    team.wait("linear")
    spoil()
    # Same source: it is prepared already. Another profile of accuracy asks for another engine.
    gate = {"uri": team.uri("absent/"), "metric": "MaxAbsError", "maxDegradation": "0.010", "samples": 100}
    team.apply("linear", uri, precision__accuracyGate=gate)
    found = team.wait("linear", "EnginesReady", "False", "ImagePullFailed")
    assert "never-built" in found["message"]
    model = team.model("linear")
    assert condition(model, "Ready")["reason"] == "ImagePullFailed"
    assert "still serves" in condition(model, "Ready")["message"]
    assert condition(model, "Available")["status"] == "True"
    mend()
    # The right image runs, and finds what is wrong with the data.
    found = team.wait("linear", "EnginesReady", "False", "EvaluationDataInvalid")
    assert ".npz" in found["message"]
