"""What the operator may do: nothing mis-spelt, nothing on Secrets, nothing it does not use."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.api_server import ApiServer, helm

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).parents[2]

USES: dict[tuple[str, str], dict[str, str]] = {
    # (group, resource): verb -> who uses it
    ("enginery.io", "inferencemodels"): {"list": "kopf's index", "watch": "kopf's index"},
    ("enginery.io", "inferencemodels/status"): {"patch": "reconcile._tell"},
    ("enginery.io", "tenants"): {"list": "kopf's index", "watch": "kopf's index"},
    ("enginery.io", "tenants/status"): {"patch": "reconcile._tell"},
    ("batch", "jobs"): {
        "get": "reconcile._foreign: is the name taken?",
        "list": "kopf's index",
        "watch": "kopf's index",
        "create": "reconcile._step",
        "patch": "reconcile._suspend",
        "delete": "reconcile._step",
    },
    ("apps", "deployments"): {
        "get": "reconcile._foreign: is the name taken?",
        "list": "kopf's index",
        "watch": "kopf's index",
        "create": "reconcile._apply: an apply that makes the object",
        "patch": "reconcile._apply",
        "delete": "reconcile._roll_out",
    },
    ("", "services"): {
        "get": "reconcile._foreign: is the name taken?",
        "list": "kopf's index",
        "watch": "kopf's index",
        "create": "reconcile._apply: an apply that makes the object",
        "patch": "reconcile._apply",
    },
    ("", "pods"): {"list": "kopf's index", "watch": "kopf's index"},
    ("events.k8s.io", "events"): {"create": "reconcile._post_event", "list": "cluster.why_no_pod"},
    ("", "namespaces"): {"list": "kopf's index", "watch": "kopf's index"},
    ("", "nodes"): {"list": "kopf's index", "watch": "kopf's index"},
    ("apiextensions.k8s.io", "customresourcedefinitions"): {
        "get": "__main__._require_crds",
        "list": "kopf's discovery",
        "watch": "kopf's discovery",
    },
    ("coordination.k8s.io", "leases"): {"get": "lease", "create": "lease", "update": "lease"},
}


def roles(api: ApiServer, values: dict[str, Any]) -> list[dict[str, Any]]:
    chart = str(ROOT / "helm/enginery")
    done = helm(api, "template", "enginery", chart, "-n", "enginery-system", "-f", "-", given=json.dumps(values))
    assert done.returncode == 0, done.stderr
    return [item for item in yaml.safe_load_all(done.stdout) if item and item["kind"] in {"Role", "ClusterRole"}]


def granted(found: list[dict[str, Any]]) -> dict[tuple[str, str], set[str]]:
    grants: dict[tuple[str, str], set[str]] = {}
    for role in found:
        for rule in role["rules"]:
            for group in rule["apiGroups"]:
                for resource in rule["resources"]:
                    grants.setdefault((group, resource), set()).update(rule["verbs"])
    return grants


WIDE, NARROW = {}, {"watchNamespaces": ["team-a", "team-b"]}


@pytest.mark.parametrize("values", [WIDE, NARROW], ids=["cluster", "namespaces"])
def test_every_verb_granted_is_used_and_every_use_is_granted(values: dict[str, Any], api: ApiServer) -> None:
    assert granted(roles(api, values)) == {key: set(verbs) for key, verbs in USES.items()}


@pytest.mark.parametrize("values", [WIDE, NARROW], ids=["cluster", "namespaces"])
def test_no_rule_reaches_secrets_or_everything(values: dict[str, Any], api: ApiServer) -> None:
    for role in roles(api, values):
        for rule in role["rules"]:
            words = {*rule["apiGroups"], *rule["resources"], *rule["verbs"]}
            assert not words & {"*", "secrets", "escalate", "bind", "impersonate"}
            assert "nonResourceURLs" not in rule


def test_every_group_and_resource_exists(api: ApiServer) -> None:
    for group, resource in granted(roles(api, WIDE)):
        path = f"/apis/{group}" if group else "/api"
        document = api.call("GET", path).json()
        version = document["preferredVersion"]["groupVersion"] if group else "v1"
        listed = api.call("GET", f"/apis/{version}" if group else "/api/v1").json()["resources"]
        there = {item["name"]: set(item["verbs"]) for item in listed}
        assert resource in there, (group, resource)
        assert set(USES[group, resource]) <= there[resource]


def test_only_what_is_cluster_scoped_by_nature_is_granted_everywhere_when_namespaces_are_named(
    api: ApiServer,
) -> None:
    found = roles(api, NARROW)
    everywhere = granted([role for role in found if role["kind"] == "ClusterRole"])
    assert set(everywhere) == {
        ("enginery.io", "tenants"),
        ("enginery.io", "tenants/status"),
        ("", "namespaces"),
        ("", "nodes"),
        ("apiextensions.k8s.io", "customresourcedefinitions"),
        ("events.k8s.io", "events"),
    }
    assert everywhere["", "namespaces"] == {"list", "watch"}
    where = [role["metadata"]["namespace"] for role in found if role["kind"] == "Role"]
    assert sorted(where) == ["enginery-system", "team-a", "team-b"]


def test_leases_are_granted_in_the_operators_own_namespace_only(api: ApiServer) -> None:
    holders = [role for role in roles(api, WIDE) if ("coordination.k8s.io", "leases") in granted([role])]
    assert [(role["kind"], role["metadata"]["namespace"]) for role in holders] == [("Role", "enginery-system")]


def test_the_kinds_that_are_written_are_those_that_are_granted() -> None:
    text = (ROOT / "operator/enginery_operator/cluster.py").read_text()
    plurals = set(re.findall(r'^    "[A-Z]\w+": ".*/(\w+)",$', text, re.MULTILINE))
    assert plurals <= {resource for _, resource in USES}
    assert {"jobs", "deployments", "services", "events", "leases"} <= plurals
