"""From TensorRT's texts to our reasons. Called by the other modules of this package when TensorRT gives up.

It raises almost nothing: a failed call returns False, -1 or None, and the cause stands in its log and in the parser's
list of errors.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from enginery_store.errors import EngineryError, FinalError, PassingError
from enginery_store.reasons import Reason
from enginery_store.wording import quoted
from enginery_tensorrt.library import Line

from enginery_builder.tensorrt.failure_texts import NOISE, RULES

_ERRORS = frozenset({"ERROR", "INTERNAL_ERROR"})
_UNKNOWN_LIMIT = 300

_PREFIX = re.compile(r"^(?:[\w.]+::\w+: |\[[\w.:]+\] )?(?:Error Code \d+: )?(?:[\w ]+ \()?")
_SUFFIX = re.compile(r"\s*In \w+(?:\(\))? at \S+?:\d+.*$", re.DOTALL)
"""What stands around TensorRT's sentences: its function and error code before, its source file behind."""


@dataclass(frozen=True)
class ParserFault:
    """One entry of the ONNX parser's list of errors."""

    code: str
    function: str
    text: str
    operator: str = ""
    node: str = ""

    @property
    def where(self) -> str:
        """Operator and node for a sentence."""
        if not self.operator:
            return "an operator"
        return f"operator {quoted(self.operator)}" + (f" (node {quoted(self.node)})" if self.node else "")


_NOBODY = ParserFault("", "", "")


def failure(lines: Iterable[Line], faults: Iterable[ParserFault] = ()) -> EngineryError:
    """Our error for a call that failed: `lines` are TensorRT's log, oldest first, `faults` the parser's errors."""
    candidates = list(_candidates(list(lines), list(faults)))
    for text, fault in candidates:
        for rule in RULES:
            if found := rule.pattern.search(text):
                names = [quoted(group) if group else "(unnamed)" for group in found.groups()]
                return _error(rule.reason, rule.message.format(*names, where=fault.where))
    said = _plain(candidates[0][0]) if candidates else "it gave no cause"
    return FinalError(
        f"TensorRT failed: {said}; compare with spec.build.backend ONNXRuntime to see whether the model is at fault",
        reason=Reason.BUILD_FAILED,
    )


def _candidates(lines: list[Line], faults: list[ParserFault]) -> Iterator[tuple[str, ParserFault]]:
    """Texts that may name the cause, the most telling first.

    Of weights that cannot be read only a log line names the file, so those stand above the parser's errors.
    """
    logged = [line.text for line in lines if line.severity in _ERRORS]
    yield from ((text, _NOBODY) for text in logged if "WeightsContext" in text)
    for fault in faults:
        yield f"{fault.code} {fault.function} {fault.operator} {_without_noise(fault.text)}", fault
    yield from ((text, _NOBODY) for text in map(_without_noise, logged) if text)
    yield from ((line.text, _NOBODY) for line in lines if line.severity == "WARNING" and "insufficient" in line.text)
    yield from ((text, _NOBODY) for text in logged)


def _without_noise(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not NOISE.search(line))


def _error(reason: Reason, message: str) -> EngineryError:
    passing = reason is Reason.DEVICE_UNAVAILABLE
    return PassingError(message, reason=reason) if passing else FinalError(message, reason=reason)


def _plain(text: str) -> str:
    """The sentence itself, on one line."""
    text = " ".join(text.split())
    return _SUFFIX.sub("", _PREFIX.sub("", text))[:_UNKNOWN_LIMIT].strip(" (:.") or "it gave no cause"
