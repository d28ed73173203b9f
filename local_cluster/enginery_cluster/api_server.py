"""Questions to the cluster's API server while it starts: one GET, no client library. Called by `up` and `status`.

kubectl would do, but starting it five times a second costs more than the node's own start on two cores.
"""

import http.client
import json
import ssl
from typing import Any

from enginery_cluster.components import API_PORT
from enginery_cluster.places import Places

TIMEOUT_SECONDS = 3.0
"""A healthy local API server answers in milliseconds."""


def get(places: Places, address: str, path: str) -> Any:
    """The parsed answer (text when it is not JSON); None when there is no good answer."""
    try:
        context = ssl.create_default_context(cafile=str(places.pki / "ca.crt"))
        context.load_cert_chain(places.pki / "admin.crt", places.pki / "admin.key")
        connection = http.client.HTTPSConnection(address, API_PORT, timeout=TIMEOUT_SECONDS, context=context)
        connection.request("GET", path)
        response = connection.getresponse()
        body = response.read().decode()
        connection.close()
    except (OSError, http.client.HTTPException):
        return None
    if response.status != http.HTTPStatus.OK:
        return None
    return json.loads(body) if body.startswith("{") else body


def is_ready(places: Places, address: str) -> bool:
    """The API server serves and its own start is over."""
    return bool(get(places, address, "/readyz") == "ok")


def condition(answer: Any, kind: str) -> bool:
    """Whether an object's condition of this type is True."""
    conditions = ((answer or {}).get("status") or {}).get("conditions") or []
    return any(item["type"] == kind and item["status"] == "True" for item in conditions)
