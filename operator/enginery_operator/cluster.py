"""The only Kubernetes I/O of the operator besides kopf's watches: five verbs, and errors converted in one place.

Called by `reconcile` and `__main__`. Objects are plain dicts. Writes are server-side apply under one field manager,
so that what tenants and autoscalers own stays theirs; Jobs are immutable and therefore created once.
"""

import json
import re
from typing import Any

import aiohttp
from kubernetes.aio import client, config
from kubernetes.aio.client.exceptions import ApiException

from enginery_operator import metrics
from enginery_operator.errors import (
    ClusterError,
    ClusterUnavailableError,
    ConflictError,
    ExistsError,
    GoneError,
    RefusedError,
)

Object = dict[str, Any]

FIELD_MANAGER = "enginery"
"""Owner of every field the operator applies."""

REQUEST_TIMEOUT_SECONDS = 15
"""No call may hang a worker longer."""

_APPLY = "application/apply-patch+yaml; charset=utf-8"
"""With its parameter the client sends our bytes as they are, in place of JSON of its own."""

_NOT_IN_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")

_PATHS = {
    "InferenceModel": "/apis/enginery.io/v1alpha1/namespaces/{namespace}/inferencemodels",
    "Tenant": "/apis/enginery.io/v1alpha1/tenants",
    "Job": "/apis/batch/v1/namespaces/{namespace}/jobs",
    "Deployment": "/apis/apps/v1/namespaces/{namespace}/deployments",
    "Service": "/api/v1/namespaces/{namespace}/services",
    "Event": "/apis/events.k8s.io/v1/namespaces/{namespace}/events",
    "Lease": "/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases",
    "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
}
"""Where each kind we touch lives; the RBAC rules of the chart name the same kinds."""


class Cluster:
    """A connection to one API server."""

    def __init__(self, api: client.ApiClient) -> None:
        self._api = api

    @classmethod
    async def connect(cls) -> "Cluster":
        """From inside a pod by its service account, from outside by KUBECONFIG."""
        try:
            config.load_incluster_config()
        except config.ConfigException:
            await config.load_kube_config()
        return cls(client.ApiClient())

    async def close(self) -> None:
        """Give back connections."""
        await self._api.close()

    async def apply(self, wanted: Object) -> Object:
        """Create or change an object to hold exactly the fields of `wanted`; others' fields stay."""
        return await self._patch(wanted, "")

    async def apply_status(self, wanted: Object) -> Object:
        """The same for the status subresource. Raises GoneError when the object was deleted."""
        return await self._patch(wanted, "/status")

    async def create_once(self, wanted: Object) -> bool:
        """Create an object under its own name; one that exists already is success. Returns whether it was created."""
        try:
            await self._call("POST", _collection(wanted), body=wanted, query=[("fieldManager", FIELD_MANAGER)])
        except ExistsError:
            return False
        _count("create", wanted)
        return True

    async def patch(self, kind: str, namespace: str, name: str, change: Object) -> None:
        """Merge-patch a few fields of an object that must exist."""
        address = f"{_PATHS[kind].format(namespace=namespace)}/{name}"
        await self._call("PATCH", address, body=change, content_type="application/merge-patch+json")
        metrics.WRITES.labels("patch", kind).inc()

    async def delete(self, kind: str, namespace: str, name: str) -> None:
        """Delete an object and, in the background, what it owns; absent is success."""
        address = f"{_PATHS[kind].format(namespace=namespace)}/{name}"
        try:
            await self._call("DELETE", address, query=[("propagationPolicy", "Background")])
        except GoneError:
            return
        metrics.WRITES.labels("delete", kind).inc()

    async def get(self, kind: str, namespace: str, name: str) -> Object | None:
        """Read one object past every cache; None when there is none."""
        try:
            return await self._call("GET", f"{_PATHS[kind].format(namespace=namespace)}/{name}")
        except GoneError:
            return None

    async def why_no_pod(self, namespace: str, job: str) -> str | None:
        """What the Job controller last said of a pod that was refused it: it says so in Events and nowhere else."""
        chosen = f"reason=FailedCreate,regarding.kind=Job,regarding.name={job}"
        found = await self._call("GET", _PATHS["Event"].format(namespace=namespace), query=[("fieldSelector", chosen)])
        latest = max(found.get("items", []), key=_last_seen, default=None)
        return None if latest is None else str(latest.get("note", ""))

    async def replace(self, wanted: Object) -> Object:
        """Write an object whole, if it is still of the version it carries; raises ConflictError otherwise."""
        return await self._call("PUT", f"{_collection(wanted)}/{wanted['metadata']['name']}", body=wanted)

    async def _patch(self, wanted: Object, subresource: str) -> Object:
        address = f"{_collection(wanted)}/{wanted['metadata']['name']}{subresource}"
        answer = await self._call(
            "PATCH",
            address,
            body=_yaml(wanted),
            query=[("fieldManager", FIELD_MANAGER), ("force", "true")],
            content_type=_APPLY,
        )
        _count(f"apply{subresource}", wanted)
        return answer

    async def _call(
        self,
        method: str,
        path: str,
        *,
        body: Object | bytes | None = None,
        query: list[tuple[str, str]] | None = None,
        content_type: str = "application/json",
    ) -> Object:
        headers = {"Accept": "application/json"} | ({"Content-Type": content_type} if body is not None else {})
        request = await self._api.param_serialize(
            method, path, query_params=query or [], header_params=headers, body=body, auth_settings=["BearerToken"]
        )
        try:
            answer = await self._api.call_api(*request, _request_timeout=REQUEST_TIMEOUT_SECONDS)
            await answer.read()
        except ApiException as error:
            raise _converted(error.status, error.body or error.reason) from None
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise ClusterUnavailableError(f"the API server does not answer: {error or type(error).__name__}") from None
        if answer.status >= 300:  # noqa: PLR2004 - HTTP
            raise _converted(answer.status, answer.data)
        try:
            parsed: Object = json.loads(answer.data)
        except ValueError:
            raise ClusterUnavailableError("the API server's answer was cut", answer.status) from None
        return parsed


def _yaml(obj: Object) -> bytes:
    """JSON that is YAML too, as which an apply is parsed: without surrogate pairs, which JSON writes for what lies
    beyond U+FFFF and YAML refuses, and without bare control characters. Half a pair is no character at all.
    """

    def escaped(found: re.Match[str]) -> str:
        code = ord(found[0])
        return "\\ufffd" if 0xD800 <= code <= 0xDFFF else f"\\u{code:04x}"  # noqa: PLR2004 - the surrogates

    return _NOT_IN_YAML.sub(escaped, json.dumps(obj, ensure_ascii=False)).encode()


def _collection(obj: Object) -> str:
    return _PATHS[obj["kind"]].format(namespace=obj["metadata"].get("namespace", ""))


def _last_seen(event: Object) -> str:
    series = event.get("series") or {}
    return str(series.get("lastObservedTime") or event.get("deprecatedLastTimestamp") or event.get("eventTime") or "")


def _count(verb: str, obj: Object) -> None:
    metrics.WRITES.labels(verb, obj["kind"]).inc()


def _converted(status: int, body: str | bytes | None) -> ClusterError:
    """The API server's answer as one of our errors; its message is kept, it is written for people."""
    document = _document(body)
    message = str(document.get("message") or f"the API server answered {status}")
    if status == 409:  # noqa: PLR2004 - HTTP
        return (ExistsError if document.get("reason") == "AlreadyExists" else ConflictError)(message, status)
    if status == 404 or "because it is being terminated" in message:  # noqa: PLR2004 - HTTP
        return GoneError(message, status)
    if status in {400, 403, 422}:
        return RefusedError(message, status)
    return ClusterUnavailableError(message, status)


def _document(body: str | bytes | None) -> Object:
    """The Status object in an answer; what a proxy wrote in its place is the message."""
    text = body.decode(errors="replace") if isinstance(body, bytes) else (body or "")
    try:
        found = json.loads(text)
    except ValueError:
        return {"message": text[:500]}
    return found if isinstance(found, dict) else {"message": text[:500]}
