"""The status of an InferenceModel and of a Tenant, computed from what was seen and decided. Pure; one writer.

Called at the end of a pass by `reconcile`, which writes it only when it differs from what is there.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from enginery_store.reasons import Reason

from enginery_operator.api.v1alpha1 import API_VERSION, InferenceModel, Tenant
from enginery_operator.conditions import cut, merged, timestamp
from enginery_operator.decide import ladder
from enginery_operator.decide.engines import worst_accuracy
from enginery_operator.decide.seen import Decision, EngineSeen, JobSeen, Observed, Verdict
from enginery_operator.keys import UNLISTED
from enginery_operator.render import labels
from enginery_operator.render.service import urls

Status = dict[str, Any]

ENGINES_LIMIT = 32
"""Most entries of status.engines; the schema says the same."""


def model_status(seen: Observed, decision: Decision, before: Mapping[str, Any]) -> Status:
    """The whole status; `before` is the one that is there."""
    model = seen.model
    serving = seen.deployment(seen.serving)
    status: Status = {
        "observedGeneration": model.generation,
        "replicas": serving.replicas if serving else 0,
        "readyReplicas": serving.ready if serving else 0,
        "selector": f"{labels.MODEL}={model.name},{labels.COMPONENT}=runtime",
        "currentRevision": seen.serving if serving else None,
        "targetRevision": seen.revision or before.get("targetRevision"),
        "traffic": [{"revision": seen.serving, "percent": 100}] if serving and serving.ready else None,
        "source": _source(seen, before.get("source") or {}) or before.get("source"),
        "acceleratorSummary": _accelerator(model, seen),
        "conditions": merged(
            before.get("conditions", []), decision.conditions, generation=model.generation, now=seen.now
        ),
    }
    if seen.serving:
        status["url"] = next(iter(urls(model).values()))
        status["addresses"] = [{"name": name, "url": url} for name, url in urls(model).items()]
    status |= _results(seen, _earlier(seen, before))
    return {key: value for key, value in status.items() if value is not None}


def _source(seen: Observed, before: Mapping[str, Any]) -> Status | None:
    """The pin and what was found there; while the store is silent, what was found under the same pin before."""
    source = seen.source
    if source.fingerprint is None or source.pinned_at is None:
        return None
    found = {
        "uri": seen.model.spec.source.uri,
        "fingerprint": source.fingerprint or UNLISTED,
        "sizeBytes": source.size_bytes,
        "pinnedAt": timestamp(source.pinned_at),
    }
    if seen.proven is not None:
        found |= {"digest": seen.proven.source_digest, "sizeBytes": seen.proven.source_size_bytes}
    elif seen.current.outcome_trouble is not None and all(
        before.get(key) == found[key] for key in ("uri", "fingerprint")
    ):
        return dict(before)
    return {key: value for key, value in found.items() if value is not None}


def _accelerator(model: InferenceModel, seen: Observed) -> str:
    wanted = model.spec.accelerator
    if wanted.mode == "MIG":
        return f"mig-{wanted.profile}"
    if wanted.mode == "GPU":
        return "gpu"
    architectures = sorted({offer.target.architecture for offer in seen.matching})
    return f"cpu-{','.join(architectures)}" if architectures else "cpu"


def _earlier(seen: Observed, before: Mapping[str, Any]) -> Status:
    """What status said of engines. What another revision tried is not this one's, and would be remembered as such."""
    found = {key: before.get(key) for key in ("engines", "engineSummary", "precision", "accuracy")}
    if found["precision"] and seen.revision not in {None, before.get("targetRevision")}:
        found["precision"] = {key: value for key, value in found["precision"].items() if key != "tried"} or None
    return found


def _results(seen: Observed, earlier: Status) -> Status:
    """engines, their summary, precision and accuracy. The earlier word stands while no engine is known, or the store
    does not answer for one.
    """
    troubles = [
        trouble
        for candidate in seen.candidates
        for trouble in (candidate.outcome_trouble, *(engine.trouble for engine in candidate.engines))
    ]
    if earlier["engines"] and any(trouble is not None and trouble.passing for trouble in troubles):
        return earlier
    found = _engines(seen) if seen.engines else earlier
    if rows := ladder.tried(seen):
        found["precision"] = (found.get("precision") or {}) | {"tried": [_tried(*row) for row in rows]}
    return found


def _engines(seen: Observed) -> Status:
    ready = [engine.manifest for engine in seen.engines if engine.manifest is not None]
    found: Status = {
        "engines": [_engine(engine) for engine in _listed(seen.engines)],
        "engineSummary": f"{len(ready)}/{len(seen.engines)}",
    }
    if ready:
        found["precision"] = {"effective": ready[0].precision_effective}
    if (worst := worst_accuracy(seen.engines)) is not None:
        found["accuracy"] = worst.model_dump(by_alias=True, exclude={"measured_on"})
    return found


def _tried(row: ladder.Row, serves: bool) -> Status:
    found: Status = {"type": row.type, "accepted": serves, "reason": row.reason}
    return found | ({} if row.latency is None else {"p99Milliseconds": str(row.latency)})


def _listed(engines: tuple[EngineSeen, ...]) -> list[EngineSeen]:
    """By target; of more than the schema allows, those that are not ready first: they are what people look for."""
    chosen = sorted(engines, key=lambda item: item.manifest is not None)[:ENGINES_LIMIT]
    return sorted(chosen, key=lambda item: item.offer.target.name)


def _engine(engine: EngineSeen) -> Status:
    entry: Status = {"target": engine.offer.target.name, "key": f"sha256:{engine.key}", "state": _state(engine)}
    if (manifest := engine.manifest) is not None:
        entry |= {
            "digest": f"sha256:{manifest.file.sha256}",
            "signature": "Verified" if engine.signed else "Unsigned",
            "backendVersion": f"{manifest.backend} {manifest.backend_version}",
            "sizeBytes": manifest.file.size_bytes,
            "deviceMemoryBytes": manifest.device_memory_bytes,
            "buildSeconds": manifest.build_seconds,
            "latency": [record.model_dump(by_alias=True, exclude={"profile"}) for record in manifest.latency][:16],
        }
        if manifest.device.driver_version:
            entry["driverVersion"] = manifest.device.driver_version
        if manifest.device.multiprocessors:
            entry["multiprocessors"] = manifest.device.multiprocessors
    if (failure := _failure(engine)) is not None:
        entry["lastFailure"] = failure
    return entry


def _state(engine: EngineSeen) -> str:
    if engine.manifest is not None:
        return "Ready"
    if engine.failure is not None or (engine.trouble is not None and not engine.trouble.passing):
        return "Failed"
    if engine.job is None:
        return "Pending"
    return "Building" if engine.job.active or engine.job.state == "Succeeded" else "Failed"


def _failure(engine: EngineSeen) -> Status | None:
    if engine.manifest is not None:
        return None
    if (outcome := engine.failure) is not None:
        return {
            "reason": outcome.reason.value,
            "message": cut(outcome.message),
            "exitCode": outcome.exit_code,
            "time": timestamp(outcome.finished_at),
            "attempts": engine.job.attempt if engine.job else 1,
        }
    job = engine.job
    if job is None or job.trouble is None or job.state not in {"Failed", "Suspended"}:
        return None
    return _job_failure(job)


def _job_failure(job: JobSeen) -> Status:
    trouble = job.trouble
    found: Status = {
        "reason": trouble.reason.value if trouble else Reason.BUILD_FAILED.value,
        "message": cut(trouble.message) if trouble else "",
        "time": timestamp(job.finished_at or job.created_at),
        "attempts": job.attempt,
    }
    return found | ({"exitCode": job.exit_code} if job.exit_code is not None else {})


def unfit_status(body: Mapping[str, Any], fault: str, now: datetime) -> tuple[Status, dict[str, Verdict]]:
    """Status of an object that fits no type of this version: what is known stays, and Ready says what is wrong."""
    before, generation = body.get("status", {}), int(body["metadata"]["generation"])
    verdict = Verdict(
        "False", Reason.INVALID_SPEC, f"{fault}; correct it, or upgrade the operator to the CRDs' version"
    )
    verdicts = {"Accepted": verdict, "Ready": verdict}
    others = [item for item in before.get("conditions", []) if item["type"] not in verdicts]
    fresh = merged(before.get("conditions", []), verdicts, generation=generation, now=now)
    return {**before, "observedGeneration": generation, "conditions": [fresh[0], *others, fresh[1]]}, verdicts


def tenant_status(
    tenant: Tenant,
    verdicts: Mapping[str, Verdict],
    bound: list[str],
    models: tuple[int, int],
    before: Mapping[str, Any],
    *,
    now: Any,
) -> Status:
    """The status of a Tenant."""
    return {
        "observedGeneration": tenant.generation,
        "namespaces": bound,
        "models": {"total": models[0], "ready": models[1]},
        "conditions": merged(before.get("conditions", []), verdicts, generation=tenant.generation, now=now),
    }


def status_object(body: Mapping[str, Any], kind: str, status: Status) -> dict[str, Any]:
    """What is applied to the status subresource. An object that was made again under this name gets a pass of its
    own, which sets right what one that was under way wrote: the API server compares no uid for a status.
    """
    metadata = {key: body["metadata"][key] for key in ("name", "namespace") if key in body["metadata"]}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "status": status}
