"""The API server of the test cluster for tests that need no more: both CRDs in it, and a namespace of one's own.

Fixtures `api` and `own_namespace` are for tests/integration and tests/chart; ENGINERY_TEST_CLUSTER names another
cluster than `test`. Objects are judged with dry runs where that is enough, so that an operator in the same cluster
neither sees nor changes them.
"""

import os
import secrets
import subprocess
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from enginery_cluster.state import Cluster, NoClusterError
from enginery_operator.drift import holds
from support.eventually import eventually
from support.kube import Kube

CLUSTER = os.environ.get("ENGINERY_TEST_CLUSTER", "test")
GROUP = "/apis/enginery.io/v1alpha1"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
FOLDER = Path(__file__).parents[2] / "crds"

_RELEASE = {
    "labels": {"app.kubernetes.io/managed-by": "Helm"},
    "annotations": {
        "helm.sh/resource-policy": "keep",
        "meta.helm.sh/release-name": "enginery",
        "meta.helm.sh/release-namespace": "enginery-system",
    },
}
"""As the chart's release would have made them, so that a later install takes them over."""


@dataclass(frozen=True)
class ApiServer:
    """One API server, asked as root."""

    cluster: Cluster
    kube: Kube

    def call(self, method: str, path: str, body: Any = None, *, kind: str = "application/json") -> httpx.Response:
        """One request, whatever the answer."""
        headers = {"Content-Type": kind} if body is not None else {}
        return self.kube._http().request(method, path, json=body, headers=headers)

    def dry_run(self, body: dict[str, Any]) -> httpx.Response:
        """What creating this object would lead to."""
        return self.call("POST", f"{collection(body)}?dryRun=All&fieldValidation=Strict", body)

    def refusal(self, body: dict[str, Any]) -> str:
        """Why this object is refused; empty when it is not."""
        answer = self.dry_run(body)
        return "" if answer.status_code == 201 else str(answer.json()["message"])

    def create(self, body: dict[str, Any]) -> dict[str, Any]:
        """Create an object, which must succeed."""
        answer = self.call("POST", collection(body), body)
        assert answer.status_code == 201, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def patch(self, body: dict[str, Any], change: Any, subresource: str = "", query: str = "") -> httpx.Response:
        """Merge-patch an object."""
        path = f"{collection(body)}/{body['metadata']['name']}{subresource}{query}"
        return self.call("PATCH", path, change, kind="application/merge-patch+json")


def collection(body: dict[str, Any]) -> str:
    """Where objects of this kind live; our kinds and those that tests make."""
    plurals = {"InferenceModel": "inferencemodels", "Tenant": "tenants", "CustomResourceDefinition": ""}
    version, kind = body["apiVersion"], body["kind"]
    root = f"/api/{version}" if version == "v1" else f"/apis/{version}"
    namespace = body["metadata"].get("namespace")
    where = f"/namespaces/{namespace}" if namespace else ""
    return f"{root}{where}/{plurals.get(kind) or kind.lower() + 's'}"


@pytest.fixture(scope="session")
def api() -> Iterator[ApiServer]:
    """The API server with the committed CRDs in effect."""
    try:
        cluster = Cluster.load(CLUSTER)
    except NoClusterError as error:
        pytest.fail(f"{error}; or leave these tests out with -m 'not cluster'", pytrace=False)
    if cluster.provider == "existing" and os.environ.get("ENGINERY_TEST_ANY_CONTEXT") != "1":
        pytest.fail("these tests install CRDs; this cluster was not made by this checkout", pytrace=False)
    with closing(Kube(cluster)) as kube:
        server = ApiServer(cluster, kube)
        for file in sorted(FOLDER.glob("*.yaml")):
            _install(server, yaml.safe_load(file.read_text()))
        yield server


def _install(server: ApiServer, crd: dict[str, Any]) -> None:
    path = f"{CRDS}/{crd['metadata']['name']}"
    there = server.call("GET", path)
    if there.status_code == 200 and holds(there.json(), {"spec": crd["spec"]}):
        return
    wanted = crd | {"metadata": crd["metadata"] | _RELEASE}
    answer = server.call("PATCH", f"{path}?fieldManager=helm&force=true", wanted, kind="application/apply-patch+yaml")
    assert answer.status_code in {200, 201}, answer.text
    generation = answer.json()["metadata"]["generation"]

    def in_effect() -> bool:
        conditions = server.call("GET", path).json()["status"].get("conditions") or []
        established = any(item["type"] == "Established" and item["status"] == "True" for item in conditions)
        served = server.call("GET", f"{GROUP}/{crd['spec']['names']['plural']}?limit=1")
        return established and served.status_code == 200 and generation > 0

    eventually(in_effect, 30)


@pytest.fixture
def own_namespace(api: ApiServer) -> Iterator[str]:
    """A namespace of a random name, removed afterwards."""
    name = f"t-{secrets.token_hex(4)}"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    api.create(body)
    yield name
    api.call("DELETE", f"/api/v1/namespaces/{name}")


def helm(api: ApiServer, *arguments: str, given: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run helm against the test cluster, whether it succeeds or not."""
    return subprocess.run(
        [api.cluster.helm, *arguments], input=given, capture_output=True, text=True, check=False, timeout=120
    )
