"""A build that is killed at any moment leaves nothing that could be taken for an engine, and is done again."""

import hashlib
import json
import os
import random
import signal
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from enginery_cluster import platform_team
from enginery_store.layout import parse_uri
from enginery_store.manifest import EngineManifest, parse_document
from support.eventually import eventually
from support.kube import Object
from support.onnx_models import mlp
from support.workspace import Workspace

POINTS = 10
AT_ONCE = 5
"""So many are killed one after the other and make their next attempts meanwhile: the pauses before those are long."""
MOST_LATE = 3
"""So many of them may find that the build is over: its duration is not always the same."""

WAYS = ("process", "pod")
"""SIGKILL to the builder, as the kernel does when memory is short; and a deleted pod, as a lost node looks."""


@pytest.mark.usefixtures("node")
def test_builds_killed_at_random_moments_lead_to_one_whole_engine_each(team: Workspace) -> None:
    generator = random.Random(11)  # noqa: S311 - a seed, so that a failure comes again
    uri = team.upload("mlp/model.onnx", mlp().SerializeToString())
    _apply(team, "unharmed", uri, 1)
    team.wait("unharmed")
    duration = _seconds_of_build(team, "unharmed")
    killed = 0
    for first in range(0, POINTS, AT_ONCE):
        numbers = range(first, first + AT_ONCE)
        for number in numbers:
            _apply(team, f"killed-{number}", uri, number + 2)
            killed += _kill_at(team, f"killed-{number}", generator.uniform(0, duration), WAYS[number % len(WAYS)])
            _manifests_are_whole(team)
        for number in numbers:
            team.wait(f"killed-{number}")
            (engine,) = team.status(f"killed-{number}")["engines"]
            assert engine["state"] == "Ready"
        assert _manifests_are_whole(team) == first + AT_ONCE + 1, "an engine too many, or too few"
        for number in numbers:
            team.delete(f"killed-{number}")
    assert killed >= POINTS - MOST_LATE


def _kill_at(team: Workspace, name: str, moment: float, way: str) -> bool:
    pod = eventually(lambda: _running(team, name), 90, 0.05)
    time.sleep(moment)  # the moment is what is tested
    return _kill(team, pod, way)


def _apply(team: Workspace, name: str, uri: str, batch: int) -> None:
    """One prepared model for all; another profile is another engine."""
    sizes = {"min": [1, 64], "opt": [batch, 64], "max": [32, 64]}
    profile = {"name": "default", "inputs": [{"name": "x", **sizes}]}
    team.apply(name, uri, shapes__profiles=[profile])


def _running(team: Workspace, name: str) -> Object | None:
    """The build's pod, once its container runs."""
    for pod in team.pods(name, "build"):
        for container in pod["status"].get("containerStatuses", []):
            if "running" in container["state"]:
                return pod
    return None


def _seconds_of_build(team: Workspace, name: str) -> float:
    (pod,) = team.pods(name, "build")
    ended = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    started, finished = (datetime.fromisoformat(ended[field]) for field in ("startedAt", "finishedAt"))
    return max(1.0, (finished - started).total_seconds())


def _kill(team: Workspace, pod: Object, way: str) -> bool:
    """Whether there was something left to kill."""
    name = pod["metadata"]["name"]
    victims = _processes(name)
    if way == "pod":
        team.kubectl("delete", "pod", name, "--grace-period=0", "--force", "--wait=false")
    else:
        for pid in victims:
            _signal(pid)
    return bool(victims)


def _processes(pod: str) -> list[int]:
    """Host's numbers of the builder's processes in a pod; their host name tells which."""
    return [
        pid
        for pid in (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal())
        if _says(pid, "cmdline", b"enginery_builder") and _says(pid, "environ", f"HOSTNAME={pod}\0".encode())
    ]


def _says(pid: int, file: str, text: bytes) -> bool:
    try:
        return text in Path(f"/proc/{pid}/{file}").read_bytes()
    except OSError:
        return False


def _signal(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _manifests_are_whole(team: Workspace) -> int:
    """Every manifest of an engine has its signature and its blobs, byte by byte; how many there are."""
    s3, bucket = platform_team.s3_client(team.kube.cluster), parse_uri(team.access.prefix).bucket
    keys = team.stored("engines")
    found = [key for key in keys if key.endswith("/manifest.json")]
    for key in found:
        folder = key.removesuffix("manifest.json")
        manifest = parse_document(EngineManifest, _read(s3, bucket, key))
        assert f"{folder}manifest.sig" in keys
        for file in manifest.all_files:
            data = _read(s3, bucket, f"{folder}{file.name}")
            assert (hashlib.sha256(data).hexdigest(), len(data)) == (file.sha256, file.size_bytes), json.dumps(keys)
    return len(found)


def _read(s3: Any, bucket: str, key: str) -> bytes:
    data: bytes = s3.get_object(Bucket=bucket, Key=key)["Body"].read()
    return data
