"""Which revision serves, comes and goes: every stage of an update, and what keeps one from harm."""

import pytest
from enginery_operator.decide import decide
from enginery_operator.decide.seen import Rollout, Trouble
from enginery_store.reasons import Reason
from support.api_objects import AModel, a_model, a_tenant
from support.observed import AnObserved, a_revision, an_observed

OLD = "resnet50-01d01d01"
NEW = str(an_observed().seen.revision)
RECREATE = a_model().having("spec.rollout.strategy", "Recreate")
NEW_RECREATE = str(an_observed(RECREATE).seen.revision)
BUILT = an_observed().built()
BUILT_RECREATE = an_observed(RECREATE).built()

STUCK = "resnet50-57ac0000"


def with_stuck(seen: AnObserved) -> AnObserved:
    """The spec was edited again while an earlier edit was coming up."""
    return seen.having(revisions=(*seen.seen.revisions, a_revision(STUCK, ready=0)))


STAGES: dict[str, tuple[AnObserved, Rollout]] = {
    "nothing is deployed before the engines are there": (an_observed().prepared(), Rollout()),
    "the first revision is deployed and selected at once": (BUILT, Rollout(deploy=True, select=NEW)),
    "a new revision comes up beside the old one": (BUILT.old_serves(), Rollout(deploy=True, select=OLD)),
    "the old one serves until the new one is whole": (
        BUILT.old_serves().deployed(ready=0), Rollout(deploy=True, select=OLD)),
    "a Deployment of another size is not whole": (
        an_observed(a_model().with_replicas(2)).built().old_serves().deployed(ready=1),
        Rollout(deploy=True, select=OLD)),
    "stale status is not whole": (BUILT.old_serves().deployed(current=False), Rollout(deploy=True, select=OLD)),
    "old pods of the same revision are not whole": (
        BUILT.old_serves().deployed(updated=0), Rollout(deploy=True, select=OLD)),
    "requests move when it is whole; the old one stays": (
        BUILT.old_serves().deployed(), Rollout(deploy=True, select=NEW)),
    "the old one goes after requests have moved": (
        BUILT.old_serves().serves(), Rollout(deploy=True, select=NEW, remove=(OLD,))),
    "what was edited away before it came up goes at once": (
        with_stuck(BUILT.old_serves()), Rollout(deploy=True, select=OLD, remove=(STUCK,))),
    "likewise while the next one is compiled": (
        with_stuck(an_observed().prepared().old_serves()), Rollout(select=OLD, remove=(STUCK,))),
    "likewise while requests move": (
        with_stuck(BUILT.old_serves().deployed()), Rollout(deploy=True, select=NEW, remove=(STUCK,))),
    "nothing goes while nothing that serves is known": (
        with_stuck(BUILT), Rollout(deploy=True, select=NEW)),
    "nothing goes while it is not known what the spec asks for": (
        with_stuck(an_observed().unpinned().old_serves()), Rollout(select=OLD)),
    "steady state": (BUILT.serves(), Rollout(deploy=True, select=NEW)),
    "a serving revision that broke is not replaced by nothing": (
        BUILT.serves(ready=0), Rollout(deploy=True, select=NEW)),
    "a bad revision takes no request and touches nothing": (
        an_observed().refused(Reason.SOURCE_INVALID).old_serves(), Rollout(select=OLD)),
    "beyond the deadline the old one serves on, and the new one may still come": (
        BUILT.old_serves().deployed(ready=0, deadline_exceeded=True), Rollout(deploy=True, select=OLD)),
    "a Service of a Deployment that is gone selects the target": (
        BUILT.having(serving="resnet50-gone0000"), Rollout(deploy=True, select=NEW)),
    "Recreate stops the old one first": (
        BUILT_RECREATE.old_serves(), Rollout(select=NEW_RECREATE, remove=(OLD,))),
    "Recreate starts when the old one is gone": (
        BUILT_RECREATE.having(serving=NEW_RECREATE), Rollout(deploy=True, select=NEW_RECREATE)),
    "Recreate does not stop a good one for a bad one": (
        an_observed(RECREATE).refused(Reason.SOURCE_INVALID).old_serves(), Rollout(select=OLD)),
    "Stopped removes every revision and keeps the Service": (
        an_observed(a_model().stopped()).built().old_serves().serves(),
        Rollout(select=str(an_observed(a_model().stopped()).seen.revision),
                remove=(OLD, str(an_observed(a_model().stopped()).seen.revision)))),
    "a drained tenant likewise": (
        BUILT.with_tenant(a_tenant().having("spec.stopPolicy", "HoldAndDrain")).serves(),
        Rollout(select=NEW, remove=(NEW,))),
    "a tenant on hold keeps what serves": (
        BUILT.with_tenant(a_tenant().having("spec.stopPolicy", "Hold")).serves(), Rollout(select=NEW)),
}  # fmt: skip


@pytest.mark.parametrize("sentence", STAGES)
def test_rollout_does_what_the_stage_asks_for(sentence: str) -> None:
    seen, want = STAGES[sentence]
    assert decide(seen.build()).rollout == want


def test_deadline_message_names_the_pods_trouble() -> None:
    crashing = Trouble(Reason.CRASH_LOOPING, "the runtime ended with exit code 1 (Error)")
    seen = BUILT.old_serves().deployed(ready=0, deadline_exceeded=True, trouble=crashing)
    message = decide(seen.build()).conditions["Progressing"].message
    assert "0/1 replicas ready after rollout.progressDeadlineSeconds: the runtime ended with exit code 1" in message


def test_a_rollout_says_what_keeps_its_pods_long_before_the_deadline() -> None:
    tight = Trouble(Reason.UNSCHEDULABLE, "0/1 nodes are available: 1 Insufficient cpu.", passing=True)
    message = decide(BUILT.old_serves().deployed(ready=0, trouble=tight).build()).conditions["Progressing"].message
    assert message.endswith("0/1 replicas ready: 0/1 nodes are available: 1 Insufficient cpu")


def test_a_service_that_is_refused_answers_nobody() -> None:
    refusal = Trouble(Reason.CONFIG_ERROR, "Service resnet50 is there already and not of this model", passing=True)
    found = decide(BUILT.deployed().having(refusal=refusal).build()).conditions
    assert (found["Available"].status, found["Available"].reason) == ("False", Reason.CONFIG_ERROR)
    assert (found["Ready"].status, found["Ready"].reason) == ("False", Reason.CONFIG_ERROR)
    assert "Service resnet50 is there already" in found["Progressing"].message


def test_whoever_asks_for_no_replica_is_told_so() -> None:
    seen = an_observed(a_model().with_replicas(0)).built().serves()
    assert decide(seen.build()).conditions["Ready"].message == (
        "spec.serving.replicas is 0; nothing answers until it is raised"
    )


@pytest.mark.parametrize(("model", "want"), [(a_model(), 1), (a_model().with_replicas(0), 0), (RECREATE, 1)])
def test_replicas_default_to_one_and_may_be_none(model: AModel, want: int) -> None:
    assert an_observed(model).build().replicas == want
