"""`status` and `env`: what a person wants to know about a running cluster. Called by the command."""

import os
import shlex

from enginery_cluster import api_server, node_spec
from enginery_cluster.leftovers import leftovers
from enginery_cluster.node_process import pid_of_node
from enginery_cluster.places import Places, cluster_names
from enginery_cluster.state import Cluster, NoClusterError
from enginery_cluster.up import build_digest


def environment(name: str) -> str:
    """Lines for `eval`: kubectl, helm and S3 clients of the shell then speak to the cluster."""
    cluster = Cluster.load(name)
    values = {
        "KUBECONFIG": cluster.kubeconfig,
        "PATH": f"{Places(name).programs}:{os.environ.get('PATH', '')}",
        "AWS_ENDPOINT_URL_S3": cluster.s3.endpoint,
        "AWS_ACCESS_KEY_ID": cluster.s3.access_key,
        "AWS_SECRET_ACCESS_KEY": cluster.s3.secret_key,
        "AWS_REGION": cluster.s3.region,
    }
    return "\n".join(f"export {key}={shlex.quote(value)}" for key, value in values.items())


def status() -> str:
    """One line per cluster of this checkout, and what an incomplete one left."""
    return "\n".join(_line(name) for name in cluster_names()) or "no clusters"


def _line(name: str) -> str:
    places = Places(name)
    try:
        cluster = Cluster.load(name)
    except NoClusterError:
        return f"{name}: incomplete; `make cluster-down NAME={name}` removes: {'; '.join(leftovers(name))}"
    if cluster.provider != "namespaces":
        return f"{name}: {cluster.provider}, context {cluster.context}"
    if pid_of_node(places) is None:
        return f"{name}: its node has ended; up replaces it"
    if cluster.build != build_digest():
        return f"{name}: started by another version of this package; up replaces it"
    ready = "ready" if api_server.is_ready(places, cluster.node_address) else "API server does not answer"
    stopped = node_spec.read(places).stopped
    out = f", out of service: {', '.join(stopped)}" if stopped else ""
    return f"{name}: {ready}, context {cluster.context}, node {cluster.node_address}, S3 {cluster.s3.endpoint}{out}"
