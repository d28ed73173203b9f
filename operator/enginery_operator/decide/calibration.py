"""Are the scales of a quantized model measured? The condition Calibrated. Pure.

The prepare Job calibrates after it has checked the source, so what is wrong with calibration data says nothing against
the source: it is told here, and SourceVerified holds.
"""

from enginery_store.reasons import Reason

from enginery_operator.backends import QUANTIZED
from enginery_operator.decide import jobs
from enginery_operator.decide.engines import EVALUATION_FAULTS
from enginery_operator.decide.seen import Observed, Verdict

FAULTS = frozenset(
    {
        Reason.CALIBRATION_DATA_NOT_FOUND,
        Reason.TOO_FEW_SAMPLES,
        Reason.CALIBRATION_DATA_INVALID,
        Reason.CALIBRATION_FAILED,
    }
)
"""Reasons of a prepare request that ended after the source was found good."""


def calibrated(seen: Observed) -> Verdict:
    """The condition."""
    precision, outcome = seen.current.precision, seen.outcome
    failure = seen.current.failure
    if failure is not None and failure.reason in FAULTS:
        after = f"asked again every {seen.recheck_seconds} s"
        return Verdict("False", failure.reason, f"{failure.message.rstrip('.; ')}; {after}")
    notes = "".join(f"; {note.rstrip('.; ')}" for note in outcome.notes) if outcome is not None else ""
    if precision.type not in QUANTIZED:
        return Verdict("True", Reason.NOT_REQUIRED, f"precision {precision.type}{notes}")
    if precision.prequantized:
        return Verdict("True", Reason.PREQUANTIZED, f"the model brings its own scales{notes}")
    if (silent := seen.current.outcome_trouble) is not None:
        return Verdict("Unknown", silent.reason, f"{silent.message}; will be retried")
    if failure is not None and failure.reason in EVALUATION_FAULTS:
        return Verdict("Unknown", Reason.PENDING, "waits for evaluation data that fit the model")
    if outcome is None:
        quiet = f"scales for {precision.type} are measured by the prepare Job"
        return Verdict("Unknown", Reason.RUNNING, jobs.preparing(seen, quiet).message)
    return Verdict("True", Reason.CALIBRATED, f"{_figures(seen)}{notes}")


def _figures(seen: Observed) -> str:
    record = seen.outcome.calibration if seen.outcome is not None else None
    if record is None:
        return f"scales for {seen.current.precision.type} are measured"
    distance = f", distance {record.distance} from the evaluation data" if record.distance else ""
    return f"{record.method} on {record.samples} samples{distance}"
