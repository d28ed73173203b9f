"""Precision Auto: what is tried after what, what serves in the end, and what is told of it."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from enginery_operator.decide import decide, ladder
from enginery_operator.decide.seen import Candidate, EngineSeen, JobSeen, Trouble
from enginery_operator.status import model_status
from enginery_store.manifest import LatencyRecord
from enginery_store.reasons import Reason
from support.api_objects import AModel, a_model, ago
from support.installation import A10, L40S
from support.observed import DIGEST, AnObserved, a_candidate, a_job, a_manifest, an_accuracy, an_observed, an_outcome

CPU = (
    a_model()
    .with_gate("0.010")
    .having("spec.precision.type", "Auto")
    .having("spec.precision.calibration", {"uri": "s3://models/team-a/calibration/"})
    .having("spec.objective", {"latencyMilliseconds": {"value": "10"}, "batchSize": 8})
)
GPU = CPU.with_gpu()
NO_SCALES = CPU.having("spec.precision.calibration", None)
NO_GATE = CPU.having("spec.precision.accuracyGate", None)
RTX = GPU.having("spec.build.backend", "TensorRTRTX")
LOST = Trouble(Reason.BUILD_OUT_OF_MEMORY, "8 GiB")
TIRED = a_job("Failed", finished_at=ago(5), trouble=Trouble(Reason.BUILD_FAILED, "exit code 1", passing=True))


def timed(milliseconds: str, batch: int = 8) -> LatencyRecord:
    p99 = int(Decimal(milliseconds) * 1000)
    return LatencyRecord(
        profile="default", batch=batch, p50_microseconds=p99 // 2, p99_microseconds=p99, items_per_second="1.0"
    )


def observed(model: AModel, *candidates: Candidate) -> AnObserved:
    nodes = (A10, L40S) if model.data["spec"]["accelerator"]["mode"] == "GPU" else ()
    seen = an_observed(model, *nodes)
    return seen.tried(*candidates) if candidates else seen


def built(model: AModel, precision: str, *p99: str, lost: str = "0.0010", **manifest: Any) -> Candidate:
    """One engine per figure (milliseconds at batch 8), each on a target of its own."""
    offers = an_observed(
        model, *((A10, L40S) if model.data["spec"]["accelerator"]["mode"] == "GPU" else ())
    ).seen.matching
    engines = tuple(
        EngineSeen(
            offer,
            f"{precision}-{offer.target.name}",
            manifest=a_manifest(
                offer.target,
                **{"latency": [timed(figure)], "accuracy": an_accuracy(lost), "precision_effective": precision}
                | manifest,
            ),
        )
        for offer, figure in zip(offers, p99, strict=False)
    )
    return a_candidate(model.build(), precision, outcome=an_outcome(), engines=engines, request_key=precision)


def failed(model: AModel, precision: str, reason: Reason) -> Candidate:
    """An engine that can never be built."""
    whole = built(model, precision, "1")
    engine = replace(whole.engines[0], manifest=None, failure=an_outcome(reason, "why"))
    return replace(whole, engines=(engine,))


def working(model: AModel, precision: str, job: JobSeen | None = None) -> Candidate:
    whole = built(model, precision, "1")
    return replace(whole, engines=(replace(whole.engines[0], manifest=None, job=job),))


def refused(model: AModel, reason: Reason) -> Candidate:
    """INT8 whose prepare request ended for good."""
    return a_candidate(model.build(), "INT8", outcome=an_outcome(reason, "why"))


def crashed(attempt: int, reason: Reason = Reason.BUILD_FAILED) -> JobSeen:
    return a_job("Failed", attempt=attempt, finished_at=ago(5), trouble=Trouble(reason, "exit code 139", passing=True))


CASES: dict[str, tuple[AModel, tuple[Candidate, ...], str | None, str]] = {
    # sentence: (model, candidates so far, what is tried next, what serves or is waited for)
    "a GPU begins with FP16": (GPU, (a_candidate(GPU.build()),), None, "FP16"),
    "a CPU begins with FP32": (CPU, (a_candidate(CPU.build()),), None, "FP32"),
    "nothing is decided while an engine is missing": (GPU, (working(GPU, "FP16"),), None, "FP16"),
    "nor while one may still come": (GPU, (working(GPU, "FP16", TIRED),), None, "FP16"),
    "quick enough": (GPU, (built(GPU, "FP16", "9", "10"),), None, "FP16"),
    "one slow target is enough to go on": (GPU, (built(GPU, "FP16", "9", "10.001"),), "INT8", "FP16"),
    "INT8 is waited for": (GPU, (built(GPU, "FP16", "9", "11"), working(GPU, "INT8")), None, "INT8"),
    "INT8 meets the objective": (GPU, (built(GPU, "FP16", "9", "11"), built(GPU, "INT8", "5", "6")), None, "INT8"),
    "INT8 misses it too, and is quicker": (
        GPU, (built(GPU, "FP16", "9", "20"), built(GPU, "INT8", "8", "15")), None, "INT8"),
    "INT8 is slower, as on many CPUs": (CPU, (built(CPU, "FP32", "11"), built(CPU, "INT8", "18")), None, "FP32"),
    "as quick as FP32: the more exact one": (CPU, (built(CPU, "FP32", "11"), built(CPU, "INT8", "11")), None, "FP32"),
    "INT8 is quick and not exact enough": (
        CPU, (built(CPU, "FP32", "11"), built(CPU, "INT8", "5", lost="0.0101")), None, "FP32"),
    "INT8 is not finite": (
        CPU, (built(CPU, "FP32", "11"), failed(CPU, "INT8", Reason.EVALUATION_FAILED)), None, "FP32"),
    "INT8 cannot be compiled": (
        CPU, (built(CPU, "FP32", "11"), failed(CPU, "INT8", Reason.UNSUPPORTED_OPERATOR)), None, "FP32"),
    "INT8 takes more memory than there is": (
        CPU, (built(CPU, "FP32", "11"), working(CPU, "INT8", a_job("Failed", finished_at=ago(5), trouble=LOST))),
        None, "FP32"),
    "INT8 cannot be calibrated": (
        CPU, (built(CPU, "FP32", "11"), refused(CPU, Reason.CALIBRATION_DATA_INVALID)), None, "FP32"),
    "INT8 took more memory than there was, and its Job is gone": (
        CPU, (built(CPU, "FP32", "11"), replace(working(CPU, "INT8"), given_up=Reason.BUILD_OUT_OF_MEMORY)),
        None, "FP32"),
    "INT8 could not be prepared, and its Job is gone": (
        CPU, (built(CPU, "FP32", "11"), a_candidate(CPU.build(), "INT8", given_up=Reason.ACCESS_DENIED)), None, "FP32"),
    "an engine that is there after all": (
        CPU, (built(CPU, "FP32", "11"), replace(built(CPU, "INT8", "5"), given_up=Reason.BUILD_FAILED)), None, "INT8"),
    "INT8 crashes, which may pass": (CPU, (built(CPU, "FP32", "11"), working(CPU, "INT8", crashed(2))), None, "INT8"),
    "INT8 crashes again and again": (CPU, (built(CPU, "FP32", "11"), working(CPU, "INT8", crashed(3))), None, "FP32"),
    "the store is away again and again, which says nothing of INT8": (
        CPU, (built(CPU, "FP32", "11"), working(CPU, "INT8", crashed(9, Reason.STORE_UNAVAILABLE))), None, "INT8"),
    "no calibration data: INT8 is not tried": (NO_SCALES, (built(NO_SCALES, "FP32", "11"),), None, "FP32"),
    "no gate: INT8 is not tried": (NO_GATE, (built(NO_GATE, "FP32", "11"),), None, "FP32"),
    "FP16 misses its gate: FP32": (GPU, (built(GPU, "FP16", "1", "1", lost="0.5"),), "FP32", "FP16"),
    "FP16 is not finite: FP32": (GPU, (failed(GPU, "FP16", Reason.EVALUATION_FAILED),), "FP32", "FP16"),
    "FP32 after FP16 serves though it is slow": (
        GPU, (built(GPU, "FP16", "1", "1", lost="0.5"), built(GPU, "FP32", "30", "30")), None, "FP32"),
    "FP16 that cannot be compiled is no reason for FP32": (
        GPU, (failed(GPU, "FP16", Reason.UNSUPPORTED_OPERATOR),), None, "FP16"),
    "FP32 that misses its gate is as it is": (CPU, (built(CPU, "FP32", "1", lost="0.5"),), None, "FP32"),
    "ahead of time nothing is measured: the first is kept": (
        RTX, (built(RTX, "FP16", "0", "0", latency=[]),), None, "FP16"),
}  # fmt: skip


@pytest.mark.parametrize("sentence", CASES)
def test_the_ladder_goes_on_only_for_a_reason_and_keeps_the_best(sentence: str) -> None:
    model, candidates, following, serves = CASES[sentence]
    parsed = model.build()
    assert ladder.following(parsed, candidates) == following
    assert ladder.chosen(parsed, candidates).precision.type == serves


def test_a_model_that_names_its_precision_has_no_ladder() -> None:
    model = CPU.having("spec.precision.type", "FP32").build()
    assert ladder.following(model, ()) == "FP32"
    assert ladder.following(model, (built(CPU, "FP32", "99"),)) is None
    assert ladder.tried(an_observed(CPU.having("spec.precision.type", "FP32")).built().seen) == []


LATENCIES: dict[str, tuple[list[LatencyRecord], dict[str, Any], str]] = {
    # sentence: (what was timed, the objective, the figure that counts)
    "the very batch": ([timed("3", 1), timed("8", 8), timed("30", 32)], {"batchSize": 8}, "8"),
    "the next larger one": ([timed("3", 1), timed("30", 32)], {"batchSize": 8}, "30"),
    "the largest where none is larger": ([timed("3", 1), timed("8", 4)], {"batchSize": 8}, "8"),
    "the slowest profile of that batch": ([timed("8", 8), timed("9", 8)], {"batchSize": 8}, "9"),
    "the median for the median": (
        [timed("8", 8)], {"batchSize": 8, "latencyMilliseconds": {"value": "10", "percentile": 50}}, "4"),
    "p99 for whatever lies above it": (
        [timed("8", 8)], {"batchSize": 8, "latencyMilliseconds": {"value": "10", "percentile": 90}}, "8"),
}  # fmt: skip


@pytest.mark.parametrize("sentence", LATENCIES)
def test_the_figure_is_that_of_the_objectives_batch_and_percentile(sentence: str) -> None:
    latency, objective, want = LATENCIES[sentence]
    model = CPU.having("spec.objective", {"latencyMilliseconds": {"value": "10"}} | objective)
    seen = an_observed(model).tried(built(model, "FP32", "0", latency=latency)).seen
    assert [row.latency for row, _ in ladder.tried(seen)] == [Decimal(want)]


TOLD: dict[str, tuple[AnObserved, list[dict[str, Any]], str]] = {
    # sentence: (seen, status.precision.tried, how the message of EnginesReady ends)
    "the first is enough": (
        observed(CPU, built(CPU, "FP32", "5.4")),
        [{"type": "FP32", "p99Milliseconds": "5.4", "accepted": True, "reason": "Chosen"}],
        "FP32 takes 5.4 ms, the objective is 10 ms at batch 8"),
    "INT8 is kept": (
        observed(CPU, built(CPU, "FP32", "14.2"), built(CPU, "INT8", "8.1")),
        [{"type": "FP32", "p99Milliseconds": "14.2", "accepted": False, "reason": "ObjectiveMissed"},
         {"type": "INT8", "p99Milliseconds": "8.1", "accepted": True, "reason": "Chosen"}],
        "INT8 takes 8.1 ms, the objective is 10 ms at batch 8 (also tried: FP32 14.2 ms)"),
    "INT8 is not exact enough": (
        observed(CPU, built(CPU, "FP32", "14.2"), built(CPU, "INT8", "8.1", lost="0.2")),
        [{"type": "FP32", "p99Milliseconds": "14.2", "accepted": True, "reason": "ObjectiveMissed"},
         {"type": "INT8", "accepted": False, "reason": "BelowThreshold"}],
        ("no precision meets the objective of 10 ms at batch 8: FP32 takes 14.2 ms, the fastest (also tried: INT8"
        " BelowThreshold)")),
    "INT8 cannot be tried": (
        observed(NO_SCALES, built(NO_SCALES, "FP32", "14.2")),
        [{"type": "FP32", "p99Milliseconds": "14.2", "accepted": True, "reason": "ObjectiveMissed"}],
        ("no precision meets the objective of 10 ms at batch 8: FP32 takes 14.2 ms, the fastest; INT8 is tried only"
        " with precision.calibration and accuracyGate")),
    "nothing is measured": (
        observed(RTX, built(RTX, "FP16", "0", "0", latency=[])),
        [{"type": "FP16", "accepted": True, "reason": "NotMeasured"}],
        "Auto keeps FP16: engines that are compiled ahead of time have no measured latency"),
}  # fmt: skip


@pytest.mark.parametrize("sentence", TOLD)
def test_every_try_is_told_with_its_figures(sentence: str) -> None:
    seen, rows, words = TOLD[sentence]
    decision = decide(seen.build())
    found = model_status(seen.build(), decision, {})
    assert found["precision"]["tried"] == rows
    verdict = decision.conditions["EnginesReady"]
    assert verdict.holds
    assert verdict.message.endswith(f"; {words}")
    assert len(verdict.message) < 300


def test_a_precision_that_serves_is_the_effective_one() -> None:
    seen = observed(CPU, built(CPU, "FP32", "14.2"), built(CPU, "INT8", "8.1")).seen
    assert model_status(seen, decide(seen), {})["precision"]["effective"] == "INT8"


def test_nothing_is_rolled_out_before_the_ladder_is_decided() -> None:
    """Nor is what serves already touched."""
    waiting = observed(CPU, built(CPU, "FP32", "14.2"), working(CPU, "INT8"))
    assert decide(waiting.build()).rollout.deploy is False
    found = decide(waiting.serves().having(candidates=waiting.seen.candidates).build())
    assert (found.rollout.deploy, found.rollout.remove) == (False, ())
    decided = observed(CPU, built(CPU, "FP32", "14.2"), built(CPU, "INT8", "8.1"))
    assert decide(decided.build()).rollout.deploy is True


def test_the_source_stays_verified_while_a_second_precision_is_prepared() -> None:
    asked = a_candidate(CPU.build(), "INT8", prepare_job=a_job())
    found = decide(observed(CPU, built(CPU, "FP32", "14.2"), asked).build()).conditions
    assert found["SourceVerified"].holds
    assert (found["Calibrated"].status, found["Calibrated"].reason) == ("Unknown", Reason.RUNNING)
    assert found["EnginesReady"].message == "waits until INT8 is prepared"


def test_what_keeps_a_second_precision_from_being_prepared_is_told() -> None:
    held = a_job("Waiting", trouble=Trouble(Reason.IMAGE_PULL_FAILED, "image x: not found", passing=True))
    asked = a_candidate(CPU.build(), "INT8", prepare_job=held)
    found = decide(observed(CPU, built(CPU, "FP32", "14.2"), asked).build()).conditions
    for name in ("Calibrated", "EnginesReady", "Ready"):
        assert (found[name].status, found[name].message) == ("Unknown", "the prepare Job waits: image x: not found")


STEPS = {
    "a CPU": (CPU, ("FP32", "INT8")),
    "a GPU": (GPU, ("FP16", "FP32", "INT8")),
    "a CPU without calibration data": (NO_SCALES, ("FP32",)),
    "a CPU without a gate": (NO_GATE, ("FP32",)),
}


@pytest.mark.parametrize("sentence", STEPS)
def test_every_precision_that_may_serve_is_known_beforehand(sentence: str) -> None:
    model, want = STEPS[sentence]
    assert ladder.steps(model.build()) == want


def test_a_second_precision_gets_jobs_of_its_own() -> None:
    first = built(CPU, "FP32", "14.2")
    assert decide(observed(CPU, first, a_candidate(CPU.build(), "INT8")).build()).prepare.create_attempt == 1
    ((engine, step),) = decide(observed(CPU, first, working(CPU, "INT8")).build()).builds
    assert (engine.key, step.create_attempt) == ("INT8-cpu-amd64", 1)


def test_the_digest_stays_in_status_while_a_second_precision_is_prepared() -> None:
    seen = observed(CPU, built(CPU, "FP32", "14.2"), a_candidate(CPU.build(), "INT8", prepare_job=a_job())).seen
    assert model_status(seen, decide(seen), {})["source"]["digest"] == DIGEST


def test_a_stopped_model_tries_nothing_more() -> None:
    stopped = CPU.stopped()
    seen = observed(stopped, built(stopped, "FP32", "14.2"), a_candidate(stopped.build(), "INT8"))
    found = decide(seen.build())
    assert found.prepare.create_attempt is None
    assert found.conditions["SourceVerified"].holds
    assert found.conditions["Calibrated"].message == "stopped: no Job is started"


def test_what_another_revision_tried_is_not_told_of_this_one() -> None:
    """A step that was given up would count as given up here."""
    before = {"targetRevision": "resnet50-01d01d01", "precision": {"effective": "INT8", "tried": [{"type": "INT8"}]}}
    seen = observed(CPU).seen
    assert model_status(seen, decide(seen), before)["precision"] == {"effective": "INT8"}
    same = before | {"targetRevision": seen.revision}
    assert model_status(seen, decide(seen), same)["precision"] == before["precision"]


def test_an_outage_takes_nothing_back_of_what_was_tried() -> None:
    first, silent = built(CPU, "FP32", "14.2"), Trouble(Reason.STORE_UNAVAILABLE, "x", passing=True)
    seen = observed(CPU, first, built(CPU, "INT8", "8.1")).seen
    before = model_status(seen, decide(seen), {})
    for lost in (
        observed(CPU, first, a_candidate(CPU.build(), "INT8", outcome_trouble=silent)).seen,
        observed(CPU, a_candidate(CPU.build(), outcome_trouble=silent)).seen,
    ):
        found = model_status(lost, decide(lost), before)
        assert found["precision"] == before["precision"]
        assert found["engines"] == before["engines"]
