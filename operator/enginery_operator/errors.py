"""What the operator's own I/O can raise. The class is the retry decision.

    ClusterError
    ├── ClusterUnavailableError   the API server did not answer, throttles, or is overloaded: try the pass again
    ├── ConflictError             the object changed meanwhile: try the pass again
    │   └── ExistsError           an object of that name is there already
    ├── RefusedError              admission, quota or validation said no; the message is for the tenant
    └── GoneError                 the object or its namespace is being deleted: look again later

`cluster.py` raises them, the work queue in `workqueue.py` retries every one but GoneError with back-off.
"""


class ClusterError(Exception):
    """Base: the API server's answer was not success."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.status = status


class ClusterUnavailableError(ClusterError):
    """No answer, 429 or 5xx."""


class ConflictError(ClusterError):
    """409 on an update."""


class ExistsError(ConflictError):
    """409 AlreadyExists on a create; a 409 Conflict on a create (of a quota's count, say) is not one."""


class RefusedError(ClusterError):
    """403 or 422: retried with back-off, because quota and policies change, and shown to the tenant."""


class GoneError(ClusterError):
    """404 on an update, or a namespace that is terminating."""
