"""One tenant with one namespace, made for a test: what its people do, in the words of a test.

    with workspace(kube) as team:
        team.serve("linear", linear())
        team.wait("linear")
        assert team.infer("linear", [1, 2, 3, 4]) == [3, 5, 7, 9]

Called by the tests in e2e/. Its name is random; what is removed in the end is what was made here.
"""

import json
import secrets
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
from botocore.exceptions import ClientError
from enginery_cluster import platform_team
from enginery_cluster.binaries import VERSITYGW, binary_path
from enginery_cluster.places import Places
from enginery_store.layout import engine_folder, parse_uri
from support.eventually import eventually
from support.kube import Kube, Object, condition, summary

API = "enginery.io/v1alpha1"
READY_SECONDS = 120
"""A tiny model takes 10 s from apply to Ready; a machine with two busy cores gets more."""


@dataclass(frozen=True)
class Workspace:
    """A tenant's namespace, which has the tenant's name."""

    kube: Kube
    access: platform_team.TenantAccess = field(repr=False)

    @property
    def name(self) -> str:
        return self.access.name

    # What a tenant does

    def upload(self, key: str, data: bytes) -> str:
        """Stores a file as the tenant's people would; its URI."""
        s3 = platform_team.s3_client(self.kube.cluster, self.access.uploader)
        s3.put_object(Bucket=platform_team.MODELS_BUCKET, Key=f"{self.name}/{key}", Body=data)
        return self.uri(key)

    def uri(self, key: str) -> str:
        return f"s3://{platform_team.MODELS_BUCKET}/{self.name}/{key}"

    def manifest(self, name: str, uri: str, **spec: Any) -> Object:
        """A model that asks for little; a dotted keyword such as source__digest reaches below spec.source."""
        wanted: Object = {
            "source": {"format": "ONNX", "uri": uri},
            "precision": {"type": "FP32"},
            "build": {"backoffLimit": 0},
            "accelerator": {"mode": "CPU"},
            "serving": {"replicas": 1, "resources": {"requests": {"cpu": "50m", "memory": "256Mi"}}},
        }
        for path, value in spec.items():
            *parents, leaf = path.split("__")
            place = wanted
            for parent in parents:
                place = place.setdefault(parent, {})
            place[leaf] = value
        return {
            "apiVersion": API,
            "kind": "InferenceModel",
            "metadata": {"name": name, "namespace": self.name},
            "spec": wanted,
        }

    def serve(self, name: str, model: bytes, **spec: Any) -> None:
        """Uploads a model under its own name and applies it."""
        self.apply(name, self.upload(f"{name}/model.onnx", model), **spec)

    def apply(self, name: str, uri: str, **spec: Any) -> None:
        self.kube.apply(self.manifest(name, uri, **spec))

    def patch(self, name: str, **spec: Any) -> None:
        change = {"spec": spec}
        self.kubectl("patch", "imodel", name, "--type=merge", "-p", json.dumps(change))

    def delete(self, name: str) -> None:
        self.kubectl("delete", "imodel", name, "--wait=true")

    def kubectl(self, *arguments: str) -> str:
        return self.kube.kubectl("-n", self.name, *arguments)

    # What a tenant sees

    def model(self, name: str) -> Object | None:
        return self.kube.get(f"/apis/{API}/namespaces/{self.name}/inferencemodels/{name}")

    def status(self, name: str) -> Object:
        found: Object = (self.model(name) or {}).get("status", {})
        return found

    def wait(
        self, name: str, kind: str = "Ready", status: str = "True", reason: str = "", timeout: float = READY_SECONDS
    ) -> Object:
        """The condition, once it has this status (and reason) for the current generation."""
        last: list[Object | None] = [None]

        def holds() -> Object | None:
            last[0] = self.model(name)
            found = condition(last[0], kind)
            current = (last[0] or {}).get("metadata", {}).get("generation") == found["observedGeneration"]
            return found if current and found["status"] == status and reason in {"", found["reason"]} else None

        try:
            return eventually(holds, timeout, 0.2) or {}
        except AssertionError:
            wanted = f"{kind}={status} {reason}".rstrip()
            raise AssertionError(f"{name}: no {wanted} within {timeout} s:\n{summary(last[0])}") from None

    def wait_all(self, *models: str, timeout: float = READY_SECONDS) -> None:
        for name in models:
            self.wait(name, timeout=timeout)

    def condition(self, name: str, kind: str = "Ready") -> Object:
        return condition(self.model(name), kind)

    def address(self, name: str) -> str:
        """The Service's address, which this machine reaches as pods do."""
        service = self.kube.get(f"/api/v1/namespaces/{self.name}/services/{name}")
        assert service is not None, f"no service {name}"
        return str(service["spec"]["clusterIP"])

    def infer(self, name: str, x: list[float]) -> list[float]:
        """One request to a linear model over REST; OSError when there is no answer."""
        tensor = {"name": "x", "shape": [1, len(x)], "datatype": "FP32", "data": x}
        url = f"http://{self.address(name)}:8000/v2/models/{name}/infer"
        try:
            answer = httpx.post(url, json={"inputs": [tensor]}, timeout=10)
        except httpx.TransportError as error:
            raise OSError(str(error)) from error
        if answer.status_code != 200:
            raise OSError(f"{answer.status_code} {answer.text[:200]}")
        data: list[float] = answer.json()["outputs"][0]["data"]
        return data

    # What the platform team sees

    def answers(self, name: str, x: list[float], want: list[float]) -> bool:
        """Whether requests are answered so within the time that a node's proxy may take to follow a Service (1 s)."""
        return eventually(lambda: self.infer(name, x) == want, 5)

    def pods(self, name: str, component: str = "runtime") -> list[Object]:
        """Pods of a model that are not on their way out."""
        selector = f"enginery.io/model={name},app.kubernetes.io/component={component}"
        found = self.kube.items(f"/api/v1/namespaces/{self.name}/pods", selector)
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    def jobs(self, name: str = "", stage: str = "") -> list[Object]:
        wanted = {"enginery.io/model": name, "app.kubernetes.io/component": stage}
        selector = ",".join(f"{key}={value}" for key, value in wanted.items() if value)
        return self.kube.items(f"/apis/batch/v1/namespaces/{self.name}/jobs", selector)

    def deployments(self, name: str) -> list[Object]:
        return self.kube.items(f"/apis/apps/v1/namespaces/{self.name}/deployments", f"enginery.io/model={name}")

    def events(self, name: str) -> list[Object]:
        found = self.kube.items(f"/apis/events.k8s.io/v1/namespaces/{self.name}/events")
        return [event for event in found if event.get("regarding", {}).get("name") == name]

    def stored(self, folder: str) -> list[str]:
        """Keys below a folder of the tenant's prefix: requests, prepared or engines."""
        prefix = parse_uri(self.access.prefix) / folder
        return _keys(platform_team.s3_client(self.kube.cluster), prefix.bucket, f"{prefix.key}/")

    def remove_engine(self, name: str) -> list[str]:
        """Deletes every object of a model's engines from the store; their keys."""
        s3, found = platform_team.s3_client(self.kube.cluster), []
        for engine in self.status(name)["engines"]:
            folder = engine_folder(parse_uri(self.access.prefix), engine["key"].removeprefix("sha256:"))
            for key in _keys(s3, folder.bucket, f"{folder.key}/"):
                s3.delete_object(Bucket=folder.bucket, Key=key)
                found.append(key)
        return found


@contextmanager
def workspace(kube: Kube, spec: Object | None = None, *, tenant: bool = True) -> Iterator[Workspace]:
    """A tenant under a random name. Without `tenant` everything but the Tenant object is there."""
    name = f"t-{secrets.token_hex(4)}"
    access = platform_team.add_tenant(kube.cluster, name, spec=spec)
    if not tenant:
        kube.kubectl("delete", "mtenant", name)
    try:
        yield Workspace(kube, access)
    finally:
        kube.kubectl("delete", "namespace", name, "--wait=false", "--ignore-not-found")
        kube.kubectl("delete", "mtenant", name, "--ignore-not-found")
        _forget(kube, access)


def _keys(s3: Any, bucket: str, prefix: str) -> list[str]:
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
    return [item["Key"] for page in pages for item in page.get("Contents", [])]


def _forget(kube: Kube, access: platform_team.TenantAccess) -> None:
    """Removes the tenant's objects, its users and what bucket policies say of them."""
    cluster = kube.cluster
    s3 = platform_team.s3_client(cluster)
    users = {access.builder.access_key, access.runtime.access_key, access.uploader.access_key}
    folders = {platform_team.MODELS_BUCKET: f"{access.name}/", platform_team.STORE_BUCKET: parse_uri(access.prefix).key}
    for bucket, folder in folders.items():
        for key in _keys(s3, bucket, folder):
            s3.delete_object(Bucket=bucket, Key=key)
        _drop_statements(s3, bucket, users)
    if cluster.provider == "namespaces":
        for user in users:
            _delete_user(kube, user)
    state = Places(cluster.name).state
    for path in [*state.glob(f"store-user-{access.name}-*.json"), state / f"tenant-{access.name}.json"]:
        path.unlink(missing_ok=True)


def _drop_statements(s3: Any, bucket: str, users: set[str]) -> None:
    try:
        policy = json.loads(s3.get_bucket_policy(Bucket=bucket)["Policy"])
    except ClientError:  # an object store whose policies are not ours
        return
    kept = [item for item in policy["Statement"] if not users & set(item["Principal"]["AWS"])]
    if len(kept) < len(policy["Statement"]):
        s3.put_bucket_policy(Bucket=bucket, Policy=json.dumps(policy | {"Statement": kept}))


def _delete_user(kube: Kube, user: str) -> None:
    root = kube.cluster.s3
    command = [
        str(binary_path(VERSITYGW)), "admin", "--access", root.access_key, "--secret", root.secret_key,
        "--endpoint-url", root.endpoint, "delete-user", "--access", user,
    ]  # fmt: skip
    subprocess.run(command, capture_output=True, check=False)
