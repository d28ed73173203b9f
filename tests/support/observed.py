"""What one pass of the operator saw, step by step the life of a model: pinned, prepared, built, serving.

For example: an_observed(a_model().with_gate()).built().old_serves().build().
"""

from dataclasses import dataclass, fields, replace
from typing import Any

from enginery_operator import keys
from enginery_operator.api.v1alpha1 import InferenceModel
from enginery_operator.decide import ladder
from enginery_operator.decide.seen import (
    Candidate,
    EngineSeen,
    JobSeen,
    Observed,
    RevisionSeen,
    SourceSeen,
    Trouble,
)
from enginery_operator.targets import matching
from enginery_store.manifest import (
    AccuracyRecord,
    BuildOptions,
    DeviceFacts,
    EngineManifest,
    LatencyRecord,
    StoredFile,
    Target,
    TensorSpec,
)
from enginery_store.reasons import Reason
from enginery_store.requests import Outcome
from support.api_objects import NOW, AModel, ATenant, a_model, a_tenant, ago, stamp
from support.installation import ANode, some_offers

DIGEST = f"sha256:{'d' * 64}"
FINGERPRINT = f"sha256:{'f' * 64}"
PREPARED = "b" * 64


def a_manifest(target: Target, **changes: Any) -> EngineManifest:
    fields: dict[str, Any] = {
        "key": "e" * 64,
        "prepared_key": PREPARED,
        "source_digest": DIGEST,
        "target": target,
        "backend": "ONNXRuntime",
        "backend_version": "1.32.0",
        "file": StoredFile(name="model-1.onnx", sha256="a" * 64, size_bytes=1000),
        "inputs": [TensorSpec(name="x", datatype="FP32", shape=[-1, 4])],
        "outputs": [TensorSpec(name="y", datatype="FP32", shape=[-1, 2])],
        "profiles": [],
        "options": BuildOptions(),
        "precision_requested": "FP32",
        "precision_effective": "FP32",
        "accuracy": an_accuracy("0.0000"),
        "latency": [LatencyRecord(profile="default", batch=1, p50_microseconds=40, p99_microseconds=60,
                                  items_per_second="25000")],
        "device": DeviceFacts(name="cpu", architecture="amd64"),
        "device_memory_bytes": 5000,
        "build_seconds": 7,
        "builder_version": "0.1.0",
        "created_at": ago(60),
    }  # fmt: skip
    return EngineManifest(**(fields | changes))


def an_accuracy(degradation: str, measured: str = "0.9800") -> AccuracyRecord:
    return AccuracyRecord(
        metric="Top1",
        reference="0.9800",
        measured=measured,
        degradation=degradation,
        samples=1000,
        data_digest=f"sha256:{'a' * 64}",
    )


def an_outcome(reason: Reason = Reason.DIGEST_RECORDED, message: str = "", **changes: Any) -> Outcome:
    fields: dict[str, Any] = {
        "key": "1" * 64,
        "reason": reason,
        "message": message,
        "prepared_key": PREPARED,
        "source_digest": DIGEST,
        "source_size_bytes": 1000,
        "finished_at": ago(60),
    }
    return Outcome(**(fields | changes))


def a_job(state: str = "Running", **changes: Any) -> JobSeen:
    fields: dict[str, Any] = {
        "namespace": "team-a",
        "name": "resnet50-build-eeeeeeeeee",
        "attempt": 1,
        "state": state,
        "created_at": ago(30),
    }
    return JobSeen(**(fields | changes))


def a_revision(name: str, *, ready: int = 1, desired: int = 1, **changes: Any) -> RevisionSeen:
    fields: dict[str, Any] = {"updated": desired, "replicas": desired, "current": True}
    return RevisionSeen(revision=name, desired=desired, ready=ready, **(fields | changes))


CANDIDATE_FIELDS = frozenset(item.name for item in fields(Candidate))


@dataclass(frozen=True)
class AnObserved:
    """What a pass saw; step by step the life of a model: pinned, prepared, built, serving."""

    seen: Observed

    def having(self, **changes: Any) -> "AnObserved":
        """With other fields, of the pass or of its current candidate."""
        inner = {name: value for name, value in changes.items() if name in CANDIDATE_FIELDS}
        outer = {name: value for name, value in changes.items() if name not in CANDIDATE_FIELDS}
        current = replace(self.seen.current, **inner)
        return replace(self, seen=replace(self.seen, **{"current": current, "candidates": (current,)} | outer))

    def with_model(self, model: AModel) -> "AnObserved":
        parsed = model.build()
        offered = self.seen.offers
        wanted = matching(parsed.spec.accelerator, offered, parsed.spec.build.targets.products or ())
        return self.having(model=parsed, matching=wanted)

    def tried(self, *candidates: Candidate) -> "AnObserved":
        """Every candidate of precision Auto, as the ladder would go on from them."""
        return self.having(current=ladder.chosen(self.seen.model, candidates), candidates=candidates)

    def with_nodes(self, *nodes: ANode) -> "AnObserved":
        offered = some_offers(*nodes)
        wanted = matching(self.seen.model.spec.accelerator, offered)
        return self.having(offers=offered, matching=wanted)

    def with_tenant(self, tenant: ATenant | None) -> "AnObserved":
        return self.having(tenant=None if tenant is None else tenant.build())

    def unpinned(self, trouble: Trouble | None = None) -> "AnObserved":
        return self.having(source=SourceSeen(None, trouble=trouble), revision=None, request_key=None)

    def unlisted(self) -> "AnObserved":
        """The operator may not list the source."""
        source = SourceSeen("", pinned_at=ago(300))
        return self.having(source=source, revision=keys.revision_name(self.seen.model, ""))

    def prepared(self, reason: Reason = Reason.DIGEST_RECORDED, **outcome: Any) -> "AnObserved":
        waiting = tuple(EngineSeen(offer, "e" * 64) for offer in self.seen.matching)
        return self.having(outcome=an_outcome(reason, **outcome), engines=waiting)

    def refused(self, reason: Reason, message: str = "the file is no model", **changes: Any) -> "AnObserved":
        """The prepare request ended for good."""
        return self.having(outcome=an_outcome(reason, message, **changes), engines=())

    def built(self, **manifest: Any) -> "AnObserved":
        after = self if self.seen.outcome else self.prepared()
        return after.having(
            engines=tuple(
                replace(engine, manifest=a_manifest(engine.offer.target, **manifest), signed=True)
                for engine in after.seen.engines
            )
        )

    def engine(self, index: int = 0, **changes: Any) -> "AnObserved":
        """Change one engine."""
        found = list(self.seen.engines)
        found[index] = replace(found[index], **changes)
        return self.having(engines=tuple(found))

    def deployed(self, *, ready: int = 1, **changes: Any) -> "AnObserved":
        """The target revision has its Deployment."""
        revision = a_revision(str(self.seen.revision), ready=ready, desired=self.seen.replicas, **changes)
        others = tuple(item for item in self.seen.revisions if item.revision != revision.revision)
        return self.having(revisions=(*others, revision))

    def old_serves(self, *, ready: int = 1, **changes: Any) -> "AnObserved":
        """Another revision has a Deployment and the Service's selector."""
        old = a_revision("resnet50-01d01d01", ready=ready, **changes)
        return self.having(revisions=(*self.seen.revisions, old), serving=old.revision)

    def serves(self, *, ready: int | None = None, **changes: Any) -> "AnObserved":
        """The target revision is up and selected."""
        up = self.deployed(ready=self.seen.replicas if ready is None else ready, **changes)
        return up.having(serving=up.seen.revision)

    def remembering(self, **conditions: tuple[str, str]) -> "AnObserved":
        """The status before this pass: condition=(status, reason), for this generation."""
        before = [
            {
                "type": name,
                "status": status,
                "reason": reason,
                "message": "before",
                "observedGeneration": self.seen.model.generation,
                "lastTransitionTime": stamp(ago(3600)),
            }
            for name, (status, reason) in conditions.items()
        ]
        body = self.seen.model.model_dump(mode="json", by_alias=True, exclude_none=True)
        body["status"] = {"conditions": before}
        return self.having(model=InferenceModel.model_validate(body))

    def build(self) -> Observed:
        return self.seen


def an_observed(model: AModel | None = None, *nodes: ANode) -> AnObserved:
    """A model whose source is pinned and whose prepare request has not been answered."""
    parsed = (model or a_model()).build()
    offered = some_offers(*nodes)
    return AnObserved(
        Observed(
            model=parsed,
            now=NOW,
            tenant=a_tenant().build(),
            offers=offered,
            matching=matching(parsed.spec.accelerator, offered, parsed.spec.build.targets.products or ()),
            source=SourceSeen(FINGERPRINT, 1000, ago(300)),
            revision=keys.revision_name(parsed, FINGERPRINT),
            current=a_candidate(parsed),
            candidates=(a_candidate(parsed),),
        )
    )


def a_candidate(model: InferenceModel, precision: str | None = None, **changes: Any) -> Candidate:
    """A request that has not been answered: for the precision that comes first, or another."""
    wanted = precision or ladder.following(model, ()) or "FP32"
    return replace(Candidate(keys.precision_ref(model, wanted), request_key="1" * 64), **changes)
