"""Fixtures of the end-to-end tests: the cluster named test, the chart in it, and tenants of random names.

Nothing here runs on a cluster that this checkout did not make, unless ENGINERY_TEST_ANY_CONTEXT=1 says so: the tests
kill the operator, stop the object store and restart the API server.
"""

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from enginery_cluster import platform_team
from enginery_cluster.state import Cluster, NoClusterError
from support import operator_pod
from support.audit import Audit
from support.evaluation_files import npz
from support.kube import Kube, Object
from support.linear_model import linear
from support.workspace import Workspace, workspace

CLUSTER = "test"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test of this folder needs the cluster."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.cluster)


@pytest.fixture(scope="session")
def cluster() -> Cluster:
    """The cluster named test, if it is one of ours."""
    try:
        found = Cluster.load(CLUSTER)
    except NoClusterError as error:
        pytest.fail(f"{error}; or leave these tests out with -m 'not cluster'", pytrace=False)
    _refuse_strangers(found)
    assert found.images.operator, "the images are not loaded: make images NAME=test"
    return found


def _refuse_strangers(found: Cluster) -> None:
    if os.environ.get("ENGINERY_TEST_ANY_CONTEXT") == "1":
        return
    asked = subprocess.run([found.kubectl, "config", "current-context"], capture_output=True, text=True, check=False)
    context = asked.stdout.strip()
    if found.provider == "existing" or context != found.context:
        pytest.fail(
            f"context {context} ({found.provider}) was not made by this checkout; set ENGINERY_TEST_ANY_CONTEXT=1 to"
            " have these tests install, kill and restart things in it",
            pytrace=False,
        )


@pytest.fixture(scope="session")
def kube(cluster: Cluster) -> Iterator[Kube]:
    """The cluster with the chart installed, an operator in charge, and settings that make seconds of minutes."""
    platform_team.install(cluster, config=operator_pod.CONFIG)
    connection = Kube(cluster)
    operator_pod.wait_acting(connection)
    yield connection
    connection.close()


@pytest.fixture(scope="session")
def node(cluster: Cluster) -> Cluster:
    """A cluster whose processes are ours to stop and kill."""
    if cluster.provider != "namespaces":
        pytest.skip("stops processes of the node, which this cluster keeps to itself")
    return cluster


@pytest.fixture
def audit(cluster: Cluster, kube: Kube) -> Audit:
    """The API server's audit log from here on."""
    if not cluster.audit_log:
        pytest.skip("this cluster gives nobody its audit log")
    return Audit.from_now(cluster.audit_log)


@pytest.fixture
def team(kube: Kube) -> Iterator[Workspace]:
    """A tenant of this test's own."""
    with workspace(kube) as made:
        yield made


@pytest.fixture
def new_team(kube: Kube) -> Iterator[Callable[..., Workspace]]:
    """Makes tenants with a spec of the test's own."""
    with ExitStack() as stack:

        def make(spec: Object | None = None, **options: Any) -> Workspace:
            return stack.enter_context(workspace(kube, spec, **options))

        yield make


@pytest.fixture(scope="session")
def shop(kube: Kube) -> Iterator[Workspace]:
    """A tenant with one Ready model, `linear` (y = 2x + 1, two replicas, an accuracy gate), that tests ask and leave
    as it is.
    """
    with workspace(kube) as made:
        made.upload("linear/evaluation/data.npz", npz(x=np.arange(400, dtype=np.float32).reshape(100, 4)))
        gate = {"uri": made.uri("linear/evaluation/"), "metric": "MaxAbsError", "maxDegradation": "0.010"}
        made.serve("linear", linear(), serving__replicas=2, precision__accuracyGate=gate | {"samples": 100})
        made.wait("linear")
        yield made
