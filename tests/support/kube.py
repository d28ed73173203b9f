"""The API server of a local cluster as tests see it: kubectl as a tenant would type it, and plain reads for polling.

Called by the tests in e2e/. Reads go over one kept-alive connection, because a kubectl process for each poll would be
most of a test's load.
"""

import base64
import json
import ssl
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import yaml
from enginery_cluster.state import Cluster

Object = dict[str, Any]


@dataclass(frozen=True)
class Done:
    """What a kubectl call said."""

    code: int
    out: str
    error: str


@dataclass
class Kube:
    """One cluster."""

    cluster: Cluster = field(repr=False)
    _client: httpx.Client | None = field(default=None, repr=False)

    def kubectl(self, *arguments: str, given: object | None = None, timeout: float = 120) -> str:
        """Output of kubectl, which must succeed; `given` goes in as JSON, or as it is when it is text."""
        done = self.ask_kubectl(*arguments, given=given, timeout=timeout)
        assert done.code == 0, f"kubectl {' '.join(arguments)}: {done.error}"
        return done.out

    def ask_kubectl(self, *arguments: str, given: object | None = None, timeout: float = 120) -> Done:
        """What kubectl says, whether it succeeds or not."""
        text = given if given is None or isinstance(given, str) else json.dumps(given)
        command = [self.cluster.kubectl, *arguments]
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=timeout)
        return Done(done.returncode, done.stdout, done.stderr.strip())

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """A kubectl that runs beside the test."""
        command = [self.cluster.kubectl, *arguments]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def apply(self, *objects: Object) -> None:
        """kubectl apply."""
        self.kubectl("apply", "-f", "-", given={"apiVersion": "v1", "kind": "List", "items": list(objects)})

    def get(self, path: str) -> Object | None:
        """An object or a list by its API path; None when there is none. OSError while the API server is away."""
        try:
            answer = self._http().get(path)
        except httpx.TransportError as error:
            raise OSError(f"the API server does not answer: {error}") from error
        if answer.status_code == 404:
            return None
        if answer.status_code != 200:
            raise OSError(f"{path}: {answer.status_code} {answer.text[:300]}")
        found: Object = answer.json()
        return found

    def items(self, path: str, selector: str = "") -> list[Object]:
        """Items of a list, newest last."""
        listed = self.get(f"{path}?labelSelector={selector}" if selector else path)
        assert listed is not None, f"nothing at {path}"
        return sorted(listed["items"], key=lambda item: str(item["metadata"]["creationTimestamp"]))

    def close(self) -> None:
        if self._client is not None:
            self._client.close()

    def _http(self) -> httpx.Client:
        if self._client is None:
            config = yaml.safe_load(Path(self.cluster.kubeconfig).read_text())
            server, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
            self._client = httpx.Client(base_url=server["server"], verify=_tls(server, user), timeout=10)
        return self._client


def _tls(server: Object, user: Object) -> ssl.SSLContext:
    """The CA and the client certificate of a kubeconfig, given as data or as files."""
    with tempfile.TemporaryDirectory() as folder:

        def path(where: Object, name: str) -> str:
            if name in where:
                return str(where[name])
            file = Path(folder) / name
            file.touch(mode=0o600)
            file.write_bytes(base64.b64decode(where[f"{name}-data"]))
            return str(file)

        context = ssl.create_default_context(cafile=path(server, "certificate-authority"))
        context.load_cert_chain(path(user, "client-certificate"), path(user, "client-key"))
        return context


def condition(model: Object | None, kind: str) -> Object:
    """A condition of an object; one that is not there yet has status and reason "absent"."""
    conditions = ((model or {}).get("status") or {}).get("conditions", [])
    absent = {"type": kind, "status": "absent", "reason": "absent", "message": "", "observedGeneration": -1}
    return next((item for item in conditions if item["type"] == kind), absent)


def summary(model: Object | None) -> str:
    """Every condition in a line each, for the words of a failed test."""
    conditions = ((model or {}).get("status") or {}).get("conditions", [])
    lines = [f"{item['type']}={item['status']} {item['reason']}: {item['message']}" for item in conditions]
    return "\n".join(lines) or "no conditions"
