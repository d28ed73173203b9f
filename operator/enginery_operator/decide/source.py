"""Is the source what it claims? The condition SourceVerified and the prepare Job behind it. Pure."""

from enginery_store.reasons import Reason
from enginery_store.requests import Outcome

from enginery_operator.decide import calibration, jobs
from enginery_operator.decide.engines import EVALUATION_FAULTS
from enginery_operator.decide.seen import JobStep, Observed, Verdict

_UNSIGNED = (
    "the Tenant's policy.signatures is Require, and this version verifies no signatures of sources; will not be"
    " retried until the platform team sets it to Ignore or Warn"
)


def verified(seen: Observed) -> tuple[Verdict, JobStep]:
    """The condition and what to do about the prepare Job."""
    if seen.tenant is not None and seen.tenant.spec.policy.signatures == "Require":
        # A model with a signature was refused before: this version verifies none, so it serves none.
        return Verdict("False", Reason.SIGNATURE_MISSING, _UNSIGNED), JobStep()
    if seen.source.fingerprint is None:
        return _not_pinned(seen), JobStep()
    return _checked(seen), _step(seen)


def _checked(seen: Observed) -> Verdict:
    if seen.proven is not None:
        return Verdict("True", seen.proven.reason, f"{seen.proven.source_digest}")
    if seen.current.outcome_trouble is not None:
        trouble = seen.current.outcome_trouble
        return Verdict("Unknown", trouble.reason, f"{trouble.message}; will be retried")
    failure = seen.current.failure
    if failure is not None and failure.reason in calibration.FAULTS | EVALUATION_FAULTS:
        reason = Reason.VERIFIED if seen.model.spec.source.digest else Reason.DIGEST_RECORDED
        return Verdict("True", reason, "the source was checked before any data")
    if seen.outcome is None:
        return jobs.preparing(seen, "the source is being fetched and checked")
    return _failed(seen, seen.outcome)


def _step(seen: Observed) -> JobStep:
    outcome, job = seen.outcome, seen.prepare_job
    if seen.current.outcome_trouble is not None:
        return JobStep()
    if outcome is None:
        return jobs.first_or_wait(job, seen)
    if outcome.failed and _is_asked_again(seen, outcome):
        return jobs.recheck(job, outcome.finished_at, seen)
    return JobStep()


def _is_asked_again(seen: Observed, outcome: Outcome) -> bool:
    """Whether nobody would notice that what failed was mended: the operator may not list this source, or it is data
    that it never lists.
    """
    return not seen.source.fingerprint or outcome.reason in jobs.UNNOTICED


def _not_pinned(seen: Observed) -> Verdict:
    trouble = seen.source.trouble
    if trouble is None:
        return Verdict("Unknown", Reason.PENDING, "the source was not listed yet")
    if trouble.passing:
        return Verdict("Unknown", trouble.reason, f"{trouble.message}; will be retried")
    return Verdict("False", trouble.reason, f"{trouble.message}; continues by itself when the source changes")


def _failed(seen: Observed, outcome: Outcome) -> Verdict:
    again = _is_asked_again(seen, outcome)
    after = (
        f"asked again every {seen.recheck_seconds} s"
        if again
        else "will not be retried until the spec or the source changes"
    )
    return Verdict("False", outcome.reason, f"{outcome.message.rstrip('.; ')}; {after}")
