"""When a Job is created, asked again, suspended or left alone. Pure; used by the checks of source and engines.

The stored result is the truth, not the Job: a finished Job may be removed at any time and nothing is done twice. A
Job's name holds its key and attempt, so that two passes (or two operators) that decide the same create it once.
"""

from datetime import datetime, timedelta

from enginery_store.reasons import Reason

from enginery_operator.decide.seen import JobSeen, JobStep, Observed, Verdict

RESULT_GRACE_SECONDS = 15
"""After a Job succeeded its result must be in the store; not seen for this long, it was deleted: do the work again."""

BACKOFF_LIMIT_SECONDS = 3600
"""Longest pause between attempts."""

PODLESS_SECONDS = 10
"""A Job without a pod is looked at again so often: nothing that is watched changes when its pod is refused."""

UNNOTICED = frozenset(
    {
        Reason.EVALUATION_DATA_INVALID,
        Reason.CALIBRATION_DATA_NOT_FOUND,
        Reason.TOO_FEW_SAMPLES,
        Reason.CALIBRATION_DATA_INVALID,
        Reason.CALIBRATION_FAILED,
    }
)
"""Final failures that end when somebody replaces data the operator does not list: asked again now and then."""

START_TROUBLE = frozenset({Reason.IMAGE_PULL_FAILED, Reason.CONFIG_ERROR})
"""What a waiting pod does not recover from by waiting for room."""


def first_or_wait(job: JobSeen | None, seen: Observed) -> JobStep:
    """The step for work whose result is not stored and which did not fail for good."""
    if job is None:
        return JobStep(create_attempt=1)
    if job.state == "Suspended" and job.finished_at is None:
        return JobStep()  # when its pod gave the place back is not known yet: the Job controller's word wakes us
    if (pause := pause_seconds(job, seen)) is not None:
        return _after(job, pause, seen.now)
    if job.state == "Waiting" and job.waiting_since is None and (job.trouble is None or job.podless):
        return JobStep(wait_seconds=PODLESS_SECONDS)
    if job.state == "Waiting" and job.trouble is not None and job.trouble.reason in START_TROUBLE:
        waited = (seen.now - (job.waiting_since or job.created_at)).total_seconds()
        if waited >= seen.start_deadline_seconds:
            return JobStep(suspend=job)
        return JobStep(wait_seconds=seen.start_deadline_seconds - waited)
    return JobStep()


def pause_seconds(job: JobSeen, seen: Observed) -> float | None:
    """How long after a Job's end its next attempt comes; None while it may still produce something.

    The whole pause and not what is left of it: a message that tells it stays the same from pass to pass.
    """
    match job.state:
        case "Succeeded":
            return RESULT_GRACE_SECONDS
        case "Failed":
            final = job.trouble is not None and not job.trouble.passing
            return seen.recheck_seconds if final else backoff_seconds(job.attempt, seen.retry_base_seconds)
        case "Suspended":
            return seen.start_deadline_seconds
        case _:
            return None


def preparing(seen: Observed, quiet: str) -> Verdict:
    """How far the prepare Job is whose outcome is not stored; `quiet` says what it does while nothing is wrong."""
    job = seen.prepare_job
    if job is None and seen.refusal is not None:
        message = f"the prepare Job was refused: {seen.refusal.message}; will be retried"
        return Verdict("Unknown", Reason.PREPARING, message)
    if job is None or job.trouble is None:
        return Verdict("Unknown", Reason.PREPARING, quiet)
    if job.state == "Failed" and not job.trouble.passing:
        return Verdict(
            "False", job.trouble.reason, f"{job.trouble.message}; asked again every {seen.recheck_seconds} s"
        )
    if job.state in {"Failed", "Suspended"}:
        pause = pause_seconds(job, seen)
        return Verdict("Unknown", job.trouble.reason, f"{job.trouble.message}; will retry in {pause:.0f} s")
    # That a quota is full is QuotaReserved's to say.
    reason = Reason.PREPARING if job.trouble.reason is Reason.WAITING_FOR_QUOTA else job.trouble.reason
    return Verdict("Unknown", reason, f"the prepare Job waits: {job.trouble.message}")


def recheck(job: JobSeen | None, failed_at: datetime, seen: Observed) -> JobStep:
    """The step after a stored final failure whose cause nobody can notice the end of: ask again now and then."""
    if job is not None and job.active:
        return JobStep()
    since = max(failed_at, job.finished_at or failed_at) if job else failed_at
    due = since + timedelta(seconds=seen.recheck_seconds)
    if seen.now < due:
        return JobStep(wait_seconds=(due - seen.now).total_seconds())
    return JobStep(create_attempt=job.attempt + 1 if job else 1, remove=job)


def backoff_seconds(attempt: int, base: int) -> float:
    """Doubling pause before attempt + 1."""
    return float(min(base * 2 ** min(attempt - 1, 20), BACKOFF_LIMIT_SECONDS))


def _after(job: JobSeen, seconds: float, now: datetime) -> JobStep:
    """Replace a Job by its next attempt, `seconds` after it ended."""
    due = (job.finished_at or job.created_at) + timedelta(seconds=seconds)
    if now < due:
        return JobStep(wait_seconds=(due - now).total_seconds())
    return JobStep(create_attempt=job.attempt + 1, remove=job)
