"""CLUSTER=existing: describe a cluster that the user has, so that the later steps are the same. Called by the command.

KUBECONFIG names the cluster; kubectl and helm are the user's. The model store and the images come from the environment:

    S3_ENDPOINT S3_ACCESS_KEY S3_SECRET_KEY [S3_REGION]   IMAGE_OPERATOR IMAGE_BUILDER IMAGE_RUNTIME
"""

import datetime as dt
import os
import shutil
import subprocess
import sys

from enginery_cluster.places import Places
from enginery_cluster.state import S3, Cluster, Images
from enginery_cluster.steps import say


def up(name: str) -> None:
    """Write cluster.json from the environment."""
    kubectl, helm = shutil.which("kubectl"), shutil.which("helm")
    if not kubectl or not helm:
        sys.exit("CLUSTER=existing needs kubectl and helm on the PATH")
    kubeconfig = _needed("KUBECONFIG")
    context = subprocess.run([kubectl, "config", "current-context"], capture_output=True, text=True, check=True)
    Cluster(
        name=name,
        provider="existing",
        context=context.stdout.strip(),
        kubeconfig=kubeconfig,
        kubectl=kubectl,
        helm=helm,
        s3=s3_of_environment(),
        node_name="",
        node_address="",
        host_address="",
        pod_cidr="",
        service_cidr="",
        audit_log="",
        created_at=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        images=Images(_needed("IMAGE_OPERATOR"), _needed("IMAGE_BUILDER"), _needed("IMAGE_RUNTIME")),
    ).save()
    say(f"cluster {name} is the one of {kubeconfig}; see {Places(name).description}")


def s3_of_environment() -> S3:
    """The model store that the user gives."""
    region = os.environ.get("S3_REGION", "us-east-1")
    return S3(_needed("S3_ENDPOINT"), _needed("S3_ACCESS_KEY"), _needed("S3_SECRET_KEY"), region)


def _needed(variable: str) -> str:
    value = os.environ.get(variable, "")
    if not value:
        sys.exit(f"CLUSTER=existing needs {variable} in the environment")
    return value
