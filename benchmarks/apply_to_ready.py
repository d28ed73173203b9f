"""Seconds from `kubectl apply` to Ready, split by phase, on the local cluster's real kubelet. Called by `run.py`.

Phases are what a watch saw first: no clock of a container is compared with another's.
"""

import json
import subprocess
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from enginery_cluster import platform_team
from enginery_cluster.state import Cluster

PHASES = (
    "prepare Job created",
    "prepare pod running",
    "prepare Job complete",
    "build Job created",
    "build pod running",
    "build Job complete",
    "Deployment created",
    "runtime pod running",
    "runtime pod ready",
    "Ready",
)
"""In the order in which they happen."""


@dataclass
class Watcher:
    """Notes when each phase was first seen in a namespace."""

    cluster: Cluster
    namespace: str
    model: str
    seen: dict[str, float] = field(default_factory=dict)
    _processes: list[subprocess.Popen[str]] = field(default_factory=list)

    def start(self) -> None:
        """Watch Jobs, pods, Deployments and models through kubectl, each in a thread."""
        for kind in ("jobs", "pods", "deployments", "inferencemodels"):
            command = [self.cluster.kubectl, "get", kind, "-n", self.namespace, "-w", "-o", "json"]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            self._processes.append(process)
            threading.Thread(target=self._read, args=(process,), daemon=True).start()

    def stop(self) -> None:
        """End the watches."""
        for process in self._processes:
            process.terminate()
            process.wait()

    def _read(self, process: subprocess.Popen[str]) -> None:
        decoder, text = json.JSONDecoder(), ""
        assert process.stdout is not None
        for line in process.stdout:
            text += line
            if not line.startswith("}"):
                continue
            while text.strip():
                obj, end = decoder.raw_decode(text.lstrip())
                text = text.lstrip()[end:]
                self._note(obj)

    def _note(self, obj: dict[str, Any]) -> None:
        now, labels = time.perf_counter(), obj["metadata"].get("labels", {})
        if self.model not in {labels.get("enginery.io/model"), obj["metadata"]["name"]}:
            return
        component = labels.get("app.kubernetes.io/component", "")
        conditions = {c["type"]: c["status"] for c in obj.get("status", {}).get("conditions", [])}
        facts = {
            "Job": [(f"{component} Job created", True), (f"{component} Job complete", conditions.get("Complete"))],
            "Pod": [
                (f"{component} pod running", obj.get("status", {}).get("phase") in {"Running", "Succeeded"}),
                (f"{component} pod ready", conditions.get("Ready") == "True"),
            ],
            "Deployment": [("Deployment created", True)],
            "InferenceModel": [("Ready", conditions.get("Ready") == "True")],
        }
        for phase, happened in facts[obj["kind"]]:
            if happened and phase in PHASES:
                self.seen.setdefault(phase, now)


def measure(cluster: Cluster, manifest: dict[str, Any]) -> dict[str, float]:
    """Apply a model and return seconds since the apply at which each phase was first seen."""
    namespace, name = manifest["metadata"]["namespace"], manifest["metadata"]["name"]
    watcher = Watcher(cluster, namespace, name)
    watcher.start()
    try:
        started = time.perf_counter()
        platform_team.apply(cluster, manifest)
        wait = ["wait", "--for=condition=Ready", f"imodel/{name}", "-n", namespace, "--timeout=300s"]
        platform_team.kubectl(cluster, *wait)
        watcher.seen.setdefault("Ready", time.perf_counter())
    finally:
        watcher.stop()
    return {phase: watcher.seen[phase] - started for phase in PHASES if phase in watcher.seen}
