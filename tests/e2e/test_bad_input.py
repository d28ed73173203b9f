"""What tenants get wrong: each fault ends in its own condition and reason, with a message that says what to do.

All bad models are applied at once in one tenant, beside a healthy one that is asked all the while. Then each test looks
at its own. Nothing is retried where that cannot help, and what somebody mends goes on by itself.
"""

import json
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import pytest
from enginery_cluster import platform_team
from enginery_cluster.state import Cluster
from support import operator_pod
from support.audit import Audit
from support.eventually import eventually
from support.forwarder import Forwarder
from support.kube import Kube, Object, condition
from support.linear_model import linear, linear_with_external_data
from support.steady_clients import SteadyClients
from support.workspace import Workspace, workspace

CANARY = f"canary{secrets.token_hex(12)}"
"""A secret key that nothing may repeat."""

NO_BUCKET, DENIED_BUCKET = f"nobody-{secrets.token_hex(4)}", f"denied-{secrets.token_hex(4)}"

HTML = b"<!DOCTYPE html><html><head><title>403 Forbidden</title></head><body>Sign in first</body></html>"

PROFILE: Object = {"name": "default", "inputs": [{"name": "image", "min": [1, 4], "opt": [1, 4], "max": [1, 4]}]}


@dataclass(frozen=True)
class Fault:
    """One mistake and what must be said of it."""

    name: str
    source: Callable[[Workspace], str]
    """Puts what is wrong where the model looks for it; the URI."""
    reason: str
    words: tuple[str, ...]
    """What the message names, and what to do."""
    spec: Object = field(default_factory=dict)
    status: str = "False"
    jobs: int = 1
    """Prepare Jobs that look at it, for as long as nobody changes anything."""


FAULTS = {
    "an HTML page under the name of a model": Fault(
        "html",
        lambda team: team.upload("html/model.onnx", HTML),
        "SourceInvalid",
        ("model.onnx", "HTML", "upload the .onnx file"),
    ),
    "an empty file": Fault(
        "empty", lambda team: team.upload("empty/model.onnx", b""), "SourceInvalid", ("empty", "0 bytes", "upload")
    ),
    "a truncated file": Fault(
        "cut",
        lambda team: team.upload("cut/model.onnx", linear()[:-40]),
        "SourceInvalid",
        ("model.onnx", "cut off", "upload"),
    ),
    "weights in a file that was not uploaded": Fault(
        "external",
        lambda team: team.upload("external/model.onnx", linear_with_external_data("weights.bin")),
        "SourceInvalid",
        ("weights.bin", "missing", "upload it beside the .onnx file"),
    ),
    "a digest pin of other content": Fault(
        "pinned",
        lambda team: team.upload("pinned/model.onnx", linear()),
        "DigestMismatch",
        ("sha256:" + "0" * 64, "spec.source.digest", "pin the new digest"),
        {"source__digest": "sha256:" + "0" * 64},
    ),
    "a key that does not exist": Fault(
        "absent",
        lambda team: team.uri("absent/model.onnx"),
        "SourceNotFound",
        ("absent/model.onnx", "no object", "continues by itself when the source changes"),
        jobs=0,
    ),
    "a bucket that does not exist": Fault(
        "nobucket",
        lambda _: f"s3://{NO_BUCKET}/model.onnx",
        "SourceNotFound",
        (NO_BUCKET, "bucket", "continues by itself when the source changes"),
        jobs=0,
    ),
    "a bucket that the tenant's user may not read": Fault(
        "denied", lambda _: f"s3://{DENIED_BUCKET}/model.onnx", "AccessDenied", (DENIED_BUCKET, "denied", "asked again")
    ),
    "credentials that the store does not know": Fault(
        "strange",
        lambda team: team.upload("strange/model.onnx", linear()),
        "AccessDenied",
        ("strange/model.onnx", "denied", "asked again"),
        {"source__credentialsSecretRef": {"name": "canary"}},
    ),
    "an endpoint where nobody listens": Fault(
        "silent",
        lambda team: team.upload("silent/model.onnx", linear()),
        "StoreUnavailable",
        ("does not answer", "retry"),
        {"source__credentialsSecretRef": {"name": "closed"}},
        status="Unknown",
        jobs=2,
    ),
    "a profile for an input the model does not have": Fault(
        "profile",
        lambda team: team.upload("profile/model.onnx", linear()),
        "InvalidShapes",
        ("image", "x", "default"),
        {"shapes__profiles": [PROFILE]},
    ),
}


@dataclass
class Row:
    """The tenant with every fault applied, the healthy model's clients, and the store behind a closed port."""

    team: Workspace
    clients: SteadyClients
    road: Forwarder
    audit: Audit


@pytest.fixture(scope="module")
def row(kube: Kube, node: Cluster) -> Iterator[Row]:
    s3 = platform_team.s3_client(node)
    s3.create_bucket(Bucket=DENIED_BUCKET)
    s3.put_object(Bucket=DENIED_BUCKET, Key="model.onnx", Body=linear(5))
    upstream = urlsplit(node.s3.endpoint)
    road = Forwarder(node.host_address, (upstream.hostname or "", upstream.port or 80))
    allowed = [f"s3://{NO_BUCKET}/", f"s3://{DENIED_BUCKET}/", f"s3://{platform_team.MODELS_BUCKET}/"]
    with workspace(kube, {"policy": {"allowedSources": allowed}}) as team:
        audit = Audit.from_now(node.audit_log)
        builder = team.access.builder
        _secret(team, "canary", AWS_ACCESS_KEY_ID="nobody", AWS_SECRET_ACCESS_KEY=CANARY)
        _secret(
            team,
            "closed",
            AWS_ACCESS_KEY_ID=builder.access_key,
            AWS_SECRET_ACCESS_KEY=builder.secret_key,
            AWS_ENDPOINT_URL_S3=road.endpoint,
        )
        team.serve("healthy", linear())
        team.wait("healthy")
        names = {(3.0, 5.0, 7.0, 9.0): "right"}
        with SteadyClients(team.address("healthy"), "healthy", names, pause=0.2) as clients:
            kube.apply(*(team.manifest(fault.name, fault.source(team), **fault.spec) for fault in FAULTS.values()))
            yield Row(team, clients, road, audit)
        road.close()
    s3.delete_object(Bucket=DENIED_BUCKET, Key="model.onnx")
    s3.delete_bucket(Bucket=DENIED_BUCKET)


def _secret(team: Workspace, name: str, **data: str) -> None:
    metadata = {"name": name, "namespace": team.name}
    team.kube.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": data})


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_a_fault_ends_in_its_reason_with_words_to_act_on(row: Row, fault: Fault) -> None:
    found = row.team.wait(fault.name, "SourceVerified", fault.status, fault.reason)
    for word in fault.words:
        assert word in found["message"], found["message"]
    assert len(found["message"]) < 1024
    assert "Traceback" not in found["message"]
    model = row.team.model(fault.name)
    ready = condition(model, "Ready")
    if fault.status == "False":
        assert (ready["status"], ready["reason"], ready["message"]) == ("False", fault.reason, found["message"])
    else:
        assert ready["status"] == "Unknown"
        assert ready["message"] == found["message"]
    assert condition(model, "Available")["reason"] == "NoReplicas"
    assert row.team.deployments(fault.name) == []
    if fault.status == "False":
        events = eventually(lambda: [e for e in row.team.events(fault.name) if e["reason"] == fault.reason], 10)
        assert {event["type"] for event in events} == {"Warning"}
        assert any(found["message"] in event["note"] for event in events)


def test_nothing_is_retried_where_that_cannot_help(row: Row) -> None:
    """By then the operator has looked at each model again, several times."""
    for fault in FAULTS.values():
        row.team.wait(fault.name, "SourceVerified", fault.status, fault.reason)
    probe = row.team.uri("probe/model.onnx")
    row.team.apply("probe", probe)
    row.team.wait("probe", status="False", reason="SourceNotFound")
    row.team.upload("probe/model.onnx", linear())
    row.team.wait("probe")  # one resync and a whole build later
    created = row.audit.created("jobs", row.team.name)
    for fault in FAULTS.values():
        if fault.jobs < 2 and "asked again" not in fault.words:
            jobs = [name for name in created if name.startswith(f"{fault.name}-prepare-")]
            assert len(jobs) == fault.jobs, created
            assert [name for name in created if name.startswith(f"{fault.name}-build-")] == []
    assert max(created.values()) == 1


def test_a_range_that_runs_backwards_is_refused_when_it_is_applied(row: Row) -> None:
    backwards = PROFILE | {"inputs": [{"name": "x", "min": [8, 4], "opt": [4, 4], "max": [1, 4]}]}
    manifest = row.team.manifest("backwards", row.team.uri("cut/model.onnx"), shapes__profiles=[backwards])
    refused = row.team.kube.ask_kubectl("apply", "-f", "-", given=manifest)
    assert refused.code != 0
    assert "min <= opt <= max" in refused.error, refused.error
    assert "spec.shapes.profiles" in refused.error, refused.error


def test_a_missing_key_that_is_uploaded_is_served(row: Row) -> None:
    row.team.wait("absent", status="False", reason="SourceNotFound")
    row.team.upload("absent/model.onnx", linear(7))
    row.team.wait("absent")
    assert row.team.answers("absent", [1, 2, 3, 4], [8, 15, 22, 29])


def test_a_bucket_that_is_opened_is_served(row: Row) -> None:
    row.team.wait("denied", status="False", reason="AccessDenied")
    platform_team._allow(row.team.kube.cluster, DENIED_BUCKET, row.team.access.builder, "", ["s3:GetObject"])
    row.team.wait("denied")
    assert row.team.answers("denied", [1, 2, 3, 4], [6, 11, 16, 21])


def test_an_endpoint_that_comes_back_is_used(row: Row) -> None:
    row.team.wait("silent", "SourceVerified", "Unknown", "StoreUnavailable")
    row.road.open()
    row.team.wait("silent")
    assert row.team.answers("silent", [1, 2, 3, 4], [3, 5, 7, 9])


def test_a_tenant_whose_endpoint_does_not_answer_waits_and_goes_on(
    kube: Kube, node: Cluster, new_team: Callable[..., Workspace]
) -> None:
    upstream = urlsplit(node.s3.endpoint)
    road = Forwarder(node.host_address, (upstream.hostname or "", upstream.port or 80))
    team = new_team()
    kube.kubectl(
        "patch",
        "mtenant",
        team.name,
        "--type=merge",
        "-p",
        json.dumps({"spec": {"store": {"endpoint": road.endpoint}}}),
    )
    try:
        team.serve("linear", linear())
        found = team.wait("linear", "SourceVerified", "Unknown", "StoreUnavailable")
        assert f"{road.port} does not answer" in found["message"]
        assert "will be retried" in found["message"]
        assert team.condition("linear")["status"] == "Unknown"
        assert team.jobs() == []
        store = eventually(lambda: _store_ready(kube, team.name), 30)
        assert store["reason"] == "StoreUnavailable"
        road.open()
        team.wait("linear")
    finally:
        road.close()


def _store_ready(kube: Kube, tenant: str) -> Object | None:
    found = condition(kube.get(f"/apis/enginery.io/v1alpha1/tenants/{tenant}"), "StoreReady")
    return found if found["status"] == "Unknown" else None


def test_no_secret_shows_anywhere(row: Row) -> None:
    row.team.wait("strange", "SourceVerified", "False", "AccessDenied")
    row.team.wait("healthy")
    access = row.team.access
    secret_words = [CANARY, access.builder.secret_key, access.runtime.secret_key, *access.signing_key.splitlines()[1:2]]
    for kind in ("imodel", "events", "jobs", "pods", "deployments", "services", "configmaps"):
        _require_silence(secret_words, kind, row.team.kubectl("get", kind, "-o", "json"))
    for pod in row.team.kube.items(f"/api/v1/namespaces/{row.team.name}/pods"):
        name = pod["metadata"]["name"]
        _require_silence(secret_words, name, row.team.kube.ask_kubectl("-n", row.team.name, "logs", name).out)
    _require_silence(secret_words, "the operator's log", operator_pod.logs(row.team.kube))
    _require_silence(secret_words, "the audit log", row.audit.path.read_text())


def _require_silence(words: list[str], where: str, text: str) -> None:
    assert text, f"nothing to look at in {where}"
    assert not any(word in text for word in words), f"a secret shows in {where}"


def test_a_healthy_model_beside_them_does_not_suffer(row: Row) -> None:
    answers = row.clients.count("right")
    eventually(lambda: row.clients.count("right") > answers + 10, 30)
    assert row.clients.faults == []
    (pod,) = row.team.pods("healthy")
    assert pod["status"]["containerStatuses"][0]["restartCount"] == 0
    assert row.team.condition("healthy")["status"] == "True"
