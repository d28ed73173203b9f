"""Opens the two S3 clients of a run and reads the signing key. Called by `prepare` and `build`, first of all.

The tenant's builder Secret is for the store; the model's own Secret is for its source and data. A model that names no
Secret is read with the builder Secret, which reaches what the tenant's policy allows.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from enginery_store.client import Credentials, StoreClient
from enginery_store.errors import FinalError, SignatureError
from enginery_store.layout import Location, parse_uri
from enginery_store.reasons import Reason
from enginery_store.requests import SIGNING_KEY_NAME, BuildRequest, PrepareRequest
from enginery_store.signing import sign

from enginery_builder.settings import Settings

_ADVICE = (
    f"put an Ed25519 private key under {SIGNING_KEY_NAME} in the tenant's builder Secret"
    f" (`openssl genpkey -algorithm ed25519 -out {SIGNING_KEY_NAME}`) and its public key into the Tenant's"
    " spec.store.publicKeys"
)


@dataclass(frozen=True)
class Stores:
    """What a run reads from and publishes to."""

    store: StoreClient
    source: StoreClient
    prefix: Location
    """The tenant's prefix in the store."""
    signing_key: bytes = field(repr=False)


@contextmanager
def open_stores(request: PrepareRequest | BuildRequest, settings: Settings) -> Iterator[Stores]:
    """Clients for the time of a run. Raises FinalError (ConfigError, AccessDenied) for what a Secret lacks."""
    key = _signing_key(settings.store_credentials)
    own = Credentials.from_folder(settings.store_credentials)
    of_source = _of_source(settings.source_credentials, own)
    store = StoreClient(request.store, own)
    source = StoreClient(request.source_store, of_source)
    try:
        yield Stores(store, source, parse_uri(request.prefix), key)
    finally:
        store.close()
        source.close()


def _of_source(folder: Path, own: Credentials) -> Credentials:
    """What reads the source. A mounted folder means that the model names a Secret; one without files (but for the
    kubelet's own, which are hidden) that there is none. Neither the tenant's credentials nor the node's stand in.
    """
    if not folder.is_dir():
        return own
    if not any(folder.glob("[!.]*")):
        raise FinalError(
            "the Secret that spec.source.credentialsSecretRef names does not exist in this namespace, or is empty;"
            " create it with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or remove credentialsSecretRef",
            reason=Reason.ACCESS_DENIED,
        )
    return Credentials.from_folder(folder)


def _signing_key(folder: Path) -> bytes:
    path = folder / SIGNING_KEY_NAME
    if not path.is_file():
        raise FinalError(f"the signing key is missing; {_ADVICE}", reason=Reason.CONFIG_ERROR)
    key = path.read_bytes()
    try:
        sign(key, b"")
    except SignatureError as error:
        raise FinalError(f"{error.message}; {_ADVICE}", reason=Reason.CONFIG_ERROR) from None
    return key
