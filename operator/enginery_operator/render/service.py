"""The Service of a model: its name is the model's, it selects the revision that serves. Pure; called by `reconcile`."""

from typing import Any

from enginery_operator.api.v1alpha1 import InferenceModel, Tenant
from enginery_operator.render import labels
from enginery_operator.render.deployment import PORTS

_PORT_OF = {"REST": "http", "GRPC": "grpc"}
"""Which of the runtime's ports speaks which of spec.serving.protocols."""


def service(model: InferenceModel, tenant: Tenant, revision: str) -> dict[str, Any]:
    """A ClusterIP Service; switching the selector moves all new connections to another revision at once.

    Only the protocols of the spec have a port; the server listens on both, as its health is asked over either.
    """
    names = [*(_PORT_OF[protocol] for protocol in model.spec.serving.protocols), "metrics"]
    own = labels.labels(model, tenant, "service", revision)
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": labels.metadata(model, model.name, own),
        "spec": {
            "type": "ClusterIP",
            "selector": labels.selector(model, revision),
            "ports": [
                {"name": name, "port": PORTS[name], "targetPort": name, "protocol": "TCP"}
                | ({"appProtocol": "kubernetes.io/h2c"} if name == "grpc" else {})
                for name in names
            ],
        },
    }


def urls(model: InferenceModel) -> dict[str, str]:
    """Addresses inside the cluster, by protocol."""
    host = f"{model.name}.{model.namespace}.svc"
    schemes = {"REST": "http", "GRPC": "grpc"}
    return {name: f"{schemes[name]}://{host}:{PORTS[_PORT_OF[name]]}" for name in model.spec.serving.protocols}
