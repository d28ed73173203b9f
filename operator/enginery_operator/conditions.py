"""The one way conditions are written: transition time only on change, generation always, message cut. Pure.

Called by `status`; for InferenceModels and Tenants alike.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from enginery_operator.decide.seen import Verdict

MESSAGE_LIMIT = 1000
"""Longest message, in characters; the schema allows 1024."""


@dataclass(frozen=True)
class Transition:
    """A condition whose status or reason changed: one Event."""

    type: str
    verdict: Verdict


def timestamp(now: datetime) -> str:
    """RFC 3339 in UTC, whole seconds, as Kubernetes writes it."""
    return now.strftime("%Y-%m-%dT%H:%M:%SZ")


def merged(
    before: Iterable[Mapping[str, Any]], verdicts: Mapping[str, Verdict], *, generation: int, now: datetime
) -> list[dict[str, Any]]:
    """The list of conditions for status, in the order of `verdicts`."""
    earlier = {item["type"]: item for item in before}

    def one(name: str, verdict: Verdict) -> dict[str, Any]:
        same = name in earlier and earlier[name]["status"] == verdict.status
        return {
            "type": name,
            "status": verdict.status,
            "observedGeneration": generation,
            "lastTransitionTime": earlier[name]["lastTransitionTime"] if same else timestamp(now),
            "reason": verdict.reason.value,
            "message": cut(verdict.message),
        }

    return [one(name, verdict) for name, verdict in verdicts.items()]


def transitions(before: Iterable[Mapping[str, Any]], verdicts: Mapping[str, Verdict]) -> list[Transition]:
    """What changed in status or reason, and is worth telling: a condition that starts as Unknown is not."""
    earlier = {item["type"]: (item["status"], item["reason"]) for item in before}
    return [
        Transition(name, verdict)
        for name, verdict in verdicts.items()
        if earlier.get(name) != (verdict.status, verdict.reason.value)
        and not (name not in earlier and verdict.status == "Unknown")
    ]


def cut(message: str) -> str:
    """At most MESSAGE_LIMIT characters; the end says what happens next, so the middle goes."""
    if len(message) <= MESSAGE_LIMIT:
        return message
    return f"{message[: MESSAGE_LIMIT - 303]}...{message[-300:]}"
