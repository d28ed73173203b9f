"""Work is done once: by the API server's audit log, which saw every create, no matter who was killed in between."""

import io
import json
from collections import Counter
from typing import Any

import numpy as np
import pytest
from enginery_cluster import platform_team
from support import operator_pod
from support.audit import Audit
from support.eventually import eventually
from support.kube import Kube
from support.linear_model import linear
from support.tiny_models import spinning
from support.workspace import Workspace

ROUNDS = 8_000_000
"""Turns of the slow model's loop per sample: some 5 s each, for the reference and for the engine."""


def _apply_slow(team: Workspace, name: str) -> None:
    """A model whose build takes long, because its accuracy is measured on samples that take long."""
    file = io.BytesIO()
    np.savez(file, x=np.array([[1], [2]], np.float32), rounds=np.full((2, 1), ROUNDS, np.int64))
    team.upload(f"{name}/evaluation/data.npz", file.getvalue())
    gate = {
        "uri": team.uri(f"{name}/evaluation/"), "metric": "MaxAbsError", "maxDegradation": "0.010", "samples": 2,
    }  # fmt: skip
    one: dict[str, Any] = {"min": [1, 1], "opt": [1, 1], "max": [1, 1]}
    profile = {"name": "default", "inputs": [{"name": "x", **one}, {"name": "rounds", **one}]}
    team.serve(name, spinning(), precision__accuracyGate=gate, shapes__profiles=[profile])


def _phase(team: Workspace, name: str) -> str:
    return next((pod["status"]["phase"] for pod in team.pods(name, "build")), "")


def _finished(team: Workspace, stage: str) -> list[str]:
    """Jobs of a stage, once one has ended; its result is in the store a moment before."""
    return eventually(
        lambda: [job["metadata"]["name"] for job in team.jobs(stage=stage) if job["status"].get("succeeded")], 30
    )


def _restart(kube: Kube) -> None:
    """As an upgrade does: the pod is deleted, its successor takes over."""
    before = operator_pod.wait_acting(kube)
    kube.kubectl("-n", platform_team.NAMESPACE, "delete", "pod", before, "--wait=false")
    operator_pod.wait_acting(kube, apart_from=before)


def _acts_on(team: Workspace, name: str, replicas: int) -> None:
    """The operator has made a whole pass over the model: it carries out a change of the spec."""
    team.kubectl("scale", "imodel", name, f"--replicas={replicas}")
    team.wait(name)


@pytest.mark.usefixtures("node")
def test_a_build_is_done_once_while_the_operator_is_deleted_killed_and_restarted_and_jobs_vanish(
    kube: Kube, team: Workspace, audit: Audit
) -> None:
    _apply_slow(team, "slow")
    eventually(lambda: _phase(team, "slow") == "Running", 90, 0.1)
    _restart(kube)
    assert _phase(team, "slow") == "Running", "the build was over too soon to prove anything"
    (prepared,) = _finished(team, "prepare")
    team.kubectl("delete", "job", prepared, "--wait=true")
    operator_pod.kill(kube)
    operator_pod.wait_acting(kube)
    team.wait("slow")
    (built,) = _finished(team, "build")
    team.kubectl("delete", "job", built, "--wait=true")
    for _ in range(3):
        _restart(kube)
    _acts_on(team, "slow", 2)
    created = audit.created("jobs", team.name)
    assert created == Counter([prepared, built])
    assert team.jobs() == []


def test_an_engine_deleted_from_the_store_is_built_once_more_while_the_old_pods_serve(
    team: Workspace, audit: Audit
) -> None:
    team.serve("linear", linear())
    team.wait("linear")
    pods = {pod["metadata"]["uid"] for pod in team.pods("linear")}
    first = audit.created("jobs", team.name)
    transitions = _transitions(team, "Available")
    removed = team.remove_engine("linear")
    assert any(key.endswith("manifest.json") for key in removed)
    eventually(lambda: any(key.endswith("manifest.json") for key in team.stored("engines")), 120, 0.2)
    team.wait("linear")
    _acts_on(team, "linear", 2)
    again = audit.created("jobs", team.name) - first
    (name,) = again
    assert again[name] == 1
    assert name.startswith("linear-build-")
    assert pods < {pod["metadata"]["uid"] for pod in team.pods("linear")}
    assert _transitions(team, "Available") == transitions
    assert team.answers("linear", [1, 2, 3, 4], [3, 5, 7, 9])


def _transitions(team: Workspace, kind: str) -> tuple[str, str]:
    found = team.condition("linear", kind)
    return found["status"], found["lastTransitionTime"]


def test_models_of_one_tenant_with_one_source_share_one_engine_and_its_jobs(
    kube: Kube, team: Workspace, audit: Audit
) -> None:
    uri = team.upload("shared/model.onnx", linear())
    names = ["one", "two", "three", "four"]
    kube.apply(*(team.manifest(name, uri) for name in names))
    team.wait_all(*names)
    (key,) = {engine["key"] for name in names for engine in team.status(name)["engines"]}
    created = audit.created("jobs", team.name)
    assert sum(created.values()) == 2, json.dumps(created)
    (manifest,) = [name for name in team.stored("engines") if name.endswith("manifest.json")]
    assert manifest.endswith(f"{key.removeprefix('sha256:')}/manifest.json")
    for name in names:
        assert team.answers(name, [1, 2, 3, 4], [3, 5, 7, 9])
