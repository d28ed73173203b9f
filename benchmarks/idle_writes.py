"""Writes of an idle operator: twenty Ready models, ten minutes, the API server's own audit log.

    python benchmarks/idle_writes.py [--models 20] [--minutes 10] [--name bench]

Prints every write of the operator's user by verb and resource; only its Lease is expected.
"""

import argparse
import subprocess
import sys
import time
from collections import Counter

from enginery_cluster import platform_team
from enginery_cluster.state import Cluster
from support.audit import OPERATOR, Audit
from support.linear_model import linear


def _serve(cluster: Cluster, count: int) -> None:
    """Models of their own content each, so that each has an engine of its own."""
    access = platform_team.add_tenant(cluster, "idle")
    s3 = platform_team.s3_client(cluster, access.uploader)
    for number in range(count):
        s3.put_object(Bucket=platform_team.MODELS_BUCKET, Key=f"idle/{number}.onnx", Body=linear(float(number + 1)))
    platform_team.apply(cluster, *(_model(number) for number in range(count)))
    platform_team.kubectl(cluster, "wait", "--for=condition=Ready", "imodel", "--all", "-n", "idle", "--timeout=900s")


def _model(number: int) -> dict[str, object]:
    return {
        "apiVersion": "enginery.io/v1alpha1",
        "kind": "InferenceModel",
        "metadata": {"name": f"linear-{number}", "namespace": "idle"},
        "spec": {
            "source": {"format": "ONNX", "uri": f"s3://{platform_team.MODELS_BUCKET}/idle/{number}.onnx"},
            "accelerator": {"mode": "CPU"},
            "serving": {"resources": {"requests": {"cpu": "10m", "memory": "200Mi"}}},
        },
    }


def main() -> int:
    """Exit code 1 when anything but the Lease was written."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=20)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--name", default="bench", help="which cluster of this checkout")
    options = parser.parse_args()
    for command in ("up", "images"):
        subprocess.run([sys.executable, "-m", "enginery_cluster", command, "--name", options.name], check=True)
    cluster = Cluster.load(options.name)
    platform_team.install(cluster)
    _serve(cluster, options.models)
    time.sleep(30)  # counts in the Tenant's status follow the last model by some seconds
    audit = Audit.from_now(cluster.audit_log)
    time.sleep(options.minutes * 60)
    counts = Counter((item.verb, item.resource) for item in audit.writes() if item.user == OPERATOR)
    print(f"{options.models} Ready models, {options.minutes:g} minutes idle; writes of {OPERATOR}:")
    for (verb, resource), number in sorted(counts.items()):
        print(f"  {number:6d} {verb} {resource}")
    return 0 if {resource for _, resource in counts} <= {"leases"} else 1


if __name__ == "__main__":
    sys.exit(main())
