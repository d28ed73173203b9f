"""A release on a real cluster: CRDs are upgraded and kept, and the rendered roles are all the operator needs."""

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from enginery_store.identity import digest_of
from enginery_store.layout import MANIFEST_NAME, engine_folder, parse_uri, prepared_folder, request_object
from enginery_store.manifest import PreparedManifest, StoredFile, TensorSpec
from enginery_store.reasons import Reason
from enginery_store.requests import BuildRequest, Outcome
from support.api_objects import NOW, a_model, a_tenant
from support.api_server import ApiServer, collection, helm
from support.eventually import eventually
from support.kube import condition
from support.observed import DIGEST, a_manifest
from support.s3_servers import S3Server, moto_server

pytestmark = pytest.mark.cluster

CHART = Path(__file__).parents[2] / "helm/enginery"


def chart_of_group(folder: Path, group: str, *, old: bool) -> Path:
    """The chart with the Tenant's CRD alone, under names of a test's own; as `old`, without a field that came later."""
    copy = folder / ("old" if old else "new")
    shutil.copytree(CHART, copy)
    for template in (copy / "templates").iterdir():
        if template.name != "crd-tenants.yaml":
            template.unlink()
            continue
        head, body = template.read_text().split("\n", 1)
        crd = yaml.safe_load(body.replace("{{- end }}", ""))
        crd["metadata"]["name"] = f"occupants.{group}"
        crd["spec"]["group"] = group
        crd["spec"]["names"] = {
            "kind": "Occupant", "listKind": "OccupantList", "plural": "occupants", "singular": "occupant"}  # fmt: skip
        if old:
            schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
            del schema["properties"]["spec"]["properties"]["stopPolicy"]
        template.write_text(f"{head}\n{yaml.safe_dump(crd, sort_keys=False)}{{{{- end }}}}\n")
    return copy


def test_an_upgrade_upgrades_crds_and_stored_objects_stay_valid_both_ways(
    api: ApiServer, own_namespace: str, tmp_path: Path
) -> None:
    group = f"{own_namespace}.example.com"
    crd = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/occupants.{group}"
    old, new = (chart_of_group(tmp_path, group, old=flag) for flag in (True, False))

    def fields() -> set[str]:
        version = api.call("GET", crd).json()["spec"]["versions"][0]
        return set(version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"])

    def ran(*arguments: str) -> None:
        done = helm(api, *arguments, "--namespace", own_namespace)
        assert done.returncode == 0, done.stderr

    try:
        ran("install", "rel", str(old))
        assert "stopPolicy" not in fields()
        body = {"apiVersion": f"{group}/v1alpha1", "kind": "Occupant", "metadata": {"name": "old"}}
        body["spec"] = a_tenant("old").body()["spec"]
        eventually(lambda: api.call("POST", collection(body), body).status_code in {201, 409})
        ran("upgrade", "rel", str(new))
        assert "stopPolicy" in fields()

        def patched(change: Any) -> Any:
            answer = api.patch(body, {"spec": change})
            return answer.json().get("spec", {}) if answer.status_code == 200 else {}

        eventually(lambda: patched({"stopPolicy": "Hold"}).get("stopPolicy") == "Hold")
        ran("rollback", "rel", "1")
        assert "stopPolicy" not in fields()
        assert eventually(lambda: patched({"displayName": "still valid"}))["displayName"] == "still valid"
        ran("uninstall", "rel")
        assert api.call("GET", crd).status_code == 200
        assert api.call("GET", f"{collection(body)}/old").status_code == 200
    finally:
        api.call("DELETE", crd)


@dataclass(frozen=True)
class Narrow:
    """An operator that runs with the rendered roles of `watchNamespaces: [watched]` and nothing else."""

    api: ApiServer
    home: str
    watched: str
    other: str
    s3: S3Server
    log: Path
    audit_start: int

    def model(self, namespace: str) -> Any:
        return self.api.kube.get(f"/apis/enginery.io/v1alpha1/namespaces/{namespace}/inferencemodels/m") or {}

    def jobs(self, stage: str) -> list[Any]:
        path = f"/apis/batch/v1/namespaces/{self.watched}/jobs"
        return self.api.kube.items(path, f"app.kubernetes.io/component={stage}")

    def written(self) -> list[tuple[str, str, int]]:
        """(verb, resource, code) of every write of the operator, from the audit log."""
        user = f"system:serviceaccount:{self.home}:rel-enginery"
        with Path(self.api.cluster.audit_log).open() as log:
            log.seek(self.audit_start)
            entries = [json.loads(line) for line in log if user in line and line.endswith("}\n")]
        return [
            (
                entry["verb"],
                "/".join(filter(None, (entry["objectRef"]["resource"], entry["objectRef"].get("subresource")))),
                entry["responseStatus"].get("code", 0),
            )
            for entry in entries
            if entry["user"]["username"] == user
        ]


@contextmanager
def no_other_operator(api: ApiServer) -> Iterator[None]:
    """The chart that other tests installed in this cluster acts on every namespace: it stands still meanwhile."""
    path = "/apis/apps/v1/namespaces/enginery-system/deployments/enginery"
    there = api.call("GET", path)
    replicas = there.json()["spec"]["replicas"] if there.status_code == 200 else 0

    def scale(number: int) -> None:
        api.call("PATCH", f"{path}/scale", {"spec": {"replicas": number}}, kind="application/merge-patch+json")

    if not replicas:
        yield
        return
    scale(0)
    pods = "/api/v1/namespaces/enginery-system/pods"
    eventually(lambda: not api.kube.items(pods, "app.kubernetes.io/component=operator"), 60)
    try:
        yield
    finally:
        scale(replicas)
        eventually(lambda: api.call("GET", path).json()["status"].get("readyReplicas", 0) >= replicas, 90)


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with moto_server() as server:
        yield server


@pytest.fixture
def narrow(api: ApiServer, s3: S3Server, tmp_path: Path) -> Iterator[Narrow]:
    names = [f"t-{secrets.token_hex(4)}" for _ in range(3)]
    home, watched, other = names
    for name in names:
        api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    values = {
        "watchNamespaces": [watched],
        "images": {key: {"repository": "nowhere/image", "tag": "1"} for key in ("operator", "builder", "runtime")}
        | {"pullPolicy": "Never"},
        "store": {"endpoint": s3.endpoint},
        "crds": {"enabled": False},
        "config": {
            "resyncSeconds": 5,
            "jobs": {"startDeadlineSeconds": 1, "retryBaseSeconds": 1, "cpuRequest": "10m", "memoryRequest": "16Mi"},
        },
    }
    done = helm(api, "template", "rel", str(CHART), "-n", home, "-f", "-", given=json.dumps(values))
    assert done.returncode == 0, done.stderr
    rendered = [item for item in yaml.safe_load_all(done.stdout) if item]
    account = [item for item in rendered if item["kind"] in {
        "ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"}]  # fmt: skip
    api.kube.apply(*account)
    config = next(item for item in rendered if item["kind"] == "ConfigMap")["data"]["config.yaml"]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (tmp_path / "store").mkdir()
    (tmp_path / "store/AWS_ACCESS_KEY_ID").write_text(s3.access_key)
    (tmp_path / "store/AWS_SECRET_ACCESS_KEY").write_text(s3.secret_key)
    settings = yaml.safe_load(config) | {"httpPort": port, "storeCredentialsFolder": str(tmp_path / "store")}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(settings))
    token = api.kube.kubectl("-n", home, "create", "token", "rel-enginery").strip()
    kubeconfig = yaml.safe_load(Path(api.cluster.kubeconfig).read_text())
    kubeconfig["users"][0]["user"] = {"token": token}
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(kubeconfig))
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "KUBECONFIG": str(tmp_path / "kubeconfig"),
        "ENGINERY_CONFIG": str(tmp_path / "config.yaml"),
        "POD_NAME": "operator-0",
    }
    log = tmp_path / "operator.log"
    start = Path(api.cluster.audit_log).stat().st_size if api.cluster.audit_log else 0
    with no_other_operator(api), log.open("w") as output:
        command = [sys.executable, "-m", "enginery_operator"]
        process = subprocess.Popen(command, env=environment, stderr=output, stdout=output, cwd=tmp_path)
        try:
            yield Narrow(api, home, watched, other, s3, log, start)
            process.terminate()
            assert process.wait(15) == 0, log.read_text()[-3000:]
        finally:
            process.kill()
            process.wait()
            api.call("DELETE", f"/apis/enginery.io/v1alpha1/tenants/{watched}")
            api.kube.kubectl("delete", "namespace", *names, "--wait=false")
            for item in account:
                if item["kind"].startswith("ClusterRole"):
                    api.kube.kubectl("delete", item["kind"].lower(), item["metadata"]["name"])


def test_the_rendered_roles_of_named_namespaces_are_all_the_operator_needs(narrow: Narrow) -> None:
    api, bucket = narrow.api, narrow.s3.bucket()
    prefix = f"s3://{bucket.name}/tenants/x/"
    tenant = a_tenant(narrow.watched, narrow.watched, narrow.other).body()
    tenant["metadata"] = {"name": narrow.watched}
    tenant["spec"]["store"]["prefix"] = prefix
    api.create(tenant)
    bucket.admin.put_object(Bucket=bucket.name, Key="models/m.onnx", Body=b"a model")
    for namespace in (narrow.watched, narrow.other):
        body = a_model().named("m", namespace).having("spec.source.uri", f"s3://{bucket.name}/models/m.onnx")
        api.create(body.having("metadata.uid", None).having("metadata.generation", None).body())

    # An image nobody has: the Job is suspended, and after its pause asked again.
    first = eventually(lambda: narrow.jobs("prepare"), 30)[0]["metadata"]["name"]
    eventually(lambda: first not in [job["metadata"]["name"] for job in narrow.jobs("prepare")], 60)

    # What the builder would have left in the store.
    job = eventually(lambda: narrow.jobs("prepare"), 30)[-1]
    key, prepared = _request(job)["key"], "b" * 64
    where = parse_uri(prefix)
    _publish_prepared(bucket, prefix, prepared)
    outcome = Outcome(key=key, reason=Reason.DIGEST_RECORDED, prepared_key=prepared, source_digest=DIGEST,
                      source_size_bytes=7, finished_at=NOW)  # fmt: skip
    _put(bucket, request_object(where, key), outcome.to_json())
    build = eventually(lambda: narrow.jobs("build"), 60)[-1]
    request = BuildRequest.model_validate(_request(build))
    folder = engine_folder(where, request.key)
    manifest = a_manifest(request.target, key=request.key, prepared_key=prepared)
    _put(bucket, folder / manifest.file.name, b"x" * 1000)
    _put(bucket, folder / MANIFEST_NAME, manifest.to_json())

    deployments = f"/apis/apps/v1/namespaces/{narrow.watched}/deployments"
    eventually(lambda: api.kube.items(deployments), 60)
    eventually(lambda: api.kube.get(f"/api/v1/namespaces/{narrow.watched}/services/m"), 30)
    eventually(lambda: condition(narrow.model(narrow.watched), "EnginesReady")["status"] == "True", 30)
    api.patch({"apiVersion": "enginery.io/v1alpha1", "kind": "InferenceModel",
               "metadata": {"name": "m", "namespace": narrow.watched}}, {"spec": {"state": "Stopped"}})  # fmt: skip
    eventually(lambda: not api.kube.items(deployments), 30)
    eventually(lambda: condition(narrow.model(narrow.watched), "Ready")["reason"] == "Stopped", 30)
    assert condition(api.kube.get(f"/apis/enginery.io/v1alpha1/tenants/{narrow.watched}"), "Active")["status"] == "True"
    assert "status" not in narrow.model(narrow.other)

    text = narrow.log.read_text()
    assert "orbidden" not in text
    assert " 403" not in text
    if not api.cluster.audit_log:
        return
    eventually(lambda: ("patch", "tenants/status", 200) in narrow.written(), 10)
    written = narrow.written()
    assert [item for item in written if item[2] in {401, 403}] == []
    assert {(verb, resource) for verb, resource, _ in written} - {("create", "selfsubjectaccessreviews")} == {
        ("create", "jobs"), ("patch", "jobs"), ("delete", "jobs"),
        ("patch", "deployments"), ("delete", "deployments"),
        ("patch", "services"),
        ("create", "events"),
        ("patch", "inferencemodels/status"), ("patch", "tenants/status"),
        ("create", "leases"), ("update", "leases"),
    }  # fmt: skip


def _request(job: Any) -> Any:
    environment = job["spec"]["template"]["spec"]["containers"][0]["env"]
    return json.loads(next(entry["value"] for entry in environment if entry["name"] == "ENGINERY_REQUEST"))


def _put(bucket: Any, where: Any, data: bytes) -> None:
    bucket.admin.put_object(Bucket=where.bucket, Key=where.key, Body=data)


def _publish_prepared(bucket: Any, prefix: str, key: str) -> None:
    folder = prepared_folder(parse_uri(prefix), key)
    manifest = PreparedManifest(
        key=key, source_digest=DIGEST, source_size_bytes=7, source_format="ONNX", precision="FP32",
        inputs=[TensorSpec(name="x", datatype="FP32", shape=[1])],
        outputs=[TensorSpec(name="y", datatype="FP32", shape=[1])],
        files=[StoredFile(name="model.onnx", sha256=digest_of("x"), size_bytes=1)],
        opset=17, tool_versions={}, created_at=NOW,
    )  # fmt: skip
    _put(bucket, folder / "model.onnx", b"x")
    _put(bucket, folder / MANIFEST_NAME, manifest.to_json())
