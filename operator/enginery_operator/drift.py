"""Does an object hold what we want it to hold? Pure; called by `reconcile` before every write.

An apply that changes nothing is still a request, and ten thousand idle models would make ten thousand of them. So the
wanted fields are compared with the watched object first; what the API server or others added does not count.
"""

from collections.abc import Mapping
from typing import Any

from enginery_operator.api.quantity import quantity

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
        return _same_quantity(actual, wanted)
    return bool(actual == wanted)


def _same_quantity(one: str, two: str) -> bool:
    try:
        return quantity(one) == quantity(two)
    except ValueError:
        return one == two
