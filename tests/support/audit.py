"""Who wrote what, from the API server's own audit log. Called by the tests in e2e/ and by benchmarks/idle_writes.py.

The log says what really reached the API server, so it proves "created once" and "nothing written", which a look at the
objects afterwards cannot.
"""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

OPERATOR = "system:serviceaccount:enginery-system:enginery"
"""The operator's user."""


@dataclass(frozen=True)
class Write:
    """One write request that the API server answered."""

    user: str
    verb: str
    resource: str
    subresource: str
    namespace: str
    name: str
    code: int


@dataclass(frozen=True)
class Audit:
    """The log from a position on."""

    path: Path
    start: int = 0

    @classmethod
    def from_now(cls, path: str) -> "Audit":
        """Only what comes after this call."""
        return cls(Path(path), Path(path).stat().st_size)

    def writes(self) -> list[Write]:
        """Every write since, in the order of the log."""
        with self.path.open("rb") as log:
            log.seek(self.start)
            text = log.read()
        complete = text[: text.rfind(b"\n") + 1]
        return [_write(json.loads(line)) for line in complete.splitlines()]

    def by_operator(self) -> list[Write]:
        """Writes of the operator, its Lease apart."""
        return [item for item in self.writes() if item.user == OPERATOR and item.resource != "leases"]

    def created(self, resource: str, namespace: str) -> Counter[str]:
        """How often an object of each name was created; a refused create (it was there already) is none."""
        return names(
            item
            for item in self.writes()
            if (item.verb, item.resource, item.namespace, item.code) == ("create", resource, namespace, 201)
        )

    def deleted(self, resource: str, namespace: str) -> Counter[str]:
        """How often somebody deleted an object of each name."""
        return names(
            item
            for item in self.writes()
            if (item.verb, item.resource, item.namespace) == ("delete", resource, namespace) and item.code < 300
        )


def names(writes: Iterable[Write]) -> Counter[str]:
    """Writes counted by the name they touch."""
    return Counter(item.name for item in writes)


def _write(entry: dict[str, object]) -> Write:
    where, user, answer = (entry.get(name) or {} for name in ("objectRef", "user", "responseStatus"))
    assert isinstance(where, dict)
    assert isinstance(user, dict)
    assert isinstance(answer, dict)
    return Write(
        user=user.get("username", ""),
        verb=str(entry["verb"]),
        resource=where.get("resource", ""),
        subresource=where.get("subresource", ""),
        namespace=where.get("namespace", ""),
        name=where.get("name", ""),
        code=int(answer.get("code", 0)),
    )
