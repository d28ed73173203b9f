"""What stays true while the store is silent. Pure; called by `decide` between the gates and their summary."""

from enginery_store.reasons import Reason

from enginery_operator.api.v1alpha1 import InferenceModel
from enginery_operator.decide.seen import Verdict

_SILENT = frozenset({Reason.STORE_UNAVAILABLE, Reason.STORE_TLS_FAILED, Reason.PENDING})
"""Reasons of an Unknown that says nothing against what was found before."""


def remembered(model: InferenceModel, gates: dict[str, Verdict]) -> dict[str, Verdict]:
    """What was found true for this generation stays true: nothing has said otherwise."""
    conditions = (model.status.conditions if model.status else None) or []
    earlier = {item.type: item for item in conditions if item.observed_generation == model.generation}

    def one(name: str, verdict: Verdict) -> Verdict:
        known = earlier.get(name)
        if verdict.status != "Unknown" or verdict.reason not in _SILENT or known is None or known.status != "True":
            return verdict
        return Verdict("True", Reason(known.reason), known.message)

    return {name: one(name, verdict) for name, verdict in gates.items()}
