"""Does an object hold what we want it to hold? Pure; called by `reconcile` before every write.

An apply that changes nothing is still a request, and ten thousand idle models would make ten thousand of them. So the
wanted fields are compared with the watched object first; what the API server or others added does not count.
"""

from collections.abc import Mapping
from typing import Any

from enginery_operator.api.quantity import quantity

_QUANTITY_PARENTS = frozenset({"requests", "limits", "emptyDir"})


def holds(actual: Any, wanted: Any, *, parent: str = "") -> bool:
    """Whether every field of `wanted` is in `actual` with the same value.

    Lists of named items (containers, variables, volumes, ports) are compared by name, as the API server merges them:
    what others added stays, and would be asked for in vain. Other lists must be equal item by item.
    """
    if actual is None and wanted in ("", {}, []):
        return True  # the API server drops what is empty
    if isinstance(wanted, Mapping):
        return isinstance(actual, Mapping) and all(
            holds(actual.get(key), value, parent=key if key in _QUANTITY_PARENTS else parent)
            for key, value in wanted.items()
            if value is not None
        )
    if isinstance(wanted, list) and isinstance(actual, list) and _named(wanted) and _named(actual):
        there = {item["name"]: item for item in actual}
        return all(holds(there.get(item["name"]), item, parent=parent) for item in wanted)
    if isinstance(wanted, list):
        return (
            isinstance(actual, list)
            and len(actual) == len(wanted)
            and all(holds(one, two, parent=parent) for one, two in zip(actual, wanted, strict=True))
        )
    if parent in _QUANTITY_PARENTS and isinstance(wanted, str) and isinstance(actual, str):
        return _same_quantity(actual, wanted)
    return bool(actual == wanted)


def _named(items: list[Any]) -> bool:
    """Whether each item has a name of its own."""
    names = [item.get("name") if isinstance(item, Mapping) else None for item in items]
    return bool(names) and None not in names and len(set(names)) == len(names)


def _same_quantity(one: str, two: str) -> bool:
    try:
        return quantity(one) == quantity(two)
    except ValueError:
        return one == two
