"""When a Job is made, asked again, suspended or left alone: the times."""

from typing import Any

import pytest
from enginery_operator.decide import jobs
from enginery_operator.decide.seen import JobSeen, JobStep, Observed, Trouble
from enginery_store.reasons import Reason
from support.api_objects import NOW, ago
from support.observed import a_job, an_observed

SEEN = an_observed().build()
PASSING = Trouble(Reason.BUILD_FAILED, "exit code 1", passing=True)
FINAL = Trouble(Reason.CONFIG_ERROR, "no signing.key")
PULLING = Trouble(Reason.IMAGE_PULL_FAILED, "not found", passing=True)


def failed(seconds_ago: float, attempt: int = 1, trouble: Trouble = PASSING) -> JobSeen:
    return a_job("Failed", attempt=attempt, created_at=ago(5000), finished_at=ago(seconds_ago), trouble=trouble)


def waiting(seconds: float, trouble: Trouble | None = PULLING, **changes: Any) -> JobSeen:
    return a_job("Waiting", created_at=ago(seconds), trouble=trouble, **changes)


def suspended(seconds_ago: float | None) -> JobSeen:
    since = None if seconds_ago is None else ago(seconds_ago)
    return a_job("Suspended", created_at=ago(5000), finished_at=since, trouble=PULLING)


def again(job: JobSeen) -> JobStep:
    return JobStep(create_attempt=job.attempt + 1, remove=job)


STEPS: dict[str, tuple[JobSeen | None, JobStep]] = {
    "no Job is the first attempt": (None, JobStep(create_attempt=1)),
    "a Job at work is left alone": (a_job("Running"), JobStep()),
    "a Job that only just succeeded: its result is on the way": (
        a_job("Succeeded", finished_at=ago(10)), JobStep(wait_seconds=5)),
    "a result that was deleted is made again": (
        job := a_job("Succeeded", finished_at=ago(15)), again(job)),
    "the first pause is the base": (failed(19), JobStep(wait_seconds=1)),
    "after it the next attempt": (job := failed(20), again(job)),
    "pauses double": (failed(20, attempt=3), JobStep(wait_seconds=60)),
    "pauses end at an hour": (failed(100, attempt=30), JobStep(wait_seconds=3500)),
    "a final word without a stored outcome is asked again by the recheck": (
        failed(100, trouble=FINAL), JobStep(wait_seconds=500)),
    "after the recheck the next attempt": (job := failed(600, trouble=FINAL), again(job)),
    "an image that cannot be pulled has its start deadline": (waiting(590), JobStep(wait_seconds=10)),
    "after the start deadline the place is given back": (job := waiting(600), JobStep(suspend=job)),
    "a later pod of an old Job has a start deadline of its own": (
        a_job("Waiting", created_at=ago(5000), waiting_since=ago(590), trouble=PULLING), JobStep(wait_seconds=10)),
    "a wrong configuration likewise": (
        job := waiting(600, Trouble(Reason.CONFIG_ERROR, "no key", passing=True)), JobStep(suspend=job)),
    "no room is waited for, for ever": (
        waiting(90_000, Trouble(Reason.UNSCHEDULABLE, "no node", passing=True)), JobStep()),
    "a queue is waited for, for ever": (
        waiting(90_000, Trouble(Reason.QUEUED, "held", passing=True)), JobStep()),
    "a healthy start has no deadline": (
        waiting(90_000, None, waiting_since=ago(90_000)), JobStep()),
    "nothing tells when a pod is refused: look again": (waiting(1, None), JobStep(wait_seconds=jobs.PODLESS_SECONDS)),
    "a refused pod holds no place that suspending would give back": (
        waiting(90_000, Trouble(Reason.CONFIG_ERROR, "no pod is allowed", passing=True), podless=True),
        JobStep(wait_seconds=jobs.PODLESS_SECONDS)),
    "a Job whose suspension is not recorded yet": (suspended(None), JobStep()),
    "a suspended Job stays so for the start deadline": (suspended(1), JobStep(wait_seconds=599)),
    "then it is tried again": (job := suspended(600), again(job)),
}  # fmt: skip


@pytest.mark.parametrize("sentence", STEPS)
def test_step_follows_from_the_job_and_the_clock(sentence: str) -> None:
    job, want = STEPS[sentence]
    assert jobs.first_or_wait(job, SEEN) == want


RECHECKS: dict[str, tuple[JobSeen | None, float, JobStep]] = {
    "no Job: counted from the outcome": (None, 100, JobStep(wait_seconds=500)),
    "no Job and long ago": (None, 600, JobStep(create_attempt=1)),
    "one at work": (a_job("Running"), 9000, JobStep()),
    "the later of outcome and Job counts": (failed(100), 9000, JobStep(wait_seconds=500)),
    "both long ago": (job := failed(700), 900, again(job)),
}


@pytest.mark.parametrize("sentence", RECHECKS)
def test_recheck_asks_again_after_its_time(sentence: str) -> None:
    job, outcome_seconds_ago, want = RECHECKS[sentence]
    assert jobs.recheck(job, ago(outcome_seconds_ago), SEEN) == want


@pytest.mark.parametrize(
    ("attempt", "want"), [(1, 20), (2, 40), (5, 320), (9, 3600), (5000, 3600), (999_999_999_999, 3600)]
)
def test_backoff_doubles_up_to_an_hour(attempt: int, want: float) -> None:
    assert jobs.backoff_seconds(attempt, 20) == want


def test_settings_set_the_times() -> None:
    seen: Observed = an_observed().having(retry_base_seconds=3, recheck_seconds=5, start_deadline_seconds=7).build()
    assert jobs.first_or_wait(failed(0), seen).wait_seconds == 3
    assert jobs.first_or_wait(failed(0, trouble=FINAL), seen).wait_seconds == 5
    assert jobs.first_or_wait(waiting(0), seen).wait_seconds == 7
    assert seen.now == NOW
