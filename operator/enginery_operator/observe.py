"""Gathers everything one pass decides on into one frozen `Observed`: from the watches' cache and the model store.

Called by `reconcile` only. A store outage is an observation (Trouble), never an exception.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import datetime

from enginery_store.reasons import Reason
from enginery_store.requests import PrecisionRef, StoreAccess

from enginery_operator import keys
from enginery_operator.api.v1alpha1 import InferenceModel, Tenant
from enginery_operator.backends import fitting, missing_images
from enginery_operator.cache import Cache
from enginery_operator.decide import ladder
from enginery_operator.decide.accept import locations, source_is_allowed
from enginery_operator.decide.seen import Candidate, EngineSeen, JobSeen, Observed, RevisionSeen, SourceSeen
from enginery_operator.render import labels
from enginery_operator.settings import Settings
from enginery_operator.stored import ModelStore
from enginery_operator.targets import Offer, matching
from enginery_operator.tenancy import in_foreign_prefix, jobs_of, tenant_of
from enginery_operator.workloads import job_seen, parse_time, pod_refused, revision_seen

WhyNoPod = Callable[[str, str], Awaitable[str | None]]
"""Says of a Job (namespace, name) that has no pod why it got none."""

POD_SECONDS = 5
"""A Job has its first pod within this time, unless something refuses it."""


async def _unknown(namespace: str, job: str) -> str | None:  # noqa: ARG001 - a WhyNoPod
    return None


async def observe(
    model: InferenceModel,
    *,
    cache: Cache,
    store: ModelStore,
    settings: Settings,
    now: datetime,
    why_no_pod: WhyNoPod = _unknown,
) -> Observed:
    """One model as it stands now."""
    tenant = tenant_of(model.namespace, cache, settings)
    selector, products = tenant.spec.scheduling.node_selector if tenant else None, model.spec.build.targets.products
    offered = cache.offers(selector)
    wanted = matching(model.spec.accelerator, offered, products or ())
    source, candidates = SourceSeen(None), [_first(model)]
    if tenant is not None:
        resting = matching(model.spec.accelerator, cache.offers(selector, resting=True), products or ())
        targets = _Targets(fitting(model, wanted), fitting(model, resting))
        access = keys.store_access(tenant, settings)
        look = _Look(model, tenant, access, cache, store, settings, now, why_no_pod, targets)
        source, candidates = await look.candidates()
    fingerprint, revisions = source.fingerprint, _revisions(model, cache)
    return Observed(
        model=model,
        now=now,
        tenant=tenant,
        offers=offered,
        matching=wanted,
        source=source,
        revision=None if fingerprint is None else keys.revision_name(model, fingerprint),
        current=ladder.chosen(model, candidates),
        candidates=tuple(candidates),
        foreign=_foreign(model, tenant, cache),
        missing_images=missing_images(model, settings.images),
        revisions=revisions,
        serving=_serving(model, cache, revisions),
        recheck_seconds=settings.jobs.recheck_seconds,
        retry_base_seconds=settings.jobs.retry_base_seconds,
        start_deadline_seconds=settings.jobs.start_deadline_seconds,
    )


def _first(model: InferenceModel) -> Candidate:
    """The first candidate before anything is known of it."""
    return Candidate(keys.precision_ref(model, ladder.following(model, ()) or model.spec.precision.type))


def _foreign(model: InferenceModel, tenant: Tenant | None, cache: Cache) -> frozenset[str]:
    if tenant is None:
        return frozenset()
    return frozenset(field for field, uri in locations(model).items() if in_foreign_prefix(tenant, uri, cache))


@dataclass(frozen=True)
class _Targets:
    """What engines are for: kinds of slices that nodes offer now, and those that resting nodes would."""

    wanted: tuple[Offer, ...]
    existing: tuple[Offer, ...]


@dataclass(frozen=True)
class _Look:
    """One pass's look at the store, for one model of one tenant."""

    model: InferenceModel
    tenant: Tenant
    access: StoreAccess
    cache: Cache
    store: ModelStore
    settings: Settings
    now: datetime
    why_no_pod: WhyNoPod
    targets: _Targets

    async def candidates(self) -> tuple[SourceSeen, list[Candidate]]:
        """The pinned source, and every precision that is tried on it: another one only when what is stored of those
        before it asks for it.
        """
        source, first = await self._pinned_first()
        found = [first]
        while source.fingerprint is not None and (precision := ladder.following(self.model, found)) is not None:
            found.append(await self._candidate(source.fingerprint, keys.precision_ref(self.model, precision)))
        return source, found

    async def _pinned_first(self) -> tuple[SourceSeen, Candidate]:
        """The first candidate under the pinned listing; one that failed is asked again once the listing differs: that
        may be why, and then no attempt under the old pin can succeed.
        """
        first = _first(self.model)
        pinned = _pinned(self.model)
        source = pinned or await self._list()
        if source.fingerprint is None:
            return source, first
        asked = await self._candidate(source.fingerprint, first.precision)
        if pinned is None or not pinned.fingerprint or asked.failure is None:
            return source, asked
        fresh = await self._list()
        if not fresh.fingerprint or fresh.fingerprint == pinned.fingerprint:
            return source, asked
        return fresh, await self._candidate(fresh.fingerprint, first.precision)

    async def _list(self) -> SourceSeen:
        source = self.model.spec.source
        if source.credentials_secret_ref is not None or not source.uri.startswith("s3://"):
            # The operator reads no tenant Secret: only the builder can look.
            return SourceSeen("", pinned_at=self.now)
        if not source_is_allowed(self.tenant, source.uri) or in_foreign_prefix(self.tenant, source.uri, self.cache):
            # The operator can list what this tenant may not, and would tell its size: the condition Accepted answers.
            return SourceSeen(None)
        listing = await self.store.listing(self.access, source.uri)
        return SourceSeen(listing.fingerprint, listing.size_bytes, self.now, listing.trouble)

    async def _candidate(self, fingerprint: str, precision: PrecisionRef) -> Candidate:
        """What is stored of a request, the Job at work on it and, once the model is prepared, its engines. An answer
        whose prepared model is gone counts as none.
        """
        prefix = self.tenant.spec.store.prefix
        key = keys.request_key(self.model, fingerprint, prefix, precision)
        outcome, trouble = await self.store.outcome(self.access, prefix, key)
        job = await self._job(key, Reason.CONVERSION_FAILED)
        asked = Candidate(precision, key, outcome, trouble, job, given_up=self._given_up(fingerprint, precision.type))
        if outcome is None or outcome.failed:
            return asked
        engines = await self._engines(outcome.prepared_key)
        if await self._is_gone(outcome.prepared_key, engines):
            return replace(asked, outcome=None)
        return replace(asked, engines=engines)

    def _given_up(self, fingerprint: str, precision: str) -> Reason | None:
        """What status of this very revision says against a precision that Auto tried."""
        status = self.model.status
        if status is None or status.target_revision != keys.revision_name(self.model, fingerprint):
            return None
        tried = (status.precision.tried if status.precision else None) or []
        found = next((item.reason for item in tried if item.type == precision and not item.accepted), None)
        return Reason(found) if found in ladder.UNRECORDED else None

    async def _engines(self, prepared: str) -> tuple[EngineSeen, ...]:
        """What is stored and who works, for every target.

        An engine that was ready stays while the last node of its kind rests: pods know every engine of their revision,
        so leaving one out for a drained node, and taking it in again, would roll all pods twice.
        """
        wanted, names = self.targets.wanted, {offer.target.name for offer in self.targets.wanted}
        resting = [
            offer
            for offer in self.targets.existing
            if offer.target.name not in names and self._was_ready(offer, prepared)
        ]
        found = await asyncio.gather(*(self._engine(offer, prepared) for offer in (*wanted, *resting)))
        kept = [
            item
            for item in found
            if item.offer.target.name in names or item.manifest is not None or item.trouble is not None
        ]
        return tuple(sorted(kept, key=lambda item: item.offer.target.name))

    def _was_ready(self, offer: Offer, prepared: str) -> bool:
        """Whether status tells of this very engine; one that would have to be built waits for its node.

        Of Auto's candidates it tells of the one that serves: the others were compared on the same targets.
        """
        known = (self.model.status.engines if self.model.status else None) or []
        key = f"sha256:{keys.engine_key(self.model, prepared, offer, self.settings)}"
        auto, name = self.model.spec.precision.type == "Auto", offer.target.name
        return any(item.state == "Ready" and (item.key == key or (auto and item.target == name)) for item in known)

    async def _is_gone(self, prepared: str, engines: tuple[EngineSeen, ...]) -> bool:
        """Whether something must be built and what to build it from was removed: then prepare it again."""
        if all(engine.manifest is not None or engine.failure is not None for engine in engines):
            return False
        return not await self.store.prepared(self.access, self.tenant.spec.store.prefix, prepared)

    async def _engine(self, offer: Offer, prepared: str) -> EngineSeen:
        key = keys.engine_key(self.model, prepared, offer, self.settings)
        prefix, public_keys = self.tenant.spec.store.prefix, tuple(self.tenant.spec.store.public_keys or ())
        job = await self._job(key, Reason.BUILD_FAILED)
        stored = await self.store.engine(self.access, prefix, key, public_keys)
        if stored is not None:
            return EngineSeen(offer, key, stored.manifest, signed=stored.signed, job=job, trouble=stored.trouble)
        failure, trouble = await self.store.outcome(self.access, prefix, key)
        return EngineSeen(offer, key, failure=failure, job=job, trouble=trouble)

    async def _job(self, key: str, stage_failure: Reason) -> JobSeen | None:
        """The Job that speaks for a key: one at work before any other, then the latest attempt."""
        seen = [
            job_seen(
                job,
                self.cache.pods_of_job(job["metadata"]["namespace"], job["metadata"]["name"]),
                stage_failure=stage_failure,
            )
            for job in jobs_of(self.tenant, key[: labels.KEY_LENGTH], self.cache, self.settings)
            if not job["metadata"].get("deletionTimestamp")
        ]
        job = max(seen, key=lambda job: (job.active, job.attempt, job.created_at), default=None)
        if job is None or job.state != "Waiting" or job.waiting_since is not None or job.trouble is not None:
            return job
        if (self.now - job.created_at).total_seconds() < POD_SECONDS:
            return job
        note = await self.why_no_pod(job.namespace, job.name)
        return replace(job, podless=True, trouble=None if note is None else pod_refused(note))


def _pinned(model: InferenceModel) -> SourceSeen | None:
    """The pin in status, as long as the spec means the same source."""
    recorded, source = model.status.source if model.status else None, model.spec.source
    if recorded is None or recorded.fingerprint is None or recorded.uri != source.uri or recorded.pinned_at is None:
        return None
    if source.digest and recorded.digest and source.digest != recorded.digest:
        return None
    unlisted = recorded.fingerprint == keys.UNLISTED
    if source.credentials_secret_ref is not None and not unlisted:
        return None
    fingerprint = "" if unlisted else recorded.fingerprint
    return SourceSeen(fingerprint, recorded.size_bytes, parse_time(recorded.pinned_at))


def _serving(model: InferenceModel, cache: Cache, revisions: tuple[RevisionSeen, ...]) -> str | None:
    """What the Service selects; should somebody delete it or turn it to nothing, what status says it selected."""
    service = cache.service(model.namespace, model.name)
    before = model.status.current_revision if model.status else None
    if service is None:
        return before
    if not labels.is_of(service, model):
        return None
    selected: str | None = service["spec"].get("selector", {}).get(labels.REVISION)
    there = {item.revision for item in revisions}
    return before if selected not in there and before in there else selected


def _revisions(model: InferenceModel, cache: Cache) -> tuple[RevisionSeen, ...]:
    return tuple(
        revision_seen(item, cache.pods_of_revision(model.namespace, item["metadata"]["name"]))
        for item in cache.deployments(model.namespace, model.name)
        if not item["metadata"].get("deletionTimestamp") and labels.is_of(item, model)
    )
