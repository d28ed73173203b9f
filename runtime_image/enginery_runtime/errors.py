"""What goes wrong in the runtime, as types that say what the client or the platform is told.

    RequestError                 one request is refused; the server is unharmed
    ├── InvalidRequestError      400 INVALID_ARGUMENT    the message names the field
    ├── NotFoundError            404 NOT_FOUND           unknown model, version or endpoint
    ├── TooLargeError            413 RESOURCE_EXHAUSTED  the message states the limit
    ├── BusyError                429 RESOURCE_EXHAUSTED  queue or memory budget is full; try again
    ├── UnavailableError         503 UNAVAILABLE         loading, draining or broken; try again, maybe elsewhere
    ├── QueueTimeoutError        504 DEADLINE_EXCEEDED   waited longer than the limit
    ├── CancelledRequestError    499 CANCELLED           the client went away
    └── ExecutionError           500 INTERNAL            the engine failed on this request
    StartError (EngineryError)   the process ends with the reason's exit code and a termination message
    ├── EngineDeviceMismatchError  no engine for this device, or built with another backend version
    ├── EngineVerificationError    the manifest is not the one asked for
    ├── EngineLoadError            the backend refuses the engine, or its warm-up fails
    └── ConfigurationError         settings or the request document are wrong

Front ends translate the first tree, `__main__` the second; the store's own errors carry reasons already.
"""

from enginery_store.errors import FinalError
from enginery_store.reasons import Reason

RETRY_AFTER_SECONDS = 1
"""What a refused client is told to wait: a queue drains, and another replica is found, within a second."""

MESSAGE_LIMIT = 1000
"""Characters of a message: it may quote what a client sent, and gRPC sends it as a header."""


class RequestError(Exception):
    """Base of every refusal: `status` is HTTP's number, `code` the name of gRPC's."""

    status = 500
    code = "INTERNAL"
    retry_after_seconds: int | None = None
    """Sent as Retry-After where trying again makes sense."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message[:MESSAGE_LIMIT]


class InvalidRequestError(RequestError):
    """The request contradicts the protocol or the model; the message names the field."""

    status = 400
    code = "INVALID_ARGUMENT"


class NotFoundError(RequestError):
    """No such model, version or endpoint here."""

    status = 404
    code = "NOT_FOUND"


class TooLargeError(RequestError):
    """The request is larger than one may be."""

    status = 413
    code = "RESOURCE_EXHAUSTED"


class BusyError(RequestError):
    """The queue, or the memory set aside for requests, is full."""

    status = 429
    code = "RESOURCE_EXHAUSTED"
    retry_after_seconds = RETRY_AFTER_SECONDS


class UnavailableError(RequestError):
    """The model is not ready yet, or not any more."""

    status = 503
    code = "UNAVAILABLE"
    retry_after_seconds = RETRY_AFTER_SECONDS


class QueueTimeoutError(RequestError):
    """The request waited longer than its limit and was never run."""

    status = 504
    code = "DEADLINE_EXCEEDED"


class CancelledRequestError(RequestError):
    """The client hung up or cancelled; nobody reads this answer, but it is counted."""

    status = 499
    code = "CANCELLED"


class ExecutionError(RequestError):
    """The engine failed on this request."""


class StartError(FinalError):
    """Base of what ends the process before it is ready."""

    reason = Reason.ENGINE_LOAD_FAILED


class EngineDeviceMismatchError(StartError):
    """No engine was built for this device and this backend version."""

    reason = Reason.ENGINE_DEVICE_MISMATCH


class EngineVerificationError(StartError):
    """The manifest is not that of the engine asked for."""

    reason = Reason.ENGINE_VERIFICATION_FAILED


class EngineLoadError(StartError):
    """The engine is not stored, the backend refuses it, or its warm-up fails."""


class ConfigurationError(StartError):
    """The environment the operator gave contradicts itself."""

    reason = Reason.CONFIG_ERROR
