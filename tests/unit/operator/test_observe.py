"""What a pass asks the store, and above all what it does not ask: the operator can see more than its tenants may."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from enginery_operator import keys
from enginery_operator.decide import decide
from enginery_operator.decide.seen import Observed, SourceSeen, Trouble
from enginery_operator.observe import observe
from enginery_operator.render import labels
from enginery_operator.render.deployment import deployment
from enginery_operator.settings import Images
from enginery_operator.stored import Listing, ModelStore, StoredEngine
from enginery_operator.targets import Offer
from enginery_operator.workloads import parse_time
from enginery_store.manifest import LatencyRecord
from enginery_store.reasons import Reason
from enginery_store.requests import Outcome, StoreAccess
from support.api_objects import NOW, AModel, ATenant, a_model, a_tenant, ago, stamp
from support.installation import L40S, ANode, a_cache, a_node, some_offers, some_settings
from support.observed import FINGERPRINT, PREPARED, a_manifest, an_outcome

SETTINGS = some_settings()
REPLACED = f"sha256:{'0' * 64}"
PINNED = a_model().with_status(
    {
        "source": {
            "uri": "s3://models/team-a/resnet50/model.onnx",
            "fingerprint": FINGERPRINT,
            "pinnedAt": stamp(ago(300)),
        }
    }
)


class Store(ModelStore):
    """Lists every source as one that was replaced, and holds the outcomes a test gives."""

    def __init__(self, outcomes: dict[str, Outcome] | None = None) -> None:
        super().__init__(Path("/nowhere"))
        self.listed: list[str] = []
        self.outcomes = outcomes or {}

    async def listing(self, access: StoreAccess, uri: str) -> Listing:  # noqa: ARG002 - as the real one has it
        self.listed.append(uri)
        return Listing(REPLACED, 7)

    async def outcome(self, *asked: Any) -> tuple[Outcome | None, Trouble | None]:
        return self.outcomes.get(asked[-1]), None

    async def engine(self, *_: Any) -> StoredEngine | None:
        return None

    async def prepared(self, *_: Any) -> bool:
        return True


def request_key(model: AModel, fingerprint: str = FINGERPRINT) -> str:
    parsed = model.build()
    precision = keys.precision_ref(parsed, parsed.spec.precision.type)
    return keys.request_key(parsed, fingerprint, a_tenant().build().spec.store.prefix, precision)


def a_job(key: str, **status: Any) -> dict[str, Any]:
    return {
        "metadata": {
            "name": "resnet50-prepare-1",
            "namespace": "team-a",
            "creationTimestamp": stamp(ago(60)),
            "labels": {labels.ATTEMPT: "1"},
        },
        "status": status,
    }


async def look(
    model: AModel, store: Store, tenant: ATenant | None = None, job: dict[str, Any] | None = None, **others: Any
) -> Observed:
    cache = a_cache(tenants=(tenant or a_tenant(),), namespaces={"team-a": {}}, nodes=(a_node(),))
    jobs = {("team-a", request_key(model)[: labels.KEY_LENGTH]): [job]} if job else {}
    cache._indices = dict(cache._indices) | {"jobs": jobs}
    return await observe(model.build(), cache=cache, store=store, settings=SETTINGS, now=NOW, **others)


async def test_a_source_that_policy_forbids_is_not_listed_with_the_operators_eyes() -> None:
    store, tenant = Store(), a_tenant().having("spec.policy.allowedSources", ["s3://models/team-a/"])
    seen = await look(a_model().having("spec.source.uri", "s3://models/team-b/secret.onnx"), store, tenant)
    assert store.listed == []
    assert seen.source == SourceSeen(None)
    await look(a_model(), store, tenant)
    assert store.listed == ["s3://models/team-a/resnet50/model.onnx"]


async def test_a_source_with_credentials_of_its_own_is_not_listed() -> None:
    store = Store()
    seen = await look(a_model().having("spec.source.credentialsSecretRef", {"name": "mine"}), store)
    assert store.listed == []
    assert seen.source.fingerprint == ""


FAILED = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "lastTransitionTime": stamp(ago(10))}
PINS: dict[str, tuple[dict[str, Outcome], dict[str, Any] | None, str]] = {
    "a request that is not answered": ({}, None, FINGERPRINT),
    "a Job at work": ({}, a_job("k"), FINGERPRINT),
    "a Job that failed for any reason, as of a replaced source": ({}, a_job("k", conditions=[FAILED]), REPLACED),
    "a request that succeeded": ({request_key(PINNED): an_outcome()}, None, FINGERPRINT),
    "a request that failed for good": ({request_key(PINNED): an_outcome(Reason.SOURCE_INVALID)}, None, REPLACED),
}


@pytest.mark.parametrize("sentence", PINS)
async def test_a_pin_moves_to_the_new_listing_only_when_the_old_one_led_to_nothing(sentence: str) -> None:
    outcomes, job, want = PINS[sentence]
    seen = await look(PINNED, Store(outcomes), job=job)
    assert seen.source.fingerprint == want
    assert seen.source.pinned_at == (parse_time(stamp(ago(300))) if want == FINGERPRINT else NOW)


REFUSED = 'Error creating: pods "x" is forbidden: '
NOTES: dict[str, tuple[float, str | None, Trouble | None]] = {
    # sentence: (age of the Job, what the Job controller said, what is wrong)
    "a new Job's pod is on its way": (1, "not asked", None),
    "a quota that is full": (
        60, f"{REFUSED}exceeded quota: q, requested: pods=1, used: pods=3, limited: pods=3",
        Trouble(Reason.WAITING_FOR_QUOTA, 'no pod is allowed: pods "x" is forbidden: exceeded quota: q, requested:'
                " pods=1, used: pods=3, limited: pods=3", passing=True)),
    "a policy that forbids": (
        60, f"{REFUSED}violates PodSecurity",
        Trouble(Reason.CONFIG_ERROR, 'no pod is allowed: pods "x" is forbidden: violates PodSecurity', passing=True)),
    "silence": (60, None, None),
}  # fmt: skip


@pytest.mark.parametrize("sentence", NOTES)
async def test_a_job_without_a_pod_is_asked_about(sentence: str) -> None:
    age, note, trouble = NOTES[sentence]
    asked = []

    async def why(namespace: str, name: str) -> str | None:
        asked.append((namespace, name))
        return note

    job = a_job("k")
    job["metadata"]["creationTimestamp"] = stamp(ago(age))
    seen = (await look(PINNED, Store(), job=job, why_no_pod=why)).prepare_job
    assert seen is not None
    assert (seen.trouble, seen.podless) == (trouble, age > 1)
    assert asked == ([("team-a", "resnet50-prepare-1")] if age > 1 else [])


ARM = ANode(name="arm", labels={"kubernetes.io/arch": "arm64"})
DRAINED = replace(ARM, unschedulable=True)
SOURCE = {"uri": PINNED.data["status"]["source"]["uri"], "fingerprint": FINGERPRINT, "pinnedAt": stamp(ago(300))}


class Built(Store):
    """Holds an engine for every target but those a test took away."""

    def __init__(self, *gone: str) -> None:
        super().__init__({request_key(PINNED): an_outcome()})
        self.gone = gone

    async def engine(self, *asked: Any) -> StoredEngine | None:
        key = asked[2]
        target = next(offer.target for offer in some_offers(a_node(), ARM) if engine_key(offer) == key)
        return None if target.architecture in self.gone else StoredEngine(a_manifest(target, key=key), signed=True)


def engine_key(offer: Offer) -> str:
    return keys.engine_key(PINNED.build(), PREPARED, offer, SETTINGS)


def ready_on(*architectures: str) -> AModel:
    """A model whose status tells of ready engines."""
    offered = [offer for offer in some_offers(a_node(), ARM) if offer.target.architecture in architectures]
    entries = [
        {"target": offer.target.name, "state": "Ready", "key": f"sha256:{engine_key(offer)}"} for offer in offered
    ]
    return a_model().with_status({"source": SOURCE, "engines": entries})


async def rendered(model: AModel, store: Store, *nodes: ANode) -> tuple[list[str], Any]:
    """(architectures with an engine, the Deployment's pod template) as nodes stand."""
    cache = a_cache(tenants=(a_tenant(),), namespaces={"team-a": {}}, nodes=nodes)
    seen = await observe(model.build(), cache=cache, store=store, settings=SETTINGS, now=NOW)
    assert seen.tenant is not None
    wanted = deployment(
        seen.model, seen.tenant, SETTINGS, engines=seen.engines, revision=str(seen.revision), replicas=1
    )
    return [engine.offer.target.architecture for engine in seen.engines], wanted["spec"]["template"]


async def test_draining_the_last_node_of_a_kind_rolls_no_pods() -> None:
    model = ready_on("amd64", "arm64")
    before = await rendered(model, Built(), a_node(), ARM)
    assert before[0] == ["amd64", "arm64"]
    assert await rendered(model, Built(), a_node(), DRAINED) == before
    assert await rendered(model, Built(), replace(a_node(), unschedulable=True), ARM) == before


RESTING: dict[str, tuple[AModel, Built, tuple[ANode, ...]]] = {
    "one that was never built waits for its node": (ready_on("amd64"), Built(), (a_node(), DRAINED)),
    "one that left the store is built when its node is back": (
        ready_on("amd64", "arm64"), Built("arm64"), (a_node(), DRAINED)),
    "a node that is gone takes its kind along": (ready_on("amd64", "arm64"), Built(), (a_node(),)),
}  # fmt: skip


@pytest.mark.parametrize("sentence", RESTING)
async def test_a_kind_whose_nodes_rest_holds_nothing_up(sentence: str) -> None:
    model, store, nodes = RESTING[sentence]
    assert (await rendered(model, store, *nodes))[0] == ["amd64"]


async def test_a_source_in_another_tenants_part_of_the_store_is_neither_listed_nor_accepted() -> None:
    store = Store()
    model = a_model().having("spec.source.uri", "s3://enginery//tenants/team-b/engines/model.onnx")
    tenants = (a_tenant(), a_tenant("team-b"))
    cache = a_cache(tenants=tenants, namespaces={"team-a": {}}, nodes=(a_node(),))
    seen = await observe(model.build(), cache=cache, store=store, settings=SETTINGS, now=NOW)
    assert store.listed == []
    accepted = decide(seen).conditions["Accepted"]
    assert (accepted.status, accepted.reason) == ("False", Reason.SOURCE_NOT_ALLOWED)
    assert "another tenant's" in accepted.message


class Emptied(Store):
    """Knows outcomes, but what they led to was removed."""

    async def prepared(self, *_: Any) -> bool:
        return False


async def test_what_was_removed_is_prepared_from_the_source_as_it_is_now_once_the_pinned_one_was_replaced() -> None:
    key = request_key(PINNED)
    store = Emptied({key: an_outcome(Reason.DIGEST_RECORDED)})
    assert (await look(PINNED, store)).source.fingerprint == FINGERPRINT
    seen = await look(PINNED, store, job=a_job(key, conditions=[FAILED]))
    assert seen.source.fingerprint == REPLACED
    assert seen.outcome is None


AUTO = (
    PINNED.with_gate()
    .having("spec.precision.type", "Auto")
    .having("spec.precision.calibration", {"uri": "s3://models/team-a/calibration/"})
    .having("spec.objective", {"latencyMilliseconds": {"value": "0.05"}, "batchSize": 1})
)
STEPS = {name: keys.precision_ref(AUTO.build(), name) for name in ("FP32", "INT8")}
REQUESTS = {
    name: keys.request_key(AUTO.build(), FINGERPRINT, a_tenant().build().spec.store.prefix, step)
    for name, step in STEPS.items()
}


class Ladder(Store):
    """Holds what was prepared for these precisions, each with an engine whose p99 is 0.06 ms."""

    def __init__(self, *precisions: str) -> None:
        super().__init__({REQUESTS[name]: an_outcome(prepared_key=name.lower() * 16) for name in precisions})

    async def engine(self, *asked: Any) -> StoredEngine | None:
        return StoredEngine(a_manifest(some_offers()[0].target, key=asked[2]))


LADDERS: dict[str, tuple[tuple[str, ...], list[str], str]] = {
    # sentence: (what is stored, candidates that are looked at, the one that counts)
    "nothing is stored: only the first is asked for": ((), ["FP32"], "FP32"),
    "the first is stored and slow: the second is asked for": (("FP32",), ["FP32", "INT8"], "INT8"),
    "a second one without the first is none": (("INT8",), ["FP32"], "FP32"),
    "both are stored and equally slow": (("FP32", "INT8"), ["FP32", "INT8"], "FP32"),
}


@pytest.mark.parametrize("sentence", LADDERS)
async def test_a_precision_is_looked_at_only_when_what_is_stored_asks_for_it(sentence: str) -> None:
    stored, looked_at, counts = LADDERS[sentence]
    seen = await look(AUTO, Ladder(*stored))
    assert [item.precision.type for item in seen.candidates] == looked_at
    assert [item.request_key for item in seen.candidates] == [REQUESTS[name] for name in looked_at]
    assert seen.current.precision.type == counts


TRIED = [{"type": "INT8", "accepted": False, "reason": "BuildOutOfMemory"}]
GIVEN_UP: dict[str, tuple[str, list[dict[str, Any]], str]] = {
    # sentence: (targetRevision in status, what status says was tried, what serves or is waited for)
    "by this revision": (keys.revision_name(AUTO.build(), FINGERPRINT), TRIED, "FP32"),
    "by another revision": ("resnet50-01d01d01", TRIED, "INT8"),
    "not at all": (keys.revision_name(AUTO.build(), FINGERPRINT), [], "INT8"),
    "for a reason that the store tells itself": (
        keys.revision_name(AUTO.build(), FINGERPRINT), [TRIED[0] | {"reason": "CalibrationDataInvalid"}], "INT8"),
}  # fmt: skip


@pytest.mark.parametrize("sentence", GIVEN_UP)
async def test_a_step_that_was_given_up_is_not_taken_again_when_its_job_is_gone(sentence: str) -> None:
    revision, tried, want = GIVEN_UP[sentence]
    status = {"source": SOURCE, "targetRevision": revision, "precision": {"effective": "FP32", "tried": tried}}
    assert (await look(AUTO.with_status(status), Ladder("FP32"))).current.precision.type == want


async def test_every_step_is_of_one_revision() -> None:
    found = {(await look(AUTO, Ladder(*stored))).revision for stored, _, _ in LADDERS.values()}
    assert len(found) == 1


async def test_only_devices_that_compute_the_precision_get_an_engine() -> None:
    nodes = (a_node().with_gpu("NVIDIA-A10", capability="8.6"), replace(L40S, name="l40s"))
    model = PINNED.with_gpu().having("spec.precision.type", "FP8")
    cache = a_cache(tenants=(a_tenant(),), namespaces={"team-a": {}}, nodes=nodes)
    store = Store({request_key(model): an_outcome()})
    seen = await observe(model.build(), cache=cache, store=store, settings=SETTINGS, now=NOW)
    assert [offer.target.product for offer in seen.matching] == ["NVIDIA-A10", "NVIDIA-L40S"]
    assert [engine.offer.target.product for engine in seen.engines] == ["NVIDIA-L40S"]


async def test_draining_a_node_changes_nothing_of_what_auto_chose() -> None:
    """INT8 serves because FP32 is slow on arm64; while that node rests, FP32 is no quicker there."""
    offered = some_offers(a_node(), ARM)
    slow = [timed(9_000_000 if offer.target.architecture == "arm64" else 40) for offer in offered]
    found = {
        keys.engine_key(AUTO.build(), name.lower() * 16, offer, SETTINGS): a_manifest(
            offer.target, latency=[timed(30) if name == "INT8" else record]
        )
        for name in REQUESTS
        for offer, record in zip(offered, slow, strict=True)
    }

    class Fleet(Ladder):
        async def engine(self, *asked: Any) -> StoredEngine | None:
            return StoredEngine(found[asked[2]])

    async def serves(model: AModel, *nodes: ANode) -> tuple[str, list[str]]:
        cache = a_cache(tenants=(a_tenant(),), namespaces={"team-a": {}}, nodes=nodes)
        store = Fleet("FP32", "INT8")
        seen = await observe(model.build(), cache=cache, store=store, settings=SETTINGS, now=NOW)
        return seen.current.precision.type, [engine.key for engine in seen.engines]

    before = await serves(AUTO, a_node(), ARM)
    assert before[0] == "INT8"
    entries = [
        {"target": offer.target.name, "state": "Ready", "key": f"sha256:{key}"}
        for offer, key in zip(offered, before[1], strict=True)
    ]
    model = AUTO.with_status({"source": SOURCE, "engines": entries})
    assert await serves(model, a_node(), DRAINED) == before


def timed(p99: int) -> LatencyRecord:
    return LatencyRecord(profile="p", batch=1, p50_microseconds=1, p99_microseconds=p99, items_per_second="1")


FOREIGN = "s3://enginery/tenants/team-b/data/"


@pytest.mark.parametrize("field", ["accuracyGate", "calibration"])
async def test_data_in_another_tenants_part_of_the_store_are_not_accepted(field: str) -> None:
    model = AUTO.having(f"spec.precision.{field}.uri", FOREIGN)
    cache = a_cache(tenants=(a_tenant(), a_tenant("team-b")), namespaces={"team-a": {}}, nodes=(a_node(),))
    seen = await observe(model.build(), cache=cache, store=Store(), settings=SETTINGS, now=NOW)
    accepted = decide(seen).conditions["Accepted"]
    assert (accepted.status, accepted.reason) == ("False", Reason.SOURCE_NOT_ALLOWED)
    assert accepted.message.startswith(f"spec.precision.{field}.uri {FOREIGN} lies in or around another tenant's part")


async def test_images_that_an_installation_lacks_are_named_as_the_chart_does() -> None:
    bare = SETTINGS.model_copy(update={"images": Images(builder="b:1", runtime="r:1")})
    cache = a_cache(tenants=(a_tenant(),), namespaces={"team-a": {}}, nodes=(a_node(),))

    async def missing(model: AModel) -> tuple[str, ...]:
        seen = await observe(model.build(), cache=cache, store=Store(), settings=bare, now=NOW)
        return seen.missing_images

    assert await missing(a_model()) == ()
    assert await missing(a_model().having("spec.source.format", "TensorFlowSavedModel")) == (
        "images.converters.tensorFlow",
    )
    assert await missing(a_model().with_gpu()) == ("images.runtimeTensorRT", "images.builderTensorRT")
    assert await missing(a_model().with_gpu().having("spec.build.backend", "TensorRTRTX")) == (
        "images.runtimeTensorRTRTX",
    )
