"""Nothing to do, nothing written: by the API server's audit log. The long variant is benchmarks/idle_writes.py."""

import time

from support.audit import Audit
from support.eventually import eventually
from support.kube import condition
from support.linear_model import linear
from support.workspace import Workspace

MODELS = 3
IDLE_SECONDS = 60
"""Four resyncs of every model, with the settings of these tests."""

QUIET_SECONDS = 5
"""The window begins when the operator has not written for so long: what earlier tests left behind is done."""


def test_ready_models_cause_no_write_but_the_lease(team: Workspace) -> None:
    names = [f"idle-{number}" for number in range(MODELS)]
    for number, name in enumerate(names):
        team.serve(name, linear(number + 2))
    team.wait_all(*names)
    eventually(lambda: _tenant_counts(team) == MODELS, 30)
    window = _quiet(team)
    versions = {name: _version(team, name) for name in names}
    started = time.monotonic()
    eventually(lambda: time.monotonic() - started > IDLE_SECONDS, IDLE_SECONDS + 10, 1)
    assert window.by_operator() == []
    renewed = [item for item in window.writes() if item.resource == "leases" and item.name == "enginery-operator"]
    assert len(renewed) > IDLE_SECONDS / 10, "the audit log does not show the operator's Lease, so it proves nothing"
    assert {name: _version(team, name) for name in names} == versions
    for name in names:
        assert condition(team.model(name), "Ready")["status"] == "True"


def _tenant_counts(team: Workspace) -> int:
    tenant = team.kube.get(f"/apis/enginery.io/v1alpha1/tenants/{team.name}") or {}
    ready: int = tenant.get("status", {}).get("models", {}).get("ready", 0)
    return ready


def _version(team: Workspace, name: str) -> str:
    model = team.model(name)
    assert model is not None
    return str(model["metadata"]["resourceVersion"])


def _quiet(team: Workspace) -> Audit:
    """An audit of a window that begins after the operator was quiet for a while."""
    path = team.kube.cluster.audit_log
    last, seen = [time.monotonic()], Audit.from_now(path)

    def quiet() -> bool:
        nonlocal seen
        if seen.by_operator():
            last[0], seen = time.monotonic(), Audit.from_now(path)
        return time.monotonic() - last[0] > QUIET_SECONDS

    eventually(quiet, 120, 0.5)
    return Audit.from_now(path)
