"""The Service of a model: its name is the model's, it selects the revision that serves. Pure; called by `reconcile`."""

from typing import Any

from enginery_operator.api.v1alpha1 import InferenceModel, Tenant
from enginery_operator.render import labels
from enginery_operator.render.deployment import PORTS


def service(model: InferenceModel, tenant: Tenant, revision: str) -> dict[str, Any]:
    """A ClusterIP Service; switching the selector moves all new connections to another revision at once."""
    own = labels.labels(model, tenant, "service", revision)
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": labels.metadata(model, model.name, own),
        "spec": {
            "type": "ClusterIP",
            "selector": labels.selector(model, revision),
            "ports": [
                {"name": name, "port": port, "targetPort": name, "protocol": "TCP"}
                | ({"appProtocol": "kubernetes.io/h2c"} if name == "grpc" else {})
                for name, port in PORTS.items()
            ],
        },
    }


def urls(model: InferenceModel) -> dict[str, str]:
    """Addresses inside the cluster, by protocol."""
    host = f"{model.name}.{model.namespace}.svc"
    every = {"REST": f"http://{host}:{PORTS['http']}", "GRPC": f"grpc://{host}:{PORTS['grpc']}"}
    return {protocol: every[protocol] for protocol in model.spec.serving.protocols}
