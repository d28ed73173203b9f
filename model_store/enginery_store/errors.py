"""What can go wrong with the model store, as types whose class says whether trying again can help.

    EngineryError                   reason, message
    ├── PassingError                try again later: nothing is wrong with the request itself
    │   ├── StoreUnavailableError   endpoint unreachable, 5xx, throttled, or the connection broke
    │   └── StoreTLSError           the endpoint's certificate is not trusted
    └── FinalError                  the same request will fail again until somebody changes something
        ├── ObjectMissingError      no object under that key or prefix
        ├── BucketMissingError      no such bucket
        ├── StoreAccessError        the credentials do not allow it, or are wrong
        ├── InvalidLocationError    the URI is not one of ours
        ├── IntegrityError          the bytes are not the ones promised
        ├── SignatureError          no trusted key signed these bytes
        └── DocumentError           a stored or given document is not of its schema

The client raises them from library errors in one place; builder and runtime map `reason` to their exit codes.
"""

from enginery_store.reasons import Reason


class EngineryError(Exception):
    """Base of every error the programs share; `reason` is a word of the API, `message` a sentence for a tenant."""

    reason: Reason = Reason.STORE_UNAVAILABLE
    """What the class stands for; an instance may narrow it."""
    retryable = False
    """Whether the same request may succeed later with nothing changed by anybody."""

    def __init__(self, message: str, *, reason: Reason | None = None) -> None:
        super().__init__(message)
        self.message = message
        if reason is not None:
            self.reason = reason


class PassingError(EngineryError):
    """Trouble that passes by itself: shown as condition Unknown and retried with back-off."""

    retryable = True


class StoreUnavailableError(PassingError):
    """The store did not answer, or answered that it cannot now."""


class StoreTLSError(PassingError):
    """The store's certificate is not signed by a CA this client trusts."""

    reason = Reason.STORE_TLS_FAILED


class FinalError(EngineryError):
    """Trouble that stays until the spec or the source changes: shown as condition False and not retried."""

    reason = Reason.SOURCE_INVALID


class ObjectMissingError(FinalError):
    """Nothing is stored under this key, or below this prefix."""

    reason = Reason.SOURCE_NOT_FOUND


class BucketMissingError(FinalError):
    """The bucket does not exist."""

    reason = Reason.SOURCE_NOT_FOUND


class StoreAccessError(FinalError):
    """The store refused these credentials for this operation."""

    reason = Reason.ACCESS_DENIED


class InvalidLocationError(FinalError):
    """The URI cannot name an object: wrong scheme, a host and port in it, a path that climbs."""

    reason = Reason.INVALID_SPEC


class IntegrityError(FinalError):
    """Size or sha256 differ from what was recorded: the bytes were cut, altered or replaced."""

    reason = Reason.ENGINE_VERIFICATION_FAILED


class SignatureError(FinalError):
    """No key that is trusted here signed these bytes."""

    reason = Reason.ENGINE_VERIFICATION_FAILED


class DocumentError(FinalError):
    """A document does not follow its schema, or is of a version this program does not read."""

    reason = Reason.ENGINE_VERIFICATION_FAILED
