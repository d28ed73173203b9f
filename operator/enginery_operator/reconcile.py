"""The story of one pass: observe, decide, act, tell. Safe to repeat; killed anywhere, it does nothing twice.

Called by the work queue for whichever object was touched. The work itself is in the modules below this one.
"""

import hashlib
import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from enginery_store.reasons import Reason
from pydantic import ValidationError

from enginery_operator import keys, tenancy
from enginery_operator.api.v1alpha1 import API_VERSION, InferenceModel, Tenant
from enginery_operator.cache import Cache
from enginery_operator.cluster import Cluster
from enginery_operator.conditions import Transition, timestamp, transitions
from enginery_operator.decide import decide
from enginery_operator.decide.seen import Decision, JobSeen, JobStep, Observed, Trouble
from enginery_operator.drift import holds
from enginery_operator.errors import ClusterError, RefusedError
from enginery_operator.observe import observe
from enginery_operator.render import labels
from enginery_operator.render.deployment import deployment
from enginery_operator.render.job import build_job, prepare_job
from enginery_operator.render.service import service
from enginery_operator.settings import Settings
from enginery_operator.status import model_status, status_object, tenant_status, unfit_status
from enginery_operator.stored import ModelStore
from enginery_operator.workloads import SUSPENDED_FOR, is_at_work
from enginery_operator.workqueue import Claims, Interest, Key

_log = logging.getLogger(__name__)

NOTE_BYTES = 1024
"""Longest note of an Event that the API server takes."""

UNFIT = "object does not fit the API types; is the CRD of another version?"
"""What is logged of an object that is left alone."""


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True)
class Context:
    """Everything a pass needs; built once in `__main__` and handed to every handler."""

    settings: Settings
    cluster: Cluster
    store: ModelStore
    cache: Cache
    clock: Callable[[], datetime] = _now
    interest: Interest = field(default_factory=Interest)
    """Which models wait for which request or engine key (as in labels): a Job may work for several."""
    claims: Claims = field(default_factory=Claims)
    """Jobs that were created and that the watch has not shown yet."""


async def reconcile(key: Key, ctx: Context) -> float | None:
    """One pass over the object `key` names; seconds until the next, None when it is gone."""
    if key.kind == Tenant.KIND:
        return await reconcile_tenant(key.name, ctx)
    return await reconcile_model(key, ctx)


async def reconcile_model(key: Key, ctx: Context) -> float | None:
    """One pass over an InferenceModel."""
    body = ctx.cache.model(key.namespace, key.name)
    if body is None or body["metadata"].get("deletionTimestamp") or ctx.cache.is_going(key.namespace):
        ctx.interest.set(key, set())
        return None
    try:
        model = InferenceModel.model_validate(body)
    except ValidationError as error:
        return await _tell_unfit(body, error, ctx)
    seen = await observe(
        model,
        cache=ctx.cache,
        store=ctx.store,
        settings=ctx.settings,
        now=ctx.clock(),
        why_no_pod=ctx.cluster.why_no_pod,
    )
    _remember_interest(key, seen, ctx)
    decision = decide(seen)
    refusal = await _act(seen, decision, ctx)
    if refusal is not None:
        seen = replace(seen, refusal=refusal)
        decision = decide(seen)
    before = body.get("status", {})
    await _tell(body, InferenceModel.KIND, model_status(seen, decision, before), decision, ctx)
    return _next_pass(seen, decision, refusal, ctx.settings)


async def _tell_unfit(body: dict[str, Any], error: ValidationError, ctx: Context) -> float:
    """A model whose stored spec fits no type: an older operator, or a CRD that somebody loosened."""
    first = error.errors()[0]
    fault = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    _log.error(UNFIT, extra={"model": body["metadata"]["name"], "fault": fault})
    status, verdicts = unfit_status(body, fault, ctx.clock())
    await _tell(body, InferenceModel.KIND, status, Decision(conditions=verdicts), ctx)
    return float(ctx.settings.resync_seconds)


async def _act(seen: Observed, decision: Decision, ctx: Context) -> Trouble | None:
    """Carry out a decision. The first refusal by admission or quota is returned and shown.

    What goes makes room, and so goes first; a refused Job holds up no rollout, as a Stopped model may need a Job.
    """
    refused: RefusedError | None = None
    for act in (_let_go, _work_on_jobs, _roll_out):
        try:
            await act(seen, decision, ctx)
        except RefusedError as error:
            refused = refused or error
    if refused is None:
        return None
    reason = Reason.QUOTA_EXCEEDED if "exceeded quota" in refused.message else Reason.CONFIG_ERROR
    return Trouble(reason, refused.message, passing=True)


async def _let_go(seen: Observed, decision: Decision, ctx: Context) -> None:
    for revision in decision.rollout.remove:
        await ctx.cluster.delete("Deployment", seen.model.namespace, revision)
    for job in _unwanted_jobs(seen, ctx):
        await ctx.cluster.delete("Job", job["metadata"]["namespace"], job["metadata"]["name"])


def _keys(seen: Observed, *, built: bool) -> set[str]:
    """Requests and engines (those that are built, or not) of every precision that is tried, as labels hold them."""
    found = [
        name
        for item in (seen.current, *seen.candidates)
        for name in (item.request_key, *(engine.key for engine in item.engines if built or engine.manifest is None))
    ]
    return {name[: labels.KEY_LENGTH] for name in found if name is not None}


def _unwanted_jobs(seen: Observed, ctx: Context) -> list[dict[str, Any]]:
    """Jobs at work for a revision that nobody asks for any more: they would take slices from the one that is wanted.

    A build is left alone while the wanted engine keys are not known: it may well be one of them.
    """
    model = seen.model
    me = Key(InferenceModel.KIND, model.namespace, model.name)
    wanted = _keys(seen, built=True)
    return [
        job
        for job in ctx.cache.jobs_of_model(model.namespace, model.name)
        if seen.revision is not None
        and is_at_work(job)
        and labels.is_of(job, model)
        and labels.revision(job) != seen.revision
        and (labels.component(job) == "prepare" or bool(seen.engines))
        and labels.work(job)[1] not in wanted
        and not ctx.interest.of(labels.work(job)[1]) - {me}
    ]


async def _work_on_jobs(seen: Observed, decision: Decision, ctx: Context) -> None:
    model, tenant, settings = seen.model, seen.tenant, ctx.settings
    if tenant is None or seen.revision is None:
        return
    current = seen.current
    if (attempt := decision.prepare.create_attempt) is not None and current.request_key is not None:
        job = prepare_job(
            model, tenant, settings, key=current.request_key, precision=current.precision, attempt=attempt,
            revision=seen.revision, fingerprint=seen.source.fingerprint or "",
        )  # fmt: skip
        await _step(decision.prepare, job, model, tenant, ctx)
    elif decision.prepare.suspend is not None:
        await _suspend(decision.prepare.suspend, ctx)
    for engine, step in decision.builds:
        if step.create_attempt is not None and current.outcome is not None:
            job = build_job(
                model, tenant, settings, engine=engine, prepared=current.outcome.prepared_key,
                precision=current.precision, attempt=step.create_attempt, revision=seen.revision,
            )  # fmt: skip
            await _step(step, job, model, tenant, ctx)
        elif step.suspend is not None:
            await _suspend(step.suspend, ctx)


async def _foreign(wanted: dict[str, Any], model: InferenceModel, ctx: Context) -> str | None:
    """Why an object that has our name is not ours; None when it is ours, or is gone by now."""
    kind, metadata = wanted["kind"], wanted["metadata"]
    found = await ctx.cluster.get(kind, metadata["namespace"], metadata["name"])
    return None if found is None else labels.why_not_of(kind, found, model)


async def _step(step: JobStep, job: dict[str, Any], model: InferenceModel, tenant: Tenant, ctx: Context) -> None:
    """Create the next attempt before the last one goes, so that the count is never lost; not if another model of the
    tenant has begun the same work since this pass looked: its Job's event leads to another pass.
    """
    metadata, work = job["metadata"], labels.work(job)
    if _is_begun(work, tenant, ctx) or not ctx.claims.take(
        work, Key(InferenceModel.KIND, metadata["namespace"], metadata["labels"][labels.MODEL])
    ):
        return
    try:
        created = await ctx.cluster.create_once(job)
    except RefusedError:
        ctx.claims.drop(work)
        raise
    if not created and (refusal := await _foreign(job, model, ctx)) is not None:
        ctx.claims.drop(work)
        raise RefusedError(refusal)
    if created:
        _log.info("created job", extra={"namespace": job["metadata"]["namespace"], "job": job["metadata"]["name"]})
    if step.remove is not None:
        await ctx.cluster.delete("Job", step.remove.namespace, step.remove.name)


def _is_begun(work: tuple[str, str, str], tenant: Tenant, ctx: Context) -> bool:
    """Whether the watch has shown a Job for this work by now."""
    return any(
        labels.work(job) == work and not job["metadata"].get("deletionTimestamp")
        for job in tenancy.jobs_of(tenant, work[1], ctx.cache, ctx.settings)
    )


async def _suspend(job: JobSeen, ctx: Context) -> None:
    """Give back the place of a pod that cannot start; the Job stays as the record of why."""
    why = f"{job.trouble.reason.value}: {job.trouble.message[:500]}" if job.trouble else "ConfigError: cannot start"
    change = {"metadata": {"annotations": {SUSPENDED_FOR: why}}, "spec": {"suspend": True}}
    await ctx.cluster.patch("Job", job.namespace, job.name, change)


async def _roll_out(seen: Observed, decision: Decision, ctx: Context) -> None:
    model, tenant, plan = seen.model, seen.tenant, decision.rollout
    if tenant is None:
        return
    if plan.deploy and seen.revision is not None:
        wanted = deployment(
            model, tenant, ctx.settings, engines=seen.engines, revision=seen.revision, replicas=seen.replicas
        )
        there = {item["metadata"]["name"]: item for item in ctx.cache.deployments(model.namespace, model.name)}
        await _apply(wanted, there.get(seen.revision), model, ctx)
    if plan.select is not None:
        await _apply(service(model, tenant, plan.select), ctx.cache.service(model.namespace, model.name), model, ctx)


async def _apply(wanted: dict[str, Any], there: dict[str, Any] | None, model: InferenceModel, ctx: Context) -> None:
    """Write what differs from the watched object; where none is watched, one without our labels may have the name."""
    refusal = (
        labels.why_not_of(wanted["kind"], there, model) if there is not None else await _foreign(wanted, model, ctx)
    )
    if refusal is not None:
        raise RefusedError(refusal)
    if there is not None and holds(there, {key: wanted[key] for key in ("metadata", "spec")}):
        return
    await ctx.cluster.apply(wanted)


async def _tell(body: dict[str, Any], kind: str, status: dict[str, Any], decision: Decision, ctx: Context) -> None:
    """Write the status when it differs, and one Event per transition."""
    before = body.get("status", {})
    if status == before:
        return
    ctx.cache.wrote(await ctx.cluster.apply_status(status_object(body, kind, status)))
    for change in transitions(before.get("conditions", []), decision.conditions):
        await _post_event(body, kind, change, ctx)


async def _post_event(body: dict[str, Any], kind: str, change: Transition, ctx: Context) -> None:
    """An Event helps people and decides nothing: a refused one is logged and forgotten."""
    metadata, verdict, now = body["metadata"], change.verdict, ctx.clock()
    identity = f"{metadata['uid']}{change.type}{verdict.reason}{verdict.status}{timestamp(now)}"
    namespace = metadata.get("namespace", "default")
    event = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {
            "name": f"{metadata['name']}.{hashlib.sha256(identity.encode()).hexdigest()[:16]}",
            "namespace": namespace,
        },
        "eventTime": now.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "reportingController": "enginery.io/operator",
        "reportingInstance": ctx.settings.namespace,
        "action": change.type,
        "reason": verdict.reason.value,
        "note": _note(change),
        "type": "Warning" if verdict.failed and verdict.reason not in _CALM else "Normal",
        "regarding": {
            "apiVersion": API_VERSION,
            "kind": kind,
            "name": metadata["name"],
            "namespace": metadata.get("namespace", ""),
            "uid": metadata["uid"],
        },
    }
    try:
        await ctx.cluster.create_once(event)
    except ClusterError as error:
        _log.warning("event not posted", extra={"model": metadata["name"], "error": error.message})


def _note(change: Transition) -> str:
    """The API server calls them characters and counts bytes: words in other scripts have twice as many, or more."""
    text = f"{change.type}={change.verdict.status}: {change.verdict.message}"
    return text.encode()[:NOTE_BYTES].decode(errors="ignore")


_CALM = frozenset({Reason.BUILDING, Reason.COMPLETE, Reason.STOPPED, Reason.ROLLOUT_IN_PROGRESS, Reason.NO_REPLICAS})
"""False conditions that are the way of things and no warning."""


def _remember_interest(key: Key, seen: Observed, ctx: Context) -> None:
    ctx.interest.set(key, _keys(seen, built=False))


def _next_pass(seen: Observed, decision: Decision, refusal: Trouble | None, settings: Settings) -> float:
    """Sooner than the resync where something is known to change: a pause that ends, a store that is silent."""
    delay = float(settings.resync_seconds)
    silent = seen.source.trouble or seen.current.outcome_trouble or refusal
    if silent is not None or any(engine.trouble is not None for engine in seen.engines):
        delay = min(delay, settings.jobs.retry_base_seconds)
    if seen.outcome is not None and seen.outcome.failed:
        delay = min(delay, settings.jobs.source_poll_seconds)
    if decision.requeue_seconds is not None:
        delay = min(delay, max(decision.requeue_seconds, 1.0))
    return delay


async def reconcile_tenant(name: str, ctx: Context) -> float | None:
    """One pass over a Tenant."""
    body = ctx.cache.tenant_body(name)
    if body is None or body["metadata"].get("deletionTimestamp"):
        return None
    try:
        tenant = Tenant.model_validate(body)
    except ValidationError:
        _log.exception(UNFIT, extra={"key": {"kind": Tenant.KIND, "name": name}})
        return float(ctx.settings.resync_seconds)
    reach = await ctx.store.reach(keys.store_access(tenant, ctx.settings), tenant.spec.store.prefix)
    verdicts, bound = tenancy.judge(tenant, ctx.cache, ctx.settings, reach)
    models = tenancy.tenant_models(bound, ctx.cache)
    status = tenant_status(tenant, verdicts, bound, models, body.get("status", {}), now=ctx.clock())
    await _tell(body, Tenant.KIND, status, Decision(conditions=verdicts), ctx)
    return float(ctx.settings.resync_seconds if reach is None else ctx.settings.jobs.retry_base_seconds)
