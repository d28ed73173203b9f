"""What the operator makes, judged by the real API server: the schema, and pods under the restricted standard."""

import json
from typing import Any

import pytest
import yaml
from enginery_operator.drift import holds
from support.api_server import ApiServer, collection
from support.golden import OUTPUT

pytestmark = pytest.mark.cluster

FILES = sorted((OUTPUT / "render").rglob("*.yaml"))


def rendered(path: Any, namespace: str) -> dict[str, Any]:
    """A golden object in a namespace of ours; its owner is one that the test does not make."""
    item: dict[str, Any] = yaml.safe_load(path.read_text())
    item["metadata"]["namespace"] = namespace
    pod = item["spec"].get("template", {}).get("spec", {})
    for container in (*pod.get("initContainers", []), *pod.get("containers", [])):
        container["env"] = [{"name": entry["name"], "value": json.dumps(entry["value"])} for entry in container["env"]]
    return item


@pytest.fixture
def restricted(api: ApiServer, own_namespace: str) -> str:
    labels = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}
    path = f"/api/v1/namespaces/{own_namespace}"
    answer = api.call("PATCH", path, {"metadata": {"labels": labels}}, kind="application/merge-patch+json")
    assert answer.status_code == 200
    return own_namespace


def named(path: Any) -> str:
    return f"{path.parent.name}/{path.stem}"


@pytest.mark.parametrize("path", FILES, ids=named)
def test_the_api_server_takes_it_without_a_warning(path: Any, api: ApiServer, restricted: str) -> None:
    item = rendered(path, restricted)
    answer = api.call("POST", f"{collection(item)}?dryRun=All&fieldValidation=Strict", item)
    assert answer.status_code == 201, answer.text
    assert "Warning" not in answer.headers


@pytest.mark.parametrize("path", [path for path in FILES if path.stem != "service"], ids=named)
def test_its_pods_are_admitted_under_the_restricted_standard(path: Any, api: ApiServer, restricted: str) -> None:
    template = rendered(path, restricted)["spec"]["template"]
    template["spec"].pop("priorityClassName", None)
    template["spec"]["restartPolicy"] = template["spec"].get("restartPolicy", "Always")
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": restricted}} | {
        "spec": template["spec"]
    }
    refusal = api.refusal(pod)
    assert refusal == ""
    worse = json.loads(json.dumps(pod))
    del worse["spec"]["securityContext"]["seccompProfile"]
    assert "violates PodSecurity" in api.refusal(worse)


def test_an_apply_of_what_is_there_changes_nothing(api: ApiServer, own_namespace: str) -> None:
    """The comparison that saves writes agrees with the API server: defaults it fills in are no drift."""
    for path in FILES:
        item = rendered(path, own_namespace)
        there = api.call("POST", f"{collection(item)}?dryRun=All", item).json()
        assert holds(there, {"metadata": item["metadata"], "spec": item["spec"]}), path


def _where(item: dict[str, Any]) -> str:
    return collection(item)
