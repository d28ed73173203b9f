"""What the API server makes of the CRDs: defaults, subresources, columns, words for `kubectl explain`."""

import subprocess
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from enginery_operator.api.v1alpha1 import InferenceModel, Tenant
from enginery_operator.decide import decide
from enginery_operator.status import model_status, status_object
from support.api_objects import AModel, a_model, a_tenant, ago, defaulted, schema_of
from support.api_server import ApiServer
from support.eventually import eventually
from support.observed import a_job, an_accuracy, an_observed, an_outcome

pytestmark = pytest.mark.cluster


def fresh(namespace: str) -> AModel:
    model = a_model().named("resnet50", namespace)
    return model.having("metadata.uid", None).having("metadata.generation", None)


def test_defaults_are_filled_by_the_api_server_and_read_the_same_by_the_types(
    api: ApiServer, own_namespace: str
) -> None:
    body = fresh(own_namespace).body()
    spec = api.create(body)["spec"]
    assert spec == defaulted(body, "inferencemodels")["spec"]
    assert spec["state"] == "Serving"
    assert spec["precision"] == {"type": "FP32"}
    assert spec["build"]["optimizationLevel"] == 3
    assert spec["serving"] == {
        "server": "Native",
        "placement": "Dedicated",
        "fallback": "None",
        "cudaGraphs": {"mode": "Auto"},
        "protocols": ["REST", "GRPC"],
        "warmup": {"requests": 16},
    }
    assert spec["rollout"]["progressDeadlineSeconds"] == 1800
    parsed = InferenceModel.model_validate(body).spec
    assert parsed == InferenceModel.model_validate(body | {"spec": spec}).spec


def test_defaults_of_a_tenant_are_those_of_its_types(api: ApiServer) -> None:
    body = a_tenant("team-x").body()
    for name in ("uid", "generation", "resourceVersion", "creationTimestamp"):
        del body["metadata"][name]
    spec = api.dry_run(body).json()["spec"]
    assert spec == defaulted(body, "tenants")["spec"]
    assert spec["store"]["builderSecretName"] == "enginery-builder"
    assert Tenant.model_validate(body).spec == Tenant.model_validate(body | {"spec": spec}).spec


def test_unknown_fields_are_pruned_where_nobody_is_strict(api: ApiServer, own_namespace: str) -> None:
    body = fresh(own_namespace).having("spec.surprise", 1).body()
    assert "surprise" not in api.create(body)["spec"]


STATUSES: dict[str, Any] = {
    "at the beginning": an_observed().unpinned(),
    "while it is built": an_observed().prepared().engine(job=a_job("Running")),
    "after a failure with a very long message": an_observed()
    .prepared()
    .engine(failure=an_outcome(message="line " * 5000, reason=an_outcome().reason.BUILD_FAILED, exit_code=25)),
    "when a Job failed": an_observed().prepared().engine(job=a_job("Failed", finished_at=ago(5), exit_code=1)),
    "when it serves": an_observed(a_model().with_gate()).built(accuracy=an_accuracy("0.0009")).serves(),
    "when it is stopped": an_observed(a_model().stopped()).built(),
}


@pytest.mark.parametrize("sentence", STATUSES)
def test_every_status_the_operator_writes_fits_the_schema(sentence: str, api: ApiServer, own_namespace: str) -> None:
    body = api.create(fresh(own_namespace).body())
    seen = STATUSES[sentence].build()
    status = model_status(seen, decide(seen), {})
    wanted = status_object(body, "InferenceModel", status)
    path = f"/apis/enginery.io/v1alpha1/namespaces/{own_namespace}/inferencemodels/resnet50/status"
    answer = api.call(
        "PATCH",
        f"{path}?fieldManager=enginery&force=true&fieldValidation=Strict",
        wanted,
        kind="application/apply-patch+yaml",
    )
    assert answer.status_code == 200, answer.text
    written = answer.json()
    assert written["status"] == status
    assert written["metadata"]["generation"] == body["metadata"]["generation"]


def test_a_status_of_an_object_that_is_gone_makes_none(api: ApiServer, own_namespace: str) -> None:
    seen = an_observed().build()
    body = fresh(own_namespace).body()
    wanted = status_object(body, "InferenceModel", model_status(seen, decide(seen), {}))
    path = f"/apis/enginery.io/v1alpha1/namespaces/{own_namespace}/inferencemodels/resnet50/status"
    answer = api.call("PATCH", f"{path}?fieldManager=enginery&force=true", wanted, kind="application/apply-patch+yaml")
    assert answer.status_code == 404


def test_status_and_spec_are_written_apart(api: ApiServer, own_namespace: str) -> None:
    body = api.create(fresh(own_namespace).body())
    spec_through_status = api.patch(body, {"spec": {"state": "Stopped"}}, "/status").json()
    assert spec_through_status["spec"]["state"] == "Serving"
    status_through_spec = api.patch(body, {"status": {"engineSummary": "9/9"}}).json()
    assert status_through_spec.get("status", {}).get("engineSummary") != "9/9"


def test_generation_moves_with_the_spec_only(api: ApiServer, own_namespace: str) -> None:
    body = api.create(fresh(own_namespace).body())
    assert api.patch(body, {"metadata": {"labels": {"a": "b"}}}).json()["metadata"]["generation"] == 1
    assert api.patch(body, {"status": {"engineSummary": "1/1"}}, "/status").json()["metadata"]["generation"] == 1
    assert api.patch(body, {"spec": {"state": "Stopped"}}).json()["metadata"]["generation"] == 2


def test_conditions_of_other_writers_stay_beside_ours(api: ApiServer, own_namespace: str) -> None:
    body = api.create(fresh(own_namespace).body())
    path = f"/apis/enginery.io/v1alpha1/namespaces/{own_namespace}/inferencemodels/resnet50/status"

    def apply(manager: str, condition: str) -> Any:
        item = {"type": condition, "status": "True", "reason": "Because", "message": "m",
                "lastTransitionTime": "2026-03-01T12:00:00Z"}  # fmt: skip
        wanted = status_object(body, "InferenceModel", {"conditions": [item]})
        return api.call("PATCH", f"{path}?fieldManager={manager}", wanted, kind="application/apply-patch+yaml").json()

    apply("one", "Mine")
    found = {item["type"] for item in apply("two", "Theirs")["status"]["conditions"]}
    assert {"Mine", "Theirs"} <= found


def test_kubectl_scale_and_autoscalers_work(api: ApiServer, own_namespace: str) -> None:
    body = api.create(fresh(own_namespace).body())
    api.kube.kubectl("-n", own_namespace, "scale", "imodel/resnet50", "--replicas=3")
    path = f"/apis/enginery.io/v1alpha1/namespaces/{own_namespace}/inferencemodels/resnet50"
    assert api.call("GET", path).json()["spec"]["serving"]["replicas"] == 3
    status = {"replicas": 2, "selector": "enginery.io/model=resnet50"}

    def scale() -> Any:
        api.patch(body, {"status": status}, "/status")
        found = api.call("GET", f"{path}/scale").json()
        return found if found["status"].get("replicas") == 2 else None

    found = eventually(scale)
    assert found["spec"]["replicas"] == 3
    assert found["status"] == status
    refused = api.call("PATCH", f"{path}/scale", {"spec": {"replicas": 1001}}, kind="application/merge-patch+json")
    assert refused.status_code == 422


def test_columns_show_the_summary(api: ApiServer, own_namespace: str) -> None:
    api.create(fresh(own_namespace).body())
    narrow = api.kube.kubectl("-n", own_namespace, "get", "imodel").splitlines()[0].split()
    wide = api.kube.kubectl("-n", own_namespace, "get", "imodels", "-o", "wide").splitlines()[0].split()
    assert narrow == ["NAME", "READY", "REASON", "ENGINES", "PRECISION", "ACCELERATOR", "REPLICAS", "AGE"]
    assert wide[-3:] == ["URL", "REVISION", "MESSAGE"]
    assert "inferencemodel.enginery.io/resnet50" in api.kube.kubectl(
        "-n", own_namespace, "get", "enginery", "-o", "name"
    )


def paths(schema: dict[str, Any], prefix: str) -> list[str]:
    found = []
    for name, inner in schema.get("properties", {}).items():
        if name in {"apiVersion", "kind", "metadata"} and "." not in prefix:
            continue
        found += [f"{prefix}.{name}", *paths(inner.get("items", inner), f"{prefix}.{name}")]
    return found


@pytest.mark.parametrize("kind", ["inferencemodel", "tenant"])
def test_kubectl_explain_describes_every_field(kind: str, api: ApiServer) -> None:
    def undescribed(path: str) -> str | None:
        done = subprocess.run(
            [api.cluster.kubectl, "explain", path], capture_output=True, text=True, check=False, timeout=60
        )
        words = done.stdout.partition("DESCRIPTION:")[2].split("\n\n")[0].strip()
        return None if done.returncode == 0 and len(words) > 3 and "<empty>" not in words else f"{path}: {done.stdout}"

    every = paths(schema_of(f"{kind}s"), kind)
    assert len(every) > 60
    by_levels = {path.rpartition(".")[0] for path in every}
    with ThreadPoolExecutor(4) as pool:
        assert [fault for fault in pool.map(undescribed, sorted(by_levels)) if fault] == []
    whole = api.kube.kubectl("explain", kind, "--recursive")
    assert all(f"{path.rpartition('.')[2]}\t" in whole for path in every)
    document = api.call("GET", "/openapi/v3/apis/enginery.io/v1alpha1").json()
    name = {"inferencemodel": "InferenceModel", "tenant": "Tenant"}[kind]
    served = document["components"]["schemas"][f"io.enginery.v1alpha1.{name}"]
    assert described(served) >= {path.partition(".")[2] for path in every}


def described(schema: dict[str, Any], prefix: str = "") -> set[str]:
    """Paths that have words in the document that `kubectl explain` reads."""
    found = set()
    for name, inner in schema.get("properties", {}).items():
        path = f"{prefix}.{name}".lstrip(".")
        if len(inner.get("description", "")) > 3:
            found.add(path)
        found |= described(inner.get("items", inner), path)
    return found
