"""A whole pass against a tiny API server over real HTTP: what is written, what is not, and what an error spoils."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from enginery_operator import keys
from enginery_operator.cluster import Cluster
from enginery_operator.conditions import Transition
from enginery_operator.decide.seen import Trouble, Verdict
from enginery_operator.errors import ClusterUnavailableError, GoneError
from enginery_operator.reconcile import Context, _note, _unwanted_jobs, reconcile
from enginery_operator.render import labels
from enginery_operator.stored import Listing, ModelStore, StoredEngine
from enginery_operator.workqueue import Key
from enginery_store.reasons import Reason
from enginery_store.requests import Outcome, PrepareRequest, StoreAccess
from kubernetes.aio import client
from support.api_objects import NOW, ATenant, a_model, a_tenant
from support.installation import a_cache, a_node, some_offers, some_settings
from support.observed import FINGERPRINT, a_manifest, an_observed, an_outcome

MODEL = Key("InferenceModel", "team-a", "resnet50")
SETTINGS = some_settings(store=StoreAccess(endpoint="http://127.0.0.1:9"))
UNLISTED = (
    a_model().having("spec.source.credentialsSecretRef", {"name": "mine"}).having("metadata.resourceVersion", "1")
)


@dataclass
class Api:
    """Takes every write and keeps it; a test says which paths fail with what."""

    fails: dict[str, int] = field(default_factory=dict)
    writes: list[tuple[str, str, Any]] = field(default_factory=list)
    version: int = 1

    async def answer(self, request: web.Request) -> web.Response:
        body = json.loads(await request.text() or "null")
        for part, code in self.fails.items():
            if part in request.path:
                message = {"kind": "Status", "message": f"said {code}", "reason": "Because"}
                return web.json_response(message, status=code)
        self.writes.append((request.method, request.path, body))
        self.version += 1
        uid = "team-a-uid" if "/tenants/" in request.path else "model-uid"
        metadata = (body or {}).get("metadata", {}) | {"uid": uid, "resourceVersion": str(self.version)}
        return web.json_response((body or {}) | {"metadata": metadata})

    def of(self, part: str) -> list[Any]:
        return [body for _, path, body in self.writes if part in path]


@pytest.fixture
async def api() -> AsyncIterator[tuple[Api, Cluster]]:
    found = Api()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", found.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    configuration = client.Configuration()
    configuration.host = f"http://127.0.0.1:{runner.addresses[0][1]}"
    cluster = Cluster(client.ApiClient(configuration))
    yield found, cluster
    await cluster.close()
    await runner.cleanup()


def a_context(cluster: Cluster, *, tenants: tuple[ATenant, ...] = (), model: Any = None, **changes: Any) -> Context:
    """Nothing answers where the store should be."""
    cache = a_cache(tenants=tenants, namespaces={"team-a": {}}, nodes=(a_node(),), models=(model or UNLISTED,))
    return replace(Context(SETTINGS, cluster, ModelStore(Path("/nowhere")), cache, clock=lambda: NOW), **changes)


def ready(api: Api) -> Any:
    written = api.of("/status")[-1]["status"]["conditions"]
    return next(item for item in written if item["type"] == "Ready")


async def test_a_pass_tells_once_and_the_next_writes_nothing(api: tuple[Api, Cluster]) -> None:
    server, cluster = api
    ctx = a_context(cluster)
    await reconcile(MODEL, ctx)
    assert ready(server)["reason"] == "TenantNotFound"
    events = server.of("/events")
    assert [(item["action"], item["reason"], item["type"]) for item in events] == [
        ("Accepted", "TenantNotFound", "Warning"),
        ("Progressing", "TenantNotFound", "Warning"),
        ("Available", "NoReplicas", "Normal"),
        ("ScalingReady", "FixedReplicas", "Normal"),
        ("Ready", "TenantNotFound", "Warning"),
    ]
    assert all(len(item["note"]) <= 1024 and len(item["metadata"]["name"]) <= 253 for item in events)
    before = len(server.writes)
    later = replace(ctx, clock=lambda: NOW + timedelta(hours=1))
    for _ in range(5):
        assert await reconcile(MODEL, later) == SETTINGS.resync_seconds
    assert len(server.writes) == before


async def test_a_tenant_that_turns_up_changes_what_is_told(api: tuple[Api, Cluster]) -> None:
    server, cluster = api
    ctx = a_context(cluster)
    await reconcile(MODEL, ctx)
    ctx.cache._indices["tenants"] = {"team-a": [a_tenant().body()]}
    await reconcile(MODEL, ctx)
    assert (ready(server)["status"], ready(server)["reason"]) == ("Unknown", "Pending")
    assert server.of("/events")[-1]["reason"] != "TenantNotFound"


@pytest.mark.parametrize("letter", ["a", "я", "字", "🦊"])
def test_a_note_is_cut_by_bytes_and_never_inside_a_character(letter: str) -> None:
    note = _note(Transition("Ready", Verdict("False", Reason.SOURCE_INVALID, letter * 1000)))
    assert 1000 < len(note.encode()) <= 1024
    assert set(note.removeprefix("Ready=False: ")) == {letter}


@pytest.mark.parametrize("code", [403, 422, 500, 503])
async def test_events_that_are_refused_harm_nothing(code: int, api: tuple[Api, Cluster]) -> None:
    server, cluster = api
    server.fails["/events"] = code
    ctx = a_context(cluster)
    assert await reconcile(MODEL, ctx) == SETTINGS.resync_seconds
    assert ready(server)["reason"] == "TenantNotFound"
    before = len(server.writes)
    await reconcile(MODEL, ctx)
    assert len(server.writes) == before


async def test_a_status_that_cannot_be_written_is_an_error_of_the_pass(api: tuple[Api, Cluster]) -> None:
    server, cluster = api
    ctx = a_context(cluster)
    server.fails["/status"] = 503
    for _ in range(3):
        with pytest.raises(ClusterUnavailableError):
            await reconcile(MODEL, ctx)
    assert server.of("/events") == []
    del server.fails["/status"]
    await reconcile(MODEL, ctx)
    assert ready(server)["reason"] == "TenantNotFound"


async def test_an_object_that_is_gone_ends_its_passes(api: tuple[Api, Cluster]) -> None:
    server, cluster = api
    ctx = a_context(cluster)
    server.fails["/status"] = 404
    with pytest.raises(GoneError):
        await reconcile(MODEL, ctx)
    assert await reconcile(Key("InferenceModel", "team-a", "never"), ctx) is None
    deleted = UNLISTED.having("metadata.deletionTimestamp", "2026-03-01T12:00:00Z")
    assert await reconcile(MODEL, a_context(cluster, model=deleted)) is None
    assert server.writes == []


async def test_a_silent_store_is_waited_for_and_starts_no_job(api: tuple[Api, Cluster]) -> None:
    server, cluster = api
    ctx = a_context(cluster, tenants=(a_tenant(),))
    assert await reconcile(MODEL, ctx) == SETTINGS.jobs.retry_base_seconds
    source = next(item for item in server.of("/status")[-1]["status"]["conditions"] if item["type"] == "SourceVerified")
    assert (source["status"], source["reason"]) == ("Unknown", "StoreUnavailable")
    assert server.of("/jobs") == []


async def test_a_model_that_fits_no_type_is_told_so_and_else_left_alone(api: tuple[Api, Cluster]) -> None:
    server, cluster = api
    strange = UNLISTED.having("spec.accelerator.mode", "Quantum")
    assert await reconcile(MODEL, a_context(cluster, model=strange)) == SETTINGS.resync_seconds
    conditions = {item["type"]: item for item in server.of("/status")[-1]["status"]["conditions"]}
    for name in ("Accepted", "Ready"):
        assert (conditions[name]["status"], conditions[name]["reason"]) == ("False", "InvalidSpec")
    assert "spec.accelerator.mode" in conditions["Ready"]["message"]
    assert server.of("/jobs") == []
    assert server.of("/deployments") == []


async def test_a_tenant_of_another_version_spoils_nobody_elses_passes(api: tuple[Api, Cluster]) -> None:
    server, cluster = api
    strange = a_tenant("strange").having("spec.stopPolicy", "Someday")
    ctx = a_context(cluster, tenants=(strange, a_tenant()))
    assert await reconcile(Key("Tenant", "", "strange"), ctx) == SETTINGS.resync_seconds
    assert server.writes == []
    await reconcile(MODEL, ctx)
    assert ready(server)["reason"] == "Pending"


async def test_a_tenants_pass_tells_once(api: tuple[Api, Cluster]) -> None:
    server, cluster = api
    ctx = a_context(cluster, tenants=(a_tenant(),))
    await reconcile(Key("Tenant", "", "team-a"), ctx)
    found = server.of("/tenants/team-a/status")
    assert len(found) == 1
    assert found[0]["status"]["namespaces"] == ["team-a"]
    assert all(path.startswith("/apis/events.k8s.io/v1/namespaces/default/") for _, path, _ in server.writes[1:])


async def test_a_tenants_pass_sees_its_own_word_before_the_watch_delivers_it(api: tuple[Api, Cluster]) -> None:
    server, cluster = api
    ctx = a_context(cluster, tenants=(a_tenant(),))
    await reconcile(Key("Tenant", "", "team-a"), ctx)
    before = len(server.writes)
    await reconcile(Key("Tenant", "", "team-a"), ctx)
    assert len(server.writes) == before


class Empty(ModelStore):
    """A store that answers and holds nothing."""

    async def outcome(self, *_: Any) -> tuple[Outcome | None, Trouble | None]:
        return None, None


async def test_a_refused_job_does_not_keep_a_stopped_model_from_stopping(api: tuple[Api, Cluster]) -> None:
    """The quota that refuses it may be full of the pods that should go."""
    server, cluster = api
    ctx = a_context(cluster, tenants=(a_tenant(),), model=UNLISTED.stopped(), store=Empty(Path("/nowhere")))
    owner = {"uid": "model-uid", "controller": True}
    old = {"name": "resnet50-01d01d01", "namespace": "team-a", "ownerReferences": [owner]}
    ctx.cache._indices["deployments"] = {("team-a", "resnet50"): [{"metadata": old, "spec": {"replicas": 1}}]}
    server.fails["/jobs"] = 403
    await reconcile(MODEL, ctx)
    assert ("DELETE", "resnet50-01d01d01") in {(verb, path.rsplit("/", 1)[-1]) for verb, path, _ in server.writes}


async def test_passes_over_one_model_do_not_pile_up_interest(api: tuple[Api, Cluster]) -> None:
    _, cluster = api
    ctx = a_context(cluster, tenants=(a_tenant(),))
    await asyncio.gather(*(reconcile(MODEL, ctx) for _ in range(2)))
    assert len(ctx.interest) == 1
    ctx.cache._indices["models"] = {}
    await reconcile(MODEL, ctx)
    assert len(ctx.interest) == 0


def a_job_of(model: str, revision: str, key: str, component: str, **changes: Any) -> dict[str, Any]:
    marks = {labels.MODEL: "resnet50", labels.TENANT: "team-a", labels.KEY: key, labels.REVISION: revision}
    owner = {"kind": "InferenceModel", "controller": True, "uid": model}
    metadata = {"name": f"{component}-{key}", "namespace": "team-a", "ownerReferences": [owner]}
    return {"metadata": metadata | {"labels": marks | {labels.COMPONENT: component}}, "status": {}} | changes


UNWANTED: dict[str, tuple[dict[str, Any], bool]] = {
    "the prepare Job of an earlier edit": (a_job_of("model-uid", "resnet50-old", "k1", "prepare"), True),
    "one of the revision that is wanted": (a_job_of("model-uid", "resnet50-new", "k2", "prepare"), False),
    "an earlier edit that asks for the same": (a_job_of("model-uid", "resnet50-old", "wanted", "prepare"), False),
    "one that another model waits for": (a_job_of("model-uid", "resnet50-old", "shared", "prepare"), False),
    "a build while the wanted keys are not known": (a_job_of("model-uid", "resnet50-old", "k3", "build"), False),
    "somebody else's, with our labels": (a_job_of("other-uid", "resnet50-old", "k4", "prepare"), False),
    "one that ended": (
        a_job_of("model-uid", "resnet50-old", "k5", "prepare",
                 status={"conditions": [{"type": "Complete", "status": "True"}]}), False),
}  # fmt: skip


@pytest.mark.parametrize("sentence", UNWANTED)
async def test_jobs_that_nobody_asks_for_any_more_go(sentence: str, api: tuple[Api, Cluster]) -> None:
    job, want = UNWANTED[sentence]
    ctx = a_context(api[1])
    ctx.cache._indices = dict(ctx.cache._indices) | {"jobs": {("model", "team-a", "resnet50"): [job]}}
    ctx.interest.set(Key("InferenceModel", "team-a", "bert"), {"shared"})
    seen = an_observed().having(revision="resnet50-new", request_key="wanted", engines=()).seen
    seen = replace(seen, model=seen.model.model_copy(update={"metadata": seen.model.metadata | {"uid": "model-uid"}}))
    assert bool(_unwanted_jobs(seen, ctx)) is want


AUTO = (
    a_model()
    .having("metadata.resourceVersion", "1")
    .with_gate()
    .having("spec.precision.type", "Auto")
    .having("spec.precision.calibration", {"uri": "s3://models/team-a/calibration/"})
    .having("spec.objective", {"latencyMilliseconds": {"value": "0.05"}})
)


class SlowStore(ModelStore):
    """Holds FP32's prepared model and its engine, which misses the objective."""

    async def listing(self, *_: Any) -> Listing:
        return Listing(FINGERPRINT, 7)

    async def outcome(self, *asked: Any) -> tuple[Outcome | None, Trouble | None]:
        return (an_outcome(key=asked[2]), None) if asked[2] == step_key("FP32") else (None, None)

    async def engine(self, *asked: Any) -> StoredEngine | None:
        return StoredEngine(a_manifest(some_offers()[0].target, key=asked[2]))

    async def prepared(self, *_: Any) -> bool:
        return True


def step_key(precision: str) -> str:
    model, tenant = AUTO.build(), a_tenant().build()
    return keys.request_key(model, FINGERPRINT, tenant.spec.store.prefix, keys.precision_ref(model, precision))


async def test_a_second_precision_is_prepared_by_a_job_of_its_own(api: tuple[Api, Cluster]) -> None:
    server, cluster = api
    ctx = a_context(cluster, tenants=(a_tenant(),), model=AUTO, store=SlowStore(Path("/nowhere")))
    await reconcile(MODEL, ctx)
    (job,) = server.of("/jobs")
    environment = job["spec"]["template"]["spec"]["containers"][0]["env"]
    request = PrepareRequest.model_validate_json(environment[0]["value"])
    assert (request.key, request.precision.type) == (step_key("INT8"), "INT8")
    assert server.of("/deployments") == []
    for precision in ("FP32", "INT8"):
        assert ctx.interest.of(step_key(precision)[: labels.KEY_LENGTH]) == {MODEL}
    rows = server.of("/status")[-1]["status"]["precision"]["tried"]
    assert rows == [{"type": "FP32", "p99Milliseconds": "0.06", "accepted": False, "reason": "ObjectiveMissed"}]
