"""Ed25519 signatures of manifests: pure functions over bytes. The builder signs, the runtime and the operator verify.

A signature file is the base64 of the 64 raw bytes, so that `openssl pkeyutl -verify -rawin` can check it by hand.
"""

import base64
import binascii
from collections.abc import Sequence

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key

from enginery_store.errors import SignatureError
from enginery_store.reasons import Reason


def sign(private_key_pem: bytes, payload: bytes) -> bytes:
    """Base64 signature of `payload`. Raises SignatureError (ConfigError) when the key is no Ed25519 PEM."""
    try:
        key = load_pem_private_key(private_key_pem, password=None)
    except (ValueError, TypeError) as error:
        raise SignatureError(f"the signing key is not a PEM private key: {error}", reason=Reason.CONFIG_ERROR) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise SignatureError(
            "the signing key is not Ed25519; make one with `openssl genpkey -algorithm ed25519`",
            reason=Reason.CONFIG_ERROR,
        )
    return base64.b64encode(key.sign(payload)) + b"\n"


def verify(public_keys_pem: Sequence[str], payload: bytes, signature: bytes) -> None:
    """Return when one of the keys signed `payload`; raise SignatureError otherwise. Several keys serve rotation:
    one that is none is skipped, so that a slip in the new one does not take the old one's word away, and told when no
    other key signed.
    """
    slip: str | None = None
    try:
        raw = base64.b64decode(signature, validate=False)
    except binascii.Error:
        raise SignatureError("the signature is not base64") from None
    for pem in public_keys_pem:
        try:
            key = load_pem_public_key(pem.encode())
        except ValueError:
            slip = "a trusted public key is not PEM"
            continue
        if not isinstance(key, Ed25519PublicKey):
            slip = "a trusted public key is not Ed25519"
            continue
        try:
            key.verify(raw, payload)
        except InvalidSignature:
            continue
        return
    if slip is not None:
        raise SignatureError(f"{slip}, and no other signed this manifest", reason=Reason.CONFIG_ERROR)
    raise SignatureError(f"none of the {len(public_keys_pem)} trusted keys signed this manifest")
