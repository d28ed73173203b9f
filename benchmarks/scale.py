"""How the operator grows: 1, 100 and 1000 models against a real API server, their pods on simulated nodes (KWOK).

Called by `run.py`. For each number: seconds until every model is Ready, milliseconds of a pass, CPU seconds and memory
of the operator's process, and the same for the pass over everything after a restart. A stand-in answers builder Jobs.
"""

import json
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import httpx
from enginery_cluster import platform_team
from enginery_cluster.state import Cluster
from enginery_store.client import Credentials
from stand_in_builder import StandInBuilder

SIMULATED = {"nodeSelector": {"kwok.x-k8s.io/node": "fake"}}
"""Keeps the tenant's pods off the real node."""

POLL_SECONDS = 1.0


@dataclass(frozen=True)
class Row:
    """Figures of one number of models."""

    models: int
    ready_seconds: float
    passes: int
    pass_milliseconds: float
    cpu_seconds: float
    restart_seconds: float
    restart_pass_milliseconds: float
    memory_mib: float


def measure(cluster: Cluster, counts: list[int]) -> list[Row]:
    """One row per number, growing in one cluster: models of the row before stay."""
    nodes = str(max(counts) * 3 // 100 + 2)
    stages = str(Path(__file__).parent / "stages.yaml")
    _run(cluster, "kwok", "--nodes", nodes, "--stages", stages)
    platform_team.kubectl(cluster, "label", "nodes", "-l", "kubernetes.io/hostname!=" + cluster.node_name,
                          "kwok.x-k8s.io/node=fake", "--overwrite")  # fmt: skip
    access = platform_team.add_tenant(cluster, "scale", spec={"scheduling": SIMULATED})
    builder = StandInBuilder(
        cluster,
        "scale",
        Credentials(access.builder.access_key, access.builder.secret_key),
        access.signing_key.encode(),
    )
    builder.start()
    rows, made = [], 0
    try:
        for count in counts:
            rows.append(_grow(cluster, access, made, count))
            made = count
    finally:
        builder.stop()
        platform_team.kubectl(cluster, "delete", "namespace", "scale", "--wait=false")
        platform_team.kubectl(cluster, "delete", "tenant", "scale")
    return rows


def _grow(cluster: Cluster, access: platform_team.TenantAccess, made: int, count: int) -> Row:
    s3 = platform_team.s3_client(cluster, access.uploader)
    models = []
    for number in range(made, count):
        s3.put_object(Bucket=platform_team.MODELS_BUCKET, Key=f"scale/{number}.onnx", Body=str(number).encode())
        models.append(_model(number))
    before, started = _figures(cluster), time.perf_counter()
    for first in range(0, len(models), 100):
        platform_team.apply(cluster, *models[first : first + 100])
    _until_ready(cluster, count)
    seconds, after = time.perf_counter() - started, _figures(cluster)
    restart, fresh = _restart(cluster, count)
    passes = after["passes"] - before["passes"]
    return Row(
        models=count,
        ready_seconds=seconds,
        passes=int(passes),
        pass_milliseconds=1000 * (after["seconds"] - before["seconds"]) / passes,
        cpu_seconds=after["cpu"] - before["cpu"],
        restart_seconds=restart,
        restart_pass_milliseconds=1000 * fresh["seconds"] / max(fresh["passes"], 1),
        memory_mib=fresh["memory"] / 2**20,
    )


def _restart(cluster: Cluster, count: int) -> tuple[float, dict[str, float]]:
    """Seconds from a new operator process to a pass over every model; its figures then."""
    started = time.perf_counter()
    namespace = platform_team.NAMESPACE
    platform_team.kubectl(cluster, "rollout", "restart", "deployment/enginery", "-n", namespace)
    platform_team.kubectl(cluster, "rollout", "status", "deployment/enginery", "-n", namespace, "--timeout=120s")
    while (figures := _figures(cluster))["passes"] < count:
        time.sleep(POLL_SECONDS)
    return time.perf_counter() - started, figures


def _model(number: int) -> dict[str, object]:
    return {
        "apiVersion": "enginery.io/v1alpha1",
        "kind": "InferenceModel",
        "metadata": {"name": f"model-{number}", "namespace": "scale"},
        "spec": {
            "source": {"format": "ONNX", "uri": f"s3://{platform_team.MODELS_BUCKET}/scale/{number}.onnx"},
            "accelerator": {"mode": "CPU"},
        },
    }


def _until_ready(cluster: Cluster, count: int) -> None:
    deadline = time.monotonic() + 1800
    path = '{range .items[*]}{.status.conditions[?(@.type=="Ready")].status}{"\\n"}{end}'
    while time.monotonic() < deadline:
        ready = platform_team.kubectl(cluster, "get", "imodel", "-n", "scale", "-o", f"jsonpath={path}")
        if ready.split().count("True") == count:
            return
        time.sleep(POLL_SECONDS)
    raise RuntimeError(f"not every one of {count} models became Ready")


def _figures(cluster: Cluster) -> dict[str, float]:
    """Passes over models, their seconds, CPU seconds and resident memory, from the operator's own metrics."""
    labels = "app.kubernetes.io/component=operator"
    pods = json.loads(
        platform_team.kubectl(cluster, "get", "pods", "-n", platform_team.NAMESPACE, "-l", labels, "-o", "json")
    )
    living = [pod for pod in pods["items"] if "deletionTimestamp" not in pod["metadata"]]
    text = httpx.get(f"http://{living[0]['status']['podIP']}:8080/metrics", timeout=10).text

    def value(series: str) -> float:
        found = re.search(rf"^{re.escape(series)} (\S+)$", text, re.MULTILINE)
        return float(found.group(1)) if found else 0.0

    return {
        "passes": value('enginery_reconcile_seconds_count{kind="InferenceModel"}'),
        "seconds": value('enginery_reconcile_seconds_sum{kind="InferenceModel"}'),
        "cpu": value("process_cpu_seconds_total"),
        "memory": value("process_resident_memory_bytes"),
    }


def _run(cluster: Cluster, *arguments: str) -> None:
    command = [sys.executable, "-m", "enginery_cluster", arguments[0], "--name", cluster.name, *arguments[1:]]
    subprocess.run(command, check=True)
