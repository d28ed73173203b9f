"""Claims: of several models that need one Job, one creates it."""

from enginery_operator.workqueue import CLAIM_SECONDS, Claims, Key

ONE, TWO = Key("InferenceModel", "team", "one"), Key("InferenceModel", "team", "two")
WORK = ("team", "0123", "1")


def test_of_two_who_need_one_work_the_first_begins_it() -> None:
    claims = Claims()
    assert claims.take(WORK, ONE)
    assert not claims.take(WORK, TWO)
    assert claims.take(("team", "0123", "2"), TWO)


def test_whoever_began_may_try_again() -> None:
    claims = Claims()
    assert claims.take(WORK, ONE)
    assert claims.take(WORK, ONE)
    assert not claims.take(WORK, TWO)


def test_a_claim_ends_when_the_work_is_seen_and_leaves_nothing() -> None:
    claims = Claims()
    claims.take(WORK, ONE)
    claims.drop(WORK)
    claims.drop(WORK)
    assert len(claims) == 0
    assert claims.take(WORK, TWO)


def test_claims_of_work_that_was_never_seen_do_not_pile_up() -> None:
    now = [0.0]
    claims = Claims(clock=lambda: now[0])
    for number in range(1000):
        now[0] += 1
        claims.take(("team", str(number), "1"), ONE)
    assert len(claims) <= CLAIM_SECONDS


def test_a_claim_whose_work_is_never_seen_passes_to_the_next() -> None:
    now = [0.0]
    claims = Claims(clock=lambda: now[0])
    claims.take(WORK, ONE)
    now[0] = CLAIM_SECONDS - 1
    assert not claims.take(WORK, TWO)
    now[0] = CLAIM_SECONDS
    assert claims.take(WORK, TWO)
    assert not claims.take(WORK, ONE)
