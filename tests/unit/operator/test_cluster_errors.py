"""What the API server says -> our errors, whose class is the retry decision. Over real HTTP, from a tiny server."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import yaml
from aiohttp import web
from enginery_operator import cluster as cluster_module
from enginery_operator.cluster import Cluster
from enginery_operator.errors import (
    ClusterError,
    ClusterUnavailableError,
    ConflictError,
    ExistsError,
    GoneError,
    RefusedError,
)
from kubernetes.aio import client

JOB: dict[str, Any] = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "j", "namespace": "team-a"},
    "spec": {},
}
ADDRESS = "/apis/batch/v1/namespaces/team-a/jobs"


class Server:
    """Answers every request with what a test says, and keeps what was asked."""

    def __init__(self) -> None:
        self.status, self.body, self.cut, self.text = 200, b"{}", False, ""
        self.silent: asyncio.Event | None = None
        self.asked: list[tuple[str, str, dict[str, str], str, Any]] = []

    def says(self, status: int, body: dict[str, Any] | bytes) -> None:
        self.status, self.body = status, body if isinstance(body, bytes) else json.dumps(body).encode()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if self.silent is not None:
            await self.silent.wait()
        text = self.text = await request.text()
        given = json.loads(text) if text else None
        content_type = request.headers.get("Content-Type", "")
        self.asked.append((request.method, request.path, dict(request.query), content_type, given))
        if not self.cut:
            return web.Response(status=self.status, body=self.body, content_type="application/json")
        response = web.StreamResponse(headers={"Content-Length": "1000"})
        await response.prepare(request)
        await response.write(b'{"metadata": ')
        assert request.transport is not None
        request.transport.close()
        return response


@pytest.fixture
async def server() -> Server:
    return Server()


@pytest.fixture
async def cluster(server: Server) -> AsyncIterator[Cluster]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    configuration = client.Configuration()
    configuration.host = f"http://127.0.0.1:{runner.addresses[0][1]}"
    found = Cluster(client.ApiClient(configuration))
    yield found
    await found.close()
    await runner.cleanup()


def status(code: int, reason: str, message: str) -> dict[str, Any]:
    return {"kind": "Status", "code": code, "reason": reason, "message": message}


ANSWERS: dict[str, tuple[int, dict[str, Any] | bytes, type[ClusterError], str]] = {
    "throttled": (429, status(429, "TooManyRequests", "slow down"), ClusterUnavailableError, "slow down"),
    "overloaded": (503, status(503, "ServiceUnavailable", "etcd"), ClusterUnavailableError, "etcd"),
    "broken inside": (500, status(500, "InternalError", "webhook"), ClusterUnavailableError, "webhook"),
    "a proxy's page": (502, b"<html>Bad Gateway</html>", ClusterUnavailableError, "<html>Bad Gateway</html>"),
    "nothing at all": (504, b"", ClusterUnavailableError, "answered 504"),
    "a list in place of a status": (500, b"[1]", ClusterUnavailableError, "[1]"),
    "credentials that expired": (401, status(401, "Unauthorized", "Unauthorized"), ClusterUnavailableError, "Unauth"),
    "changed in between": (409, status(409, "Conflict", "has been modified"), ConflictError, "modified"),
    "refused by quota": (403, status(403, "Forbidden", "exceeded quota: q"), RefusedError, "exceeded quota: q"),
    "not valid": (422, status(422, "Invalid", "spec.x: Required"), RefusedError, "spec.x: Required"),
    "not understood": (400, status(400, "BadRequest", "strict decoding"), RefusedError, "strict decoding"),
    "gone": (404, status(404, "NotFound", "not found"), GoneError, "not found"),
    "a namespace that ends": (
        403, status(403, "Forbidden", "unable to create new content in namespace x because it is being terminated"),
        GoneError, "terminated"),
}  # fmt: skip


@pytest.mark.parametrize("sentence", ANSWERS)
async def test_answers_become_errors_by_what_can_be_done(sentence: str, server: Server, cluster: Cluster) -> None:
    code, body, want, message = ANSWERS[sentence]
    server.says(code, body)
    with pytest.raises(want) as caught:
        await cluster.apply(JOB)
    assert type(caught.value) is want
    assert message in caught.value.message
    assert caught.value.status == code


async def test_success_that_is_cut_is_no_success(server: Server, cluster: Cluster) -> None:
    server.cut = True
    with pytest.raises(ClusterUnavailableError):
        await cluster.apply(JOB)
    server.cut = False
    server.says(200, b'{"metadata": ')
    with pytest.raises(ClusterUnavailableError, match="cut"):
        await cluster.apply(JOB)


async def test_no_answer_is_unavailable(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster._api.configuration, "host", "http://127.0.0.1:9")
    with pytest.raises(ClusterUnavailableError, match="does not answer"):
        await cluster.get("Job", "team-a", "j")


async def test_a_silent_server_is_not_waited_for(
    server: Server, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_module, "REQUEST_TIMEOUT_SECONDS", 0.05)
    server.silent = asyncio.Event()
    with pytest.raises(ClusterUnavailableError):
        await cluster.get("Job", "team-a", "j")
    server.silent.set()


async def test_creating_what_exists_is_success(server: Server, cluster: Cluster) -> None:
    server.says(201, JOB)
    assert await cluster.create_once(JOB)
    server.says(409, status(409, "AlreadyExists", 'jobs.batch "j" already exists'))
    assert not await cluster.create_once(JOB)


async def test_a_conflict_of_a_quotas_count_is_not_an_existing_object(server: Server, cluster: Cluster) -> None:
    server.says(409, status(409, "Conflict", 'Operation cannot be fulfilled on resourcequotas "q"'))
    with pytest.raises(ConflictError) as caught:
        await cluster.create_once(JOB)
    assert not isinstance(caught.value, ExistsError)


async def test_reading_and_deleting_what_is_absent_is_no_error(server: Server, cluster: Cluster) -> None:
    server.says(404, status(404, "NotFound", "not found"))
    assert await cluster.get("Job", "team-a", "j") is None
    await cluster.delete("Job", "team-a", "j")
    with pytest.raises(GoneError):
        await cluster.patch("Job", "team-a", "j", {})


EVENTS = {
    "said once": [{"note": "a", "eventTime": "2026-01-01T00:00:00.000000Z"}],
    "the latest word counts": [
        {"note": "old", "deprecatedLastTimestamp": "2026-01-01T00:00:09Z"},
        {"note": "a", "series": {"lastObservedTime": "2026-01-01T00:01:00.000000Z"}},
        {"note": "older", "eventTime": None},
    ],
}  # fmt: skip


@pytest.mark.parametrize("sentence", EVENTS)
async def test_why_a_job_has_no_pod_is_in_the_events(sentence: str, server: Server, cluster: Cluster) -> None:
    server.says(200, {"items": EVENTS[sentence]})
    assert await cluster.why_no_pod("team-a", "j") == "a"
    assert server.asked[0][:3] == (
        "GET",
        "/apis/events.k8s.io/v1/namespaces/team-a/events",
        {"fieldSelector": "reason=FailedCreate,regarding.kind=Job,regarding.name=j"},
    )
    server.says(200, {"items": []})
    assert await cluster.why_no_pod("team-a", "j") is None


async def test_every_verb_asks_as_it_should(server: Server, cluster: Cluster) -> None:
    await cluster.apply(JOB)
    await cluster.apply_status(JOB)
    await cluster.create_once(JOB)
    await cluster.patch("Job", "team-a", "j", {"spec": {"suspend": True}})
    await cluster.delete("Job", "team-a", "j")
    await cluster.get("Tenant", "", "t")
    await cluster.replace(JOB)
    apply, merge, plain = (
        "application/apply-patch+yaml; charset=utf-8",
        "application/merge-patch+json",
        "application/json",
    )
    manager = {"fieldManager": "enginery"}
    assert server.asked == [
        ("PATCH", f"{ADDRESS}/j", manager | {"force": "true"}, apply, JOB),
        ("PATCH", f"{ADDRESS}/j/status", manager | {"force": "true"}, apply, JOB),
        ("POST", ADDRESS, manager, plain, JOB),
        ("PATCH", f"{ADDRESS}/j", {}, merge, {"spec": {"suspend": True}}),
        ("DELETE", f"{ADDRESS}/j", {"propagationPolicy": "Background"}, server.asked[4][3], server.asked[4][4]),
        ("GET", "/apis/enginery.io/v1alpha1/tenants/t", {}, server.asked[5][3], None),
        ("PUT", f"{ADDRESS}/j", {}, plain, JOB),
    ]
    assert server.asked[4][4] is None


NAMES = {
    "beyond U+FFFF, which JSON writes as a pair that YAML refuses": "model-\U0001f98a.onnx",
    "an escape that only looks like one": "\\ud83e\\udd8a \\u0041",
    "control characters of two kinds": "a\x00\x1b[31m\x7f\x85\x9f\ufeff\uffff",
    "what YAML takes for the end of a line": "a\u2028 b\u2029 c\nd\ttab",
    "words": 'Grüße, "输入" # no: comment',
}


@pytest.mark.parametrize("sentence", NAMES)
async def test_what_is_applied_is_read_as_yaml_and_holds_any_name(
    sentence: str, server: Server, cluster: Cluster
) -> None:
    await cluster.apply(JOB | {"spec": {"name": NAMES[sentence]}})
    assert server.asked[0][4]["spec"]["name"] == NAMES[sentence]
    assert yaml.safe_load(server.text)["spec"]["name"] == NAMES[sentence]
    assert r"\ud83e" not in server.text.replace(r"\\u", "")


async def test_half_a_character_is_replaced(server: Server, cluster: Cluster) -> None:
    await cluster.apply(JOB | {"spec": {"name": "half \ud83e"}})
    assert server.asked[0][4]["spec"]["name"] == "half \ufffd"


def test_the_class_is_the_decision() -> None:
    assert issubclass(ExistsError, ConflictError)
    for kind in (ClusterUnavailableError, ConflictError, RefusedError, GoneError):
        assert issubclass(kind, ClusterError)
        assert kind("words", 1).message == "words"
