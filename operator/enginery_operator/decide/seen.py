"""What one pass saw and what it decided: frozen values between `observe`, the checks, `render` and `status`. Pure."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from enginery_store.manifest import EngineManifest
from enginery_store.reasons import Reason
from enginery_store.requests import Outcome, PrecisionRef

from enginery_operator.api.v1alpha1 import InferenceModel, Tenant
from enginery_operator.targets import Offer


@dataclass(frozen=True)
class Trouble:
    """Something is wrong: a reason, a sentence, and whether it passes by itself."""

    reason: Reason
    message: str
    passing: bool = False


@dataclass(frozen=True)
class SourceSeen:
    """What a listing of the source said, and what the revision is pinned to.

    `fingerprint` is None while nothing is pinned (the source is missing, or the store is silent), and empty when the
    operator may not list the source: then the builder's credentials decide.
    """

    fingerprint: str | None
    size_bytes: int | None = None
    pinned_at: datetime | None = None
    trouble: Trouble | None = None


@dataclass(frozen=True)
class JobSeen:
    """A builder Job as it stands, its pod's word included."""

    namespace: str
    name: str
    attempt: int
    state: Literal["Waiting", "Running", "Succeeded", "Failed", "Suspended"]
    created_at: datetime
    waiting_since: datetime | None = None
    """Since when the container that waits could have started: the pod was made, or the one before it ended. None while
    there is no pod that waits."""
    finished_at: datetime | None = None
    """When it succeeded, failed or, for a Job of ours that could not start, was suspended."""
    trouble: Trouble | None = None
    """For a failed Job why; for a waiting one what keeps its pod from starting."""
    exit_code: int | None = None
    podless: bool = False
    """It has had no pod for longer than making one takes; `trouble` says why, where that is known."""

    @property
    def active(self) -> bool:
        """Whether it may still produce something."""
        return self.state in {"Waiting", "Running"}


@dataclass(frozen=True)
class EngineSeen:
    """One target of the target revision: what is stored, and who works on it."""

    offer: Offer
    key: str
    manifest: EngineManifest | None = None
    signed: bool = False
    failure: Outcome | None = None
    job: JobSeen | None = None
    trouble: Trouble | None = None
    """The store could not be asked, or what is stored does not verify."""


@dataclass(frozen=True)
class Candidate:
    """One precision of the model: what its prepare request led to, and its engines. Auto may have several, any other
    type has one.
    """

    precision: PrecisionRef
    request_key: str | None = None
    """None while the source is not pinned."""
    outcome: Outcome | None = None
    outcome_trouble: Trouble | None = None
    prepare_job: JobSeen | None = None
    engines: tuple[EngineSeen, ...] = ()
    given_up: Reason | None = None
    """Why status says this revision does without it: what a Job told that may be gone by now."""

    @property
    def failure(self) -> Trouble | None:
        """What its prepare request ended with, by the stored outcome or else by the Job's word."""
        if self.outcome is not None:
            return Trouble(self.outcome.reason, self.outcome.message) if self.outcome.failed else None
        job = self.prepare_job
        return job.trouble if job is not None and job.state == "Failed" else None


@dataclass(frozen=True)
class RevisionSeen:
    """A Deployment of the model, whichever revision it is of."""

    revision: str
    desired: int
    ready: int
    updated: int
    replicas: int
    current: bool
    """Whether the Deployment's controller has acted on the latest template."""
    deadline_exceeded: bool = False
    trouble: Trouble | None = None
    """What keeps its pods from being ready."""


@dataclass(frozen=True)
class Observed:
    """Everything a decision may depend on."""

    model: InferenceModel
    now: datetime
    tenant: Tenant | None
    offers: tuple[Offer, ...]
    """Every kind of slice that exists."""
    matching: tuple[Offer, ...]
    """Those the model asks for."""
    source: SourceSeen
    revision: str | None
    """Name of the revision the spec asks for; None while the source is not pinned."""
    current: Candidate
    """What serves, or is being made ready to serve."""
    candidates: tuple[Candidate, ...] = ()
    """Everything tried, in the order it was; `current` is one of them."""
    foreign: frozenset[str] = frozenset()
    """Fields of the spec whose locations lie in another tenant's part of the store."""
    missing_images: tuple[str, ...] = ()
    """Chart values of images that this model needs and the installation does not set."""
    revisions: tuple[RevisionSeen, ...] = ()
    serving: str | None = None
    """Revision the Service selects."""
    recheck_seconds: int = 600
    retry_base_seconds: int = 20
    start_deadline_seconds: int = 600
    refusal: Trouble | None = None
    """The API server refused one of our objects in the last pass."""

    @property
    def outcome(self) -> Outcome | None:
        """What the current candidate's prepare request led to."""
        return self.current.outcome

    @property
    def proven(self) -> Outcome | None:
        """What a prepare request that succeeded found out about the source, which all candidates share."""
        outcomes = (candidate.outcome for candidate in (self.current, *self.candidates))
        return next((outcome for outcome in outcomes if outcome is not None and not outcome.failed), None)

    @property
    def prepare_job(self) -> JobSeen | None:
        """Who works on that request."""
        return self.current.prepare_job

    @property
    def engines(self) -> tuple[EngineSeen, ...]:
        """The current candidate's engines, one per target."""
        return self.current.engines

    @property
    def replicas(self) -> int:
        """Replicas the spec asks for."""
        serving = self.model.spec.serving
        if serving.scaling is not None:
            return serving.scaling.min_replicas
        return 1 if serving.replicas is None else serving.replicas

    def deployment(self, revision: str | None) -> RevisionSeen | None:
        """The Deployment of a revision."""
        return next((item for item in self.revisions if item.revision == revision), None)


@dataclass(frozen=True)
class Verdict:
    """Value of one condition."""

    status: Literal["True", "False", "Unknown"]
    reason: Reason
    message: str = ""

    @property
    def holds(self) -> bool:
        """Whether the condition is True."""
        return self.status == "True"

    @property
    def failed(self) -> bool:
        """Whether the condition is False."""
        return self.status == "False"


PENDING = Verdict("Unknown", Reason.PENDING, "waits for the conditions before it")
"""A condition whose turn has not come."""


@dataclass(frozen=True)
class JobStep:
    """What to do about a Job: create the given attempt, or suspend, or remove the one seen; or nothing."""

    create_attempt: int | None = None
    remove: JobSeen | None = None
    suspend: JobSeen | None = None
    wait_seconds: float | None = None
    """Look again after this time, whatever is watched."""


@dataclass(frozen=True)
class Rollout:
    """What to do about Deployments and the Service."""

    deploy: bool = False
    """Apply the Deployment of the target revision."""
    select: str | None = None
    """Revision the Service shall select; None: no Service yet."""
    remove: tuple[str, ...] = ()
    """Revisions whose Deployments go."""


@dataclass(frozen=True)
class Decision:
    """The outcome of one pass."""

    conditions: dict[str, Verdict]
    prepare: JobStep = field(default_factory=JobStep)
    builds: tuple[tuple[EngineSeen, JobStep], ...] = ()
    rollout: Rollout = field(default_factory=Rollout)
    requeue_seconds: float | None = None
