"""Is the source what it claims? The condition SourceVerified and the prepare Job behind it. Pure."""

from enginery_store.reasons import Reason

from enginery_operator.decide import jobs
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
    if seen.outcome_trouble is not None:
        trouble = seen.outcome_trouble
        return Verdict("Unknown", trouble.reason, f"{trouble.message}; will be retried"), JobStep()
    if seen.outcome is None:
        return _in_work(seen), jobs.first_or_wait(seen.prepare_job, seen)
    if not seen.outcome.failed:
        return Verdict("True", seen.outcome.reason, f"{seen.outcome.source_digest}"), JobStep()
    return _failed(seen)


def _not_pinned(seen: Observed) -> Verdict:
    trouble = seen.source.trouble
    if trouble is None:
        return Verdict("Unknown", Reason.PENDING, "the source was not listed yet")
    if trouble.passing:
        return Verdict("Unknown", trouble.reason, f"{trouble.message}; will be retried")
    return Verdict("False", trouble.reason, f"{trouble.message}; continues by itself when the source changes")


def _in_work(seen: Observed) -> Verdict:
    job = seen.prepare_job
    if job is None and seen.refusal is not None:
        message = f"the prepare Job was refused: {seen.refusal.message}; will be retried"
        return Verdict("Unknown", Reason.PREPARING, message)
    if job is None or job.trouble is None:
        return Verdict("Unknown", Reason.PREPARING, "the source is being fetched and checked")
    if job.state == "Failed" and not job.trouble.passing:
        return Verdict(
            "False", job.trouble.reason, f"{job.trouble.message}; asked again every {seen.recheck_seconds} s"
        )
    if job.state in {"Failed", "Suspended"}:
        pause = jobs.pause_seconds(job, seen)
        return Verdict("Unknown", job.trouble.reason, f"{job.trouble.message}; will retry in {pause:.0f} s")
    # That a quota is full is QuotaReserved's to say.
    reason = Reason.PREPARING if job.trouble.reason is Reason.WAITING_FOR_QUOTA else job.trouble.reason
    return Verdict("Unknown", reason, f"the prepare Job waits: {job.trouble.message}")


def _failed(seen: Observed) -> tuple[Verdict, JobStep]:
    outcome = seen.outcome
    assert outcome is not None  # noqa: S101 - for the type checker; the caller looked
    if not seen.source.fingerprint:
        # The operator may not list this source, so it cannot notice that it was replaced.
        step = jobs.recheck(seen.prepare_job, outcome.finished_at, seen)
        after = f"asked again every {seen.recheck_seconds} s"
    else:
        step, after = JobStep(), "will not be retried until the spec or the source changes"
    return Verdict("False", outcome.reason, f"{outcome.message.rstrip('.; ')}; {after}"), step
