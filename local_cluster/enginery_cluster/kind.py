"""CLUSTER=kind: the same cluster description where Docker and kind are there. Called by the command, `images`, `down`.

Not run in our own CI, which has no Docker. Differences from the cluster in namespaces: GPU slices are a number patched
into the node's status (no device plugin, so nothing is allocated), there is no audit log, and the S3 server is a
process on the host that listens on the address of kind's network.
"""

import datetime as dt
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from enginery_cluster import binaries
from enginery_cluster.binaries import KUBEBOX, VERSITYGW
from enginery_cluster.components import S3_PORT
from enginery_cluster.gpu_labels import GPU_LABELS, MIG_COUNT, MIG_RESOURCE
from enginery_cluster.locks import exclusive
from enginery_cluster.places import Places
from enginery_cluster.programs import write_programs
from enginery_cluster.state import S3, Cluster
from enginery_cluster.steps import Steps


def up(name: str) -> None:
    """Create the kind cluster unless it is there, and describe it."""
    if not shutil.which("kind") or not shutil.which("docker"):
        sys.exit("CLUSTER=kind needs kind and docker on the PATH")
    places = Places(name)
    with exclusive(places):
        if places.context in _output("kind", "get", "clusters").split() and places.description.exists():
            return
        steps = Steps("kind", 4)
        kubebox, versitygw = binaries.ensure(KUBEBOX, steps), binaries.ensure(VERSITYGW, steps)
        with steps.step("creating the cluster"):
            delete(places)
            places.state.mkdir(parents=True)
            kubeconfig = ["--kubeconfig", str(places.kubeconfig)]
            subprocess.run(["kind", "create", "cluster", "--name", places.context, *kubeconfig], check=True)
            write_programs(places, kubebox)
        node = f"{places.context}-control-plane"
        with steps.step("labels, slices and the S3 server"):
            _pretend_gpus(places, node)
            s3 = _start_s3(places, versitygw)
        _description(places, node, s3).save()


def load(cluster: Cluster, archive: Path) -> None:
    """Bring an image archive into the cluster."""
    name = Places(cluster.name).context
    subprocess.run(["kind", "load", "image-archive", str(archive), "--name", name], check=True)


def delete(places: Places) -> None:
    """Delete the kind cluster and end its S3 server."""
    subprocess.run(["kind", "delete", "cluster", "--name", places.context], check=True)
    try:
        os.kill(int((places.state / "s3.pid").read_text()), signal.SIGTERM)
    except (OSError, ValueError):
        return


def _pretend_gpus(places: Places, node: str) -> None:
    kubectl = str(places.programs / "kubectl")
    labels = [f"{key}={value}" for key, value in GPU_LABELS.items()]
    subprocess.run([kubectl, "label", "node", node, "--overwrite", *labels], check=True)
    patch = json.dumps({"status": {"capacity": {MIG_RESOURCE: str(MIG_COUNT)}}})
    subprocess.run([kubectl, "patch", "node", node, "--subresource=status", "--patch", patch], check=True)


def _start_s3(places: Places, versitygw: Path) -> S3:
    gateway = _output("docker", "network", "inspect", "kind", "--format", "{{(index .IPAM.Config 0).Gateway}}").strip()
    s3 = S3(f"http://{gateway}:{S3_PORT}", f"root{secrets.token_hex(8)}", secrets.token_urlsafe(30), "us-east-1")
    for folder in ("buckets", "users"):
        (places.data / "s3" / folder).mkdir(parents=True)
    store = places.data / "s3"
    command = [str(versitygw), f"--port={gateway}:{S3_PORT}", f"--iam-dir={store}/users", "--quiet"]
    environment = os.environ | {"ROOT_ACCESS_KEY": s3.access_key, "ROOT_SECRET_KEY": s3.secret_key}
    with (places.state / "s3.log").open("ab") as log:
        server = subprocess.Popen(
            [*command, "posix", f"{store}/buckets"], env=environment, stdout=log, stderr=log, start_new_session=True
        )
    (places.state / "s3.pid").write_text(str(server.pid))
    return s3


def _description(places: Places, node: str, s3: S3) -> Cluster:
    inspect = "{{range .NetworkSettings.Networks}}{{.IPAddress}} {{.Gateway}}{{end}}"
    address, gateway = _output("docker", "inspect", node, "--format", inspect).split()
    return Cluster(
        name=places.name,
        provider="kind",
        context=f"kind-{places.context}",
        kubeconfig=str(places.kubeconfig),
        kubectl=str(places.programs / "kubectl"),
        helm=str(places.programs / "helm"),
        s3=s3,
        node_name=node,
        node_address=address,
        host_address=gateway,
        pod_cidr="10.244.0.0/16",
        service_cidr="10.96.0.0/16",
        audit_log="",
        created_at=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
    )


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
