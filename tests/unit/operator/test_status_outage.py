"""While the store is silent, status keeps what was found before."""

from datetime import timedelta

from enginery_operator.decide import decide
from enginery_operator.decide.seen import Trouble
from enginery_operator.status import Status, model_status
from enginery_store.reasons import Reason
from support.api_objects import NOW
from support.observed import AnObserved, an_observed

SILENT = Trouble(Reason.STORE_UNAVAILABLE, "the store does not answer", passing=True)


def _status(seen: AnObserved, before: Status | None = None) -> Status:
    observed = seen.having(now=NOW + timedelta(minutes=5)).seen if before else seen.seen
    return model_status(observed, decide(observed), before or {})


def test_an_engine_that_cannot_be_asked_for_keeps_its_entry_and_what_was_measured() -> None:
    first = _status(an_observed().built())
    again = _status(an_observed().prepared().engine(trouble=SILENT), first)
    for part in ("engines", "engineSummary", "precision", "accuracy"):
        assert again[part] == first[part], part


def test_an_outcome_that_cannot_be_read_keeps_the_digest_of_the_same_pin() -> None:
    first = _status(an_observed().built())
    assert "digest" in first["source"]
    again = _status(an_observed().built().having(outcome=None, outcome_trouble=SILENT, engines=()), first)
    assert again["source"] == first["source"]


def test_another_pin_forgets_the_digest() -> None:
    first = _status(an_observed().built())
    first["source"] = first["source"] | {"fingerprint": "sha256:another"}
    again = _status(an_observed().built().having(outcome=None, outcome_trouble=SILENT, engines=()), first)
    assert "digest" not in again["source"]
