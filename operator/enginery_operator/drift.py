"""Does an object hold what we want it to hold? Pure; called by `reconcile` before every write.

An apply that changes nothing is still a request, and ten thousand idle models would make ten thousand of them. So the
wanted fields are compared with the watched object first; what the API server or others added does not count.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

_SUFFIXES = {"m": "0.001", "k": "1e3", "M": "1e6", "G": "1e9", "T": "1e12", "Ki": "1024", "Mi": "1048576",
             "Gi": "1073741824", "Ti": "1099511627776"}  # fmt: skip
_QUANTITY_PARENTS = frozenset({"requests", "limits", "emptyDir"})


def holds(actual: Any, wanted: Any, *, parent: str = "") -> bool:
    """Whether every field of `wanted` is in `actual` with the same value; lists must have the same length."""
    if actual is None and wanted in ("", {}, []):
        return True  # the API server drops what is empty
    if isinstance(wanted, Mapping):
        return isinstance(actual, Mapping) and all(
            holds(actual.get(key), value, parent=key if key in _QUANTITY_PARENTS else parent)
            for key, value in wanted.items()
            if value is not None
        )
    if isinstance(wanted, list):
        return (
            isinstance(actual, list)
            and len(actual) == len(wanted)
            and all(holds(one, two, parent=parent) for one, two in zip(actual, wanted, strict=True))
        )
    if parent in _QUANTITY_PARENTS and isinstance(wanted, str) and isinstance(actual, str):
        return _quantity(actual) == _quantity(wanted)
    return bool(actual == wanted)


def _quantity(text: str) -> Decimal | str:
    """The number a Kubernetes quantity means: the API server rewrites 1000m as 1."""
    digits = text.rstrip("kKMGTim")
    try:
        return Decimal(digits) * Decimal(_SUFFIXES[text[len(digits) :]] if len(digits) < len(text) else "1")
    except (ArithmeticError, KeyError):
        return text
