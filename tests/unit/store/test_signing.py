"""Signatures of manifests: what verifies, what does not, and what is the installation's fault."""

import base64
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from enginery_store.errors import SignatureError
from enginery_store.reasons import Reason
from enginery_store.signing import sign, verify

KEY, OTHER = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
ELLIPTIC = generate_private_key(SECP256R1())
PAYLOAD = b'{"kind": "Engine"}'


def private(key: Ed25519PrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def public(key: Ed25519PrivateKey) -> str:
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def test_signature_verifies_with_its_key_and_during_rotation() -> None:
    signature = sign(private(KEY), PAYLOAD)

    verify([public(KEY)], PAYLOAD, signature)
    verify([public(OTHER), public(KEY)], PAYLOAD, signature)


def test_openssl_reads_what_we_sign(tmp_path: Path) -> None:
    (tmp_path / "payload").write_bytes(PAYLOAD)
    (tmp_path / "raw").write_bytes(base64.b64decode(sign(private(KEY), PAYLOAD)))
    (tmp_path / "key.pem").write_text(public(KEY))
    command = "openssl pkeyutl -verify -rawin -pubin -inkey key.pem -in payload -sigfile raw"

    subprocess.run(command.split(), cwd=tmp_path, check=True, capture_output=True)


@pytest.mark.parametrize("byte", range(0, 64, 7))
def test_one_altered_byte_of_the_signature_fails(byte: int) -> None:
    raw = bytearray(base64.b64decode(sign(private(KEY), PAYLOAD)))
    raw[byte] ^= 1

    with pytest.raises(SignatureError):
        verify([public(KEY)], PAYLOAD, base64.b64encode(bytes(raw)))


BAD: dict[str, tuple[list[str], bytes, bytes]] = {
    "another payload": ([public(KEY)], b"other", sign(private(KEY), PAYLOAD)),
    "another key": ([public(OTHER)], PAYLOAD, sign(private(KEY), PAYLOAD)),
    "no trusted key": ([], PAYLOAD, sign(private(KEY), PAYLOAD)),
    "no base64": ([public(KEY)], PAYLOAD, b"\xff\xfe!"),
    "nothing": ([public(KEY)], PAYLOAD, b""),
}


@pytest.mark.parametrize("case", BAD.values(), ids=BAD.keys())
def test_what_no_trusted_key_signed_is_refused(case: tuple[list[str], bytes, bytes]) -> None:
    with pytest.raises(SignatureError) as caught:
        verify(*case)
    assert caught.value.reason == Reason.ENGINE_VERIFICATION_FAILED


KEYS = {
    "no PEM": b"junk",
    "nothing": b"",
    "an EC key": ELLIPTIC.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
    "an encrypted key": KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"x")),
    "a public key": public(KEY).encode(),
}


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS.keys())
def test_key_that_cannot_sign_is_a_config_error(key: bytes) -> None:
    with pytest.raises(SignatureError) as caught:
        sign(key, PAYLOAD)
    assert caught.value.reason == Reason.CONFIG_ERROR


def test_trusted_key_that_is_none_is_a_config_error() -> None:
    elliptic = ELLIPTIC.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    for key in ("junk", elliptic):
        with pytest.raises(SignatureError) as caught:
            verify([key], PAYLOAD, sign(private(KEY), PAYLOAD))
        assert caught.value.reason == Reason.CONFIG_ERROR


def test_a_slip_in_one_trusted_key_takes_no_other_ones_word_away() -> None:
    elliptic = ELLIPTIC.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    signature = sign(private(KEY), PAYLOAD)
    verify(["junk", elliptic, public(KEY)], PAYLOAD, signature)
    with pytest.raises(SignatureError, match="not PEM, and no other signed this manifest"):
        verify([public(OTHER), "junk"], PAYLOAD, signature)
